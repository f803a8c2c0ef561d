#include "tests/harness/worker/job.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/segment.h"

static int bell(void)
{
    return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

static void channel_open(struct job *job, uint32_t handle, const struct channel_shape *shape,
                         struct job_channel *channel)
{
    const struct proto_channel ask = {.handle = handle, .slots = shape->slots};
    struct channel_map *map = &channel->map;
    struct channel_header *header;
    int fd = channel_create(shape);

    memset(channel, 0, sizeof(*channel));
    channel->job = job;
    host_require(fd >= 0 && channel_map(fd, map) == TS_OK, "the rings of a channel");
    header = map->header;
    ring_producer_init(&channel->sq, &header->sq_words, channel_bytes(map, &map->sq), map->sq.size,
                       map->sq.start);
    ring_consumer_init(&channel->cq, &header->cq_words, channel_bytes(map, &map->cq), map->cq.size,
                       map->cq.start);
    ring_producer_init(&channel->ntx, &header->ntx_words, channel_bytes(map, &map->ntx),
                       map->ntx.size, map->ntx.start);
    ring_consumer_init(&channel->nrx, &header->nrx_words, channel_bytes(map, &map->nrx),
                       map->nrx.size, map->nrx.start);
    host_require(channel_add(job->session, &ask, fd, bell(), bell()) == TS_OK, "a channel");
    channel->channel = job->session->channels[handle];
}

void job_attach(struct job *job, struct host *host, const struct job_shape *shape)
{
    const struct channel_shape rings = {.slots = shape->slots > 0 ? shape->slots : 16,
                                        .notify_max = shape->notify_max > 0 ? shape->notify_max
                                                                            : HOST_NOTIFY_MAX,
                                        .mailbox = true};
    struct proto_session session = {.uid = shape->uid > 0 ? shape->uid : JOB_UID,
                                    .pid = (uint32_t)getpid(),
                                    .start_time = process_start_time(getpid()),
                                    .flags = shape->flags,
                                    .trusted = !shape->untrusted};

    memset(job, 0, sizeof(*job));
    job->host = host;
    snprintf(session.segment, sizeof(session.segment), "%s", shape->segment);
    host_require(session_add(&host->worker, shape->handle, &session,
                             open("/dev/null", O_RDONLY | O_CLOEXEC)) == TS_OK,
                 "a session");
    job->session = session_find(&host->worker, shape->handle);
    channel_open(job, 0, &rings, &job->main);
}

void job_detach(struct job *job)
{
    session_delete(job->session);
    job_channel_close(&job->main);
    for (unsigned i = 0; i < JOB_MEMORIES; i++)
        if (job->memory[i].bytes != NULL)
            munmap(job->memory[i].bytes, job->memory[i].length);
    memset(job, 0, sizeof(*job));
}

void job_channel_add(struct job *job, uint32_t handle, struct job_channel *channel)
{
    const struct channel_shape rings = {.slots = 16, .notify_max = job->main.map.notify_max};

    channel_open(job, handle, &rings, channel);
}

void job_channel_close(struct job_channel *channel)
{
    channel_unmap(&channel->map);
}

/* ---- memory and segments ---- */

void job_region(struct job *job, uint32_t index, const struct proto_region *ask, int fd)
{
    struct proto_region region = *ask;
    char text[PROTO_TEXT_MAX] = "";

    region.handle = JOB_HANDLE(index);
    host_require(region_add(job->session, &region, fd, text, sizeof(text)) == TS_OK, text);
    host_until(!job_region_of(job, index)->registering);
}

uint8_t *job_memory(struct job *job, uint32_t index, uint64_t length, uint32_t access)
{
    const struct proto_region ask = {
        .kind = REGION_KIND_SHARED, .access = access, .length = length};
    int fd = segment_create("memory of a job", length);
    void *bytes = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    host_require(bytes != MAP_FAILED && index < JOB_MEMORIES, "memory of a job");
    job_region(job, index, &ask, fd);
    job->memory[index].bytes = bytes;
    job->memory[index].length = length;
    return bytes;
}

struct region *job_region_of(const struct job *job, uint32_t index)
{
    void *object = NULL;

    (void)table_get(&job->session->regions, JOB_HANDLE(index), &object);
    return object;
}

struct remote *job_open(struct job *job, uint32_t index, struct endpoint *endpoint,
                        const char *segment, uint32_t open_id)
{
    struct proto_remote ask = {.handle = JOB_HANDLE(index), .timeout_ms = JOB_OPEN_MS};
    char text[PROTO_TEXT_MAX] = "";
    struct endpoint *attempt;
    struct remote *remote;
    void *object = NULL;

    snprintf(ask.name, sizeof(ask.name), "127.0.0.1:1/%s", segment);
    host_require(remote_add(job->session, &ask, open_id, text, sizeof(text)) == TS_OK, text);
    host_require(table_get(&job->session->remotes, ask.handle, &object) == TS_OK, "a remote");
    remote = object;
    attempt = remote->endpoint;
    endpoint_hand_over(attempt, endpoint);
    endpoint_handle(attempt, ENDPOINT_EVENT_DRAINED, TS_OK, "");
    return remote;
}

/* ---- what libtesup does ---- */

static void note_write(struct job_channel *channel, struct sqe *sqe, const struct job_note *note)
{
    struct notify_record record = {
        .kind = NOTIFY_KIND_MESSAGE, .name_len = note->name_len, .msg_len = note->msg_len};
    uint8_t *at;

    record.size = (uint32_t)ring_record_size(0, note->name_len, note->msg_len);
    host_require(ring_record_claim(&channel->ntx, record.size, &at) == TS_OK, "room in ntx");
    sqe->flags |= SQE_FLAG_NOTIFY;
    sqe->notify_pos = channel->ntx.tail - record.size;
    sqe->notify_len = record.size;
    memcpy(at, &record, sizeof(record));
    if (note->name_len > 0)
        memcpy(at + sizeof(record), note->name, note->name_len);
    if (note->msg_len > 0)
        memcpy(at + sizeof(record) + note->name_len, note->msg, note->msg_len);
    ring_producer_publish(&channel->ntx);
}

static uint64_t sqe_push(struct job_channel *channel, const struct sqe *sqe)
{
    host_require(ring_producer_room(&channel->sq, 1) == TS_OK, "room in sq");
    memcpy(ring_slot_next(&channel->sq, sizeof(*sqe)), sqe, sizeof(*sqe));
    channel->sq.tail++;
    ring_producer_publish(&channel->sq);
    return channel->sq.tail - 1;
}

uint64_t job_submit(struct job_channel *channel, const struct sqe *sqe, const struct job_note *note)
{
    struct sqe copy = *sqe;
    uint16_t slot = 0;

    while (slot < channel->map.slots && channel->busy[slot])
        slot++;
    host_require(slot < channel->map.slots && slot < JOB_SLOTS_MAX, "a free slot");
    copy.slot = slot;
    if (note != NULL)
        note_write(channel, &copy, note);
    channel->busy[slot] = true;
    channel->tickets[slot] = sqe_push(channel, &copy);
    return channel->tickets[slot];
}

static int slot_of(const struct job_channel *channel, uint64_t ticket)
{
    for (int slot = 0; slot < (int)JOB_SLOTS_MAX; slot++)
        if (channel->busy[slot] && channel->tickets[slot] == ticket)
            return slot;
    return -1;
}

void job_cancel(struct job_channel *channel, uint64_t ticket)
{
    int slot = slot_of(channel, ticket);
    const struct sqe sqe = {
        .op = SQE_CANCEL, .slot = (uint16_t)(slot >= 0 ? slot : 0), .local_offset = ticket};

    sqe_push(channel, &sqe);
}

struct request *job_request(struct job_channel *channel, uint64_t ticket)
{
    int slot = slot_of(channel, ticket);
    struct request *request = slot >= 0 ? &channel->channel->requests[slot] : NULL;

    return request != NULL && request->state != REQUEST_FREE && request->ticket == ticket ? request
                                                                                          : NULL;
}

bool job_complete(struct job_channel *channel, struct cqe *cqe)
{
    uint64_t ready = 0;

    host_require(ring_consumer_ready(&channel->cq, &ready) == TS_OK, "honest completions");
    if (ready == 0)
        return false;
    ring_slot_read(&channel->cq, cqe, sizeof(*cqe));
    channel->cq.head++;
    ring_consumer_publish(&channel->cq);
    host_require(cqe->slot < JOB_SLOTS_MAX && channel->busy[cqe->slot] &&
                     channel->tickets[cqe->slot] == cqe->ticket,
                 "a completion of something that was submitted, and only one");
    channel->busy[cqe->slot] = false;
    return true;
}

struct cqe job_completion(struct job_channel *channel, uint64_t ticket)
{
    struct cqe cqe = {.status = 0};

    host_until(job_complete(channel, &cqe));
    host_require(cqe.ticket == ticket, "another request was completed first");
    return cqe;
}

bool job_mail(struct job *job, struct job_mail *mail)
{
    struct ring_consumer *ring = &job->main.nrx;
    struct notify_record *record = &mail->record;
    const uint8_t *body;
    int rc = ring_record_peek(ring, record, &body);

    host_require(rc >= 0, "honest records in the mailbox");
    if (rc == TS_AGAIN)
        return false;
    host_require(record->from_len < sizeof(mail->from) && record->name_len <= sizeof(mail->name) &&
                     record->msg_len <= sizeof(mail->msg),
                 "a record of the size that was sent");
    memcpy(mail->from, body, record->from_len);
    mail->from[record->from_len] = '\0';
    memcpy(mail->name, body + record->from_len, record->name_len);
    memcpy(mail->msg, body + record->from_len + record->name_len, record->msg_len);
    ring_record_consume(ring, record);
    ring_consumer_publish(ring);
    return true;
}
