/* A channel: its rings, its request slots, and its way to new rings after a loss. */
#include "client/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "shm/table.h"

#define WINDOW_MIN   (256u * 1024u) /* notification bytes in flight to one remote */
#define IDLE_POLLS   64u            /* empty calls between two looks at the clock */
#define IDLE_LOOK_MS 100u           /* between two looks at the supervisor */

void channel_fds_close(struct channel_fds *fds)
{
    if (fds->memfd >= 0)
        close(fds->memfd);
    if (fds->worker_bell >= 0)
        close(fds->worker_bell);
    if (fds->job_bell >= 0)
        close(fds->job_bell);
    *fds = (struct channel_fds){.memfd = -1, .worker_bell = -1, .job_bell = -1};
}

int channel_break(struct tesup_channel *channel, const char *what)
{
    channel->broken = true;
    return error_set(TS_ERR_PROTOCOL,
                     "%s: worker %s or this process wrote over the channel's shared memory; close "
                     "the channel (or detach) and open a new one",
                     what, channel->session->worker);
}

void channel_slot_release(struct tesup_channel *channel, uint32_t slot)
{
    struct slot_note *note = &channel->notes[slot];

    note->used = false;
    channel->window[note->window] -= note->notify_bytes;
    channel->in_flight--;
    channel->free_slots[channel->slots - channel->in_flight - 1] = (uint16_t)slot;
}

static int map_error(int rc)
{
    if (rc == TS_ERR_SYSTEM || rc == TS_ERR_NO_MEMORY)
        return error_system("mapping the channel");
    return error_set(rc, rc == TS_ERR_VERSION
                             ? "the channel has another layout than this library knows; install "
                               "library and supervisor from one release"
                             : "the channel that the supervisor sent is malformed");
}

static int channel_watch(struct tesup_channel *channel, int fd, uint32_t events, bool on)
{
    struct epoll_event event = {.events = events, .data.fd = fd};

    return epoll_ctl(channel->epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, &event);
}

int channel_watch_socket(struct tesup_channel *channel, int socket, bool on)
{
    return channel_watch(channel, socket, EPOLLIN | EPOLLRDHUP, on);
}

/* Gives up the rings of now; notifications that nobody has read yet are kept aside. */
static void channel_leave_rings(struct tesup_channel *channel)
{
    uint64_t ready = 0;

    if (channel->map.header == NULL)
        return;
    channel_watch(channel, channel->job_bell.fd, 0, false);
    close(channel->job_bell.fd);
    close(channel->worker_bell.fd);
    free(channel->free_slots);
    free(channel->notes);
    if (channel->main && ring_consumer_ready(&channel->nrx, &ready) == TS_OK && ready > 0) {
        channel->left_map = channel->map;
        channel->left_nrx = channel->nrx;
        channel->has_left = true;
        if (channel->look.ring == &channel->nrx)
            channel->look.ring = &channel->left_nrx;
    } else {
        channel_unmap(&channel->map);
    }
    channel->map.header = NULL;
}

static void channel_enter_rings(struct tesup_channel *channel, const struct channel_fds *fds)
{
    struct channel_map *map = &channel->map;
    struct channel_header *header = map->header;
    uint64_t record = ring_record_size(0, map->notify_max, 0);

    ring_producer_init(&channel->sq, &header->sq_words, channel_bytes(map, &map->sq), map->sq.size,
                       map->sq.start);
    ring_consumer_init(&channel->cq, &header->cq_words, channel_bytes(map, &map->cq), map->cq.size,
                       map->cq.start);
    ring_producer_init(&channel->ntx, &header->ntx_words, channel_bytes(map, &map->ntx),
                       map->ntx.size, map->ntx.start);
    ring_consumer_init(&channel->nrx, &header->nrx_words, channel_bytes(map, &map->nrx),
                       map->nrx.size, map->nrx.start);
    channel->worker_bell = (struct doorbell){.word = &header->worker_bell, .fd = fds->worker_bell};
    channel->nrx_bell = (struct doorbell){.word = &header->nrx_room, .fd = fds->worker_bell};
    channel->job_bell = (struct doorbell){.word = &header->job_bell, .fd = fds->job_bell};
    channel->handle = fds->handle;
    channel->slots = map->slots;
    channel->in_flight = 0;
    channel->settling = false;
    channel->notify_max = map->notify_max;
    channel->window_limit = 2 * record > WINDOW_MIN ? (uint32_t)(2 * record) : WINDOW_MIN;
    channel->attachment = atomic_observe(&channel->session->attachment);
    channel->epoch = atomic_observe(&header->epoch);
}

/* Moves the channel to the rings of `fds`, which become the channel's; after an error they stay the
 * caller's. */
static int channel_adopt(struct tesup_channel *channel, struct channel_fds *fds)
{
    struct channel_map map;
    struct slot_note *notes;
    uint16_t *free_slots;
    int rc = channel_map(fds->memfd, &map);

    if (rc != TS_OK)
        return map_error(rc);
    notes = calloc(map.slots, sizeof(*notes));
    free_slots = calloc(map.slots, sizeof(*free_slots));
    if (notes == NULL || free_slots == NULL) {
        rc = error_set(TS_ERR_NO_MEMORY, "no memory for %u request slots", map.slots);
        goto err_unmap;
    }
    /* A blocking eventfd would hang tesup_arm. */
    if (fcntl(fds->job_bell, F_SETFL, O_NONBLOCK) < 0 ||
        fcntl(fds->worker_bell, F_SETFL, O_NONBLOCK) < 0 ||
        channel_watch(channel, fds->job_bell, EPOLLIN, true) < 0) {
        rc = error_system("preparing the channel's eventfd");
        goto err_unmap;
    }
    for (uint32_t i = 0; i < map.slots; i++)
        free_slots[i] = (uint16_t)(map.slots - 1 - i);
    channel_leave_rings(channel);
    channel->map = map;
    channel->notes = notes;
    channel->free_slots = free_slots;
    channel_enter_rings(channel, fds);
    close(fds->memfd);
    *fds = (struct channel_fds){.memfd = -1, .worker_bell = -1, .job_bell = -1};
    return TS_OK;

err_unmap:
    free(notes);
    free(free_slots);
    channel_unmap(&map);
    return rc;
}

int channel_new(struct tesup_session *session, bool is_main, struct channel_fds *fds,
                struct tesup_channel **out)
{
    struct tesup_channel *channel = calloc(1, sizeof(*channel));
    int rc = TS_ERR_NO_MEMORY;

    if (channel == NULL) {
        error_set(rc, "no memory for a channel");
        goto err_close;
    }
    channel->session = session;
    channel->main = is_main;
    channel->window = calloc(TABLE_SLOTS_MAX, sizeof(*channel->window));
    if (channel->window == NULL) {
        error_set(rc, "no memory for a channel");
        goto err_free;
    }
    channel->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (channel->epoll < 0 || channel_watch_socket(channel, session->socket, true) < 0) {
        rc = error_system("making the channel's file descriptor");
        goto err_epoll;
    }
    rc = channel_adopt(channel, fds);
    if (rc != TS_OK)
        goto err_epoll;
    channel->looked_at = clock_now();
    list_append(&session->channels, &channel->link);
    *out = channel;
    return TS_OK;

err_epoll:
    if (channel->epoll >= 0)
        close(channel->epoll);
    free(channel->window);
err_free:
    free(channel);
err_close:
    channel_fds_close(fds);
    return rc;
}

void channel_free(struct tesup_channel *channel)
{
    /* Not channel_leave_rings: in a child, epoll_ctl would change the parent's set. */
    close(channel->epoll);
    close(channel->job_bell.fd);
    close(channel->worker_bell.fd);
    channel_unmap(&channel->map);
    if (channel->has_left)
        channel_unmap(&channel->left_map);
    free(channel->free_slots);
    free(channel->notes);
    free(channel->window);
    free(channel);
}

/* Asks for one more channel; under lock. */
static int channel_request(struct tesup_session *session, struct channel_fds *fds)
{
    struct wire_message message;
    int rc;

    wire_message_init(&message, WIRE_CHANNEL_OPEN);
    message.body.channel.slots = session->hello.slots;
    rc = control_call(session, &message, session->timeout_ms, "open a channel");
    if (rc != TS_OK)
        return rc;
    *fds = (struct channel_fds){.memfd = wire_message_take(&message, 0),
                                .worker_bell = wire_message_take(&message, 1),
                                .job_bell = wire_message_take(&message, 2),
                                .handle = message.body.reply.handle};
    return TS_OK;
}

int tesup_channel_open(struct tesup_session *session, struct tesup_channel **channel)
{
    struct channel_fds fds;
    int rc = session_guard(session);

    if (rc != TS_OK)
        return rc;
    if (channel == NULL)
        return error_set(TS_ERR_INVALID, "tesup_channel_open needs a place for the channel");
    rc = control_begin(session);
    if (rc != TS_OK)
        return rc;
    rc = channel_request(session, &fds);
    if (rc == TS_OK) {
        uint32_t handle = fds.handle;

        rc = channel_new(session, false, &fds, channel);
        if (rc != TS_OK)
            control_post_handle(session, WIRE_CHANNEL_CLOSE, handle);
    }
    control_end(session);
    return rc;
}

void tesup_channel_close(struct tesup_channel *channel)
{
    struct tesup_session *session;

    if (channel == NULL)
        return;
    session = channel->session;
    if (channel->main) {
        error_set(TS_ERR_INVALID, "the main channel is closed by tesup_detach alone");
        return;
    }
    if (session->forks == atomic_peek(&session_forks)) {
        pthread_mutex_lock(&session->lock);
        if (channel->attachment == atomic_peek(&session->attachment))
            control_call_handle(session, WIRE_CHANNEL_CLOSE, channel->handle, "close a channel");
        list_remove(&channel->link);
        pthread_mutex_unlock(&session->lock);
    } else {
        list_remove(&channel->link);
    }
    channel_free(channel);
}

/* The rings are left and nothing is in flight: take new ones, from a successor if need be. */
static int channel_return(struct tesup_channel *channel)
{
    struct tesup_session *session = channel->session;
    struct channel_fds fds;
    int rc = TS_OK;

    if (channel->has_left)
        return TS_AGAIN; /* older notifications are still unread; one set aside is enough */
    if (pthread_mutex_trylock(&session->lock) != 0)
        return TS_AGAIN; /* another thread is on it */
    if ((atomic_observe(&session->attachment) & 1) != 0)
        rc = session_reattach(session);
    if (rc == TS_OK && !channel->main)
        rc = channel_request(session, &fds);
    if (rc == TS_OK && channel->main) {
        rc = channel_adopt(channel, &session->fresh); /* after an error the next call tries again */
    } else if (rc == TS_OK) {
        rc = channel_adopt(channel, &fds);
        if (rc != TS_OK) {
            control_post_handle(session, WIRE_CHANNEL_CLOSE, fds.handle);
            channel_fds_close(&fds);
        }
    }
    pthread_mutex_unlock(&session->lock);
    if (rc == TS_OK && channel->group == GROUP_OPEN)
        channel->group = GROUP_LOST;
    return rc;
}

int channel_tend(struct tesup_channel *channel)
{
    struct tesup_session *session = channel->session;
    uint64_t until = atomic_peek(&session->lost_at) + SESSION_GRACE_MS * CLOCK_NS_PER_MS;

    if (channel_live(channel))
        return TS_OK;
    if (channel->in_flight > 0) {
        /* A leaving worker may still answer; a broken ring never will. */
        channel->settling |= channel->broken || clock_now() >= until;
        return TS_AGAIN;
    }
    if (channel->broken)
        return channel_break(channel, "the channel is broken");
    return channel_return(channel);
}

void channel_idle(struct tesup_channel *channel)
{
    uint64_t now;

    if (++channel->idle_polls % IDLE_POLLS != 0)
        return;
    now = clock_now();
    if (now - channel->looked_at < IDLE_LOOK_MS * CLOCK_NS_PER_MS)
        return;
    channel->looked_at = now;
    session_grant_again(channel);
    session_look(channel->session, channel->attachment);
}

/* Something for the application?  A forged ring counts: the next call tells. */
static bool ring_has_work(struct ring_consumer *ring)
{
    uint64_t ready = 0;

    return ring_consumer_ready(ring, &ready) != TS_OK || ready > 0;
}

bool channel_has_work(struct tesup_channel *channel)
{
    if (channel->settling && channel->in_flight > 0)
        return true;
    if (!channel->broken && !channel->settling && ring_has_work(&channel->cq))
        return true;
    if (!channel->main)
        return false;
    return channel->has_left || (!channel->broken && ring_has_work(&channel->nrx)) ||
           atomic_peek(&channel->session->events_owed) > 0;
}
