/* A session: attaching, detaching, and the guard against use after fork(). */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/internal.h"
#include "shm/name.h"

#define SPIN_US_MAX 1000000ul
#define BYE_MS      2000u /* for the supervisor to hang up */

_Atomic uint64_t session_forks;

static void session_on_fork(void)
{
    atomic_count(&session_forks, 1);
}

static void session_watch_forks(void)
{
    pthread_atfork(NULL, NULL, session_on_fork);
}

int session_guard_slow(const struct tesup_session *session)
{
    if (session == NULL)
        return error_set(TS_ERR_INVALID, "the session or channel is NULL");
    return error_set(TS_ERR_FORKED,
                     "this session belongs to the parent process; a child attaches on its own");
}

static int segment_copy(char to[PROTO_LABEL_MAX], const char *from)
{
    if (from == NULL)
        return TS_OK;
    if (!name_label_valid(from))
        return error_set(TS_ERR_INVALID,
                         "the segment '%.80s' is no name: 1 to %u letters, digits and ._-@:+ are",
                         from, PROTO_LABEL_MAX - 1);
    memcpy(to, from, strlen(from) + 1);
    return TS_OK;
}

/* How long tesup_wait spins before it sleeps; in vain where the worker shares our only CPU. */
static int spin_time(uint64_t *ns)
{
    const char *text = getenv("TESUP_SPIN_US");
    unsigned long us = SESSION_SPIN_US;
    char *end;

    if (text != NULL) {
        errno = 0;
        us = strtoul(text, &end, 10);
        if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || us > SPIN_US_MAX)
            return error_set(TS_ERR_INVALID,
                             "TESUP_SPIN_US is '%.40s'; it may be 0 to %lu microseconds", text,
                             SPIN_US_MAX);
    }
    *ns = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? us * CLOCK_NS_PER_US : 0;
    return TS_OK;
}

static int huge_wanted(bool *wanted)
{
    const char *text = getenv("TESUP_HUGE_PAGES");

    if (text != NULL && strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
        return error_set(TS_ERR_INVALID, "TESUP_HUGE_PAGES is '%.40s'; it may be 0 or 1", text);
    *wanted = text == NULL || text[0] == '1';
    return TS_OK;
}

static int session_configure(struct tesup_session *session, const struct tesup_options *options)
{
    struct proto_hello *hello = &session->hello;
    int rc;

    *hello = (struct proto_hello){
        .abi_major = LAYOUT_VERSION_MAJOR,
        .abi_minor = LAYOUT_VERSION_MINOR,
        .features = LAYOUT_FEATURES_KNOWN,
        .slots = options->slots, /* 0: what the supervisor was told (shm.slots) */
        .flags = options->flags,
    };
    if (hello->slots != 0 && (hello->slots < SESSION_SLOTS_MIN || hello->slots > LAYOUT_SLOTS_MAX ||
                              (hello->slots & (hello->slots - 1)) != 0))
        return error_set(TS_ERR_INVALID, "slots is %u; it may be a power of two from %u to %u",
                         hello->slots, SESSION_SLOTS_MIN, LAYOUT_SLOTS_MAX);
    if ((options->flags & ~TESUP_SHARE_ALL) != 0)
        return error_set(TS_ERR_INVALID, "flags is %#x; TESUP_SHARE_ALL is the only flag",
                         options->flags);
    rc = segment_copy(hello->segment, options->segment);
    if (rc == TS_OK)
        rc = place_read(options->pair, hello->pair);
    if (rc == TS_OK)
        rc = spin_time(&session->spin_ns);
    if (rc == TS_OK)
        rc = huge_wanted(&session->huge_pages);
    session->timeout_ms = options->timeout_ms != 0 ? options->timeout_ms : SESSION_TIMEOUT_MS;
    return rc != TS_OK ? rc : control_path(options->socket, session->path, sizeof(session->path));
}

/* The name in full; the part behind '/' is what a successor must give us again. */
static int session_rename(struct tesup_session *session, const char *name)
{
    const char *slash = strrchr(name, '/');
    struct segment_label *label = session->label;

    if (slash == NULL || !name_label_valid(slash + 1))
        return error_set(TS_ERR_PROTOCOL,
                         "the supervisor at %s gave '%s', which is no segment name", session->path,
                         name);
    if (label != NULL && strcmp(label->text, name) == 0)
        return TS_OK;
    label = malloc(sizeof(*label));
    if (label == NULL)
        return error_set(TS_ERR_NO_MEMORY, "no memory for the segment's name");
    memcpy(session->hello.segment, slash + 1, strlen(slash + 1) + 1);
    memcpy(label->text, name, strlen(name) + 1);
    label->older = session->label;
    session->label = label; /* atomic: read without the lock */
    return TS_OK;
}

static int session_welcome(struct tesup_session *session, struct wire_message *message)
{
    struct proto_welcome *welcome = &message->body.welcome;
    int rc;

    wire_text_close(welcome->segment);
    wire_text_close(welcome->worker);
    wire_text_close(welcome->text);
    if (welcome->status < TS_OK)
        return error_set(welcome->status, "attach at %s: %s", session->path,
                         welcome->text[0] != '\0' ? welcome->text
                                                  : tesup_strerror(welcome->status));
    if (welcome->status != TS_OK || message->fd_count != 3)
        return error_set(TS_ERR_PROTOCOL, "the supervisor at %s sent an incomplete welcome",
                         session->path);
    rc = session_rename(session, welcome->segment);
    if (rc != TS_OK)
        return rc;
    atomic_set(&session->notify_max, welcome->notify_max);
    session->supervisor_pid = welcome->supervisor_pid;
    session->rdma = (welcome->flags & PROTO_WELCOME_RDMA) != 0;
    memcpy(session->worker, welcome->worker, sizeof(session->worker));
    channel_fds_close(&session->fresh);
    session->fresh = (struct channel_fds){.memfd = wire_message_take(message, 0),
                                          .worker_bell = wire_message_take(message, 1),
                                          .job_bell = wire_message_take(message, 2),
                                          .handle = welcome->channel};
    return TS_OK;
}

int session_hello(struct tesup_session *session, int socket, uint64_t deadline)
{
    struct wire_message message;
    int rc;

    wire_message_init(&message, WIRE_HELLO);
    message.body.hello = session->hello;
    message.body.hello.cpu = sched_getcpu();
    rc = control_exchange(session, socket, &message, deadline);
    if (rc == TS_ERR_GONE)
        return error_set(TS_ERR_NO_DAEMON,
                         "the supervisor at %s hung up; its log says why (`tesup status`)",
                         session->path);
    if (rc != TS_OK)
        return rc;
    if (message.header.type == WIRE_WELCOME)
        rc = session_welcome(session, &message);
    else
        rc = error_set(TS_ERR_PROTOCOL, "what answers at %s is not a tesup supervisor",
                       session->path);
    wire_message_close(&message);
    return rc;
}

static void session_free(struct tesup_session *session)
{
    struct segment_label *label;

    channel_fds_close(&session->fresh);
    if (session->socket >= 0)
        close(session->socket);
    book_fini(&session->regions);
    book_fini(&session->remotes);
    label = session->label;
    while (label != NULL) {
        struct segment_label *older = label->older;

        free(label);
        label = older;
    }
    free(session);
}

static struct tesup_session *session_new(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct tesup_session *session = calloc(1, sizeof(*session));

    pthread_once(&once, session_watch_forks);
    if (session == NULL)
        return NULL;
    session->forks = atomic_peek(&session_forks);
    session->socket = -1;
    session->fresh = (struct channel_fds){.memfd = -1, .worker_bell = -1, .job_bell = -1};
    pthread_mutex_init(&session->lock, NULL);
    book_init(&session->regions);
    book_init(&session->remotes);
    list_init(&session->channels);
    return session;
}

int tesup_attach(const struct tesup_options *options, struct tesup_session **out)
{
    static const struct tesup_options defaults;
    struct tesup_session *session;
    uint64_t deadline;
    int rc;

    if (out == NULL)
        return error_set(TS_ERR_INVALID, "tesup_attach needs a place for the session");
    session = session_new();
    if (session == NULL)
        return error_set(TS_ERR_NO_MEMORY, "no memory for a session");
    rc = session_configure(session, options != NULL ? options : &defaults);
    if (rc != TS_OK)
        goto err_free;
    deadline = clock_now() + session->timeout_ms * CLOCK_NS_PER_MS;
    rc = control_connect(session->path, deadline, &session->socket);
    if (rc == TS_OK)
        rc = session_hello(session, session->socket, deadline);
    if (rc == TS_OK)
        rc = channel_new(session, true, &session->fresh, &session->main);
    if (rc != TS_OK)
        goto err_free;
    *out = session;
    return TS_OK;

err_free:
    session_free(session);
    return rc;
}

/* Says good-bye and waits until the supervisor is done with us, so that the name is free again. */
static void session_leave(struct tesup_session *session)
{
    struct wire_message message;
    struct pollfd hangup = {.fd = session->socket};
    uint64_t deadline = clock_now() + BYE_MS * CLOCK_NS_PER_MS;

    wire_message_init(&message, WIRE_BYE);
    control_post(session, &message);
    shutdown(session->socket, SHUT_WR);
    while (poll(&hangup, 1, clock_ms_until(deadline, clock_now())) < 0 && errno == EINTR)
        ;
}

/* Regions go first, one by one: only their answers say that no byte can land any more. */
static void session_revoke_regions(struct tesup_session *session)
{
    for (size_t i = 0; i < session->regions.count; i++) {
        uint32_t wire = session->regions.entries[i].wire;
        int rc = TS_OK;

        if (wire != 0)
            rc = control_call_handle(session, WIRE_REGION_DEL, wire, "detach");
        if (rc == TS_ERR_NO_DAEMON || rc == TS_ERR_TIMEOUT)
            break; /* the others would end the same way */
    }
}

static void session_drop(struct tesup_session *session)
{
    for (size_t i = 0; i < session->regions.count; i++)
        region_free(session->regions.entries[i].object);
    for (size_t i = 0; i < session->remotes.count; i++)
        free(session->remotes.entries[i].object);
    list_each (node, following, &session->channels)
        channel_free(list_entry(node, struct tesup_channel, link));
    session_free(session);
}

void tesup_detach(struct tesup_session *session)
{
    if (session == NULL)
        return;
    if (session->forks == atomic_peek(&session_forks)) {
        session_look(session, atomic_observe(&session->attachment));
        if ((atomic_observe(&session->attachment) & 1) == 0) {
            session_revoke_regions(session);
            session_leave(session);
        }
        if ((atomic_observe(&session->attachment) & 1) != 0 && session->regions.count > 0)
            session_outlive_workers(session);
    }
    session_drop(session);
}

const char *tesup_segment_name(const struct tesup_session *session)
{
    const struct segment_label *label = session != NULL ? session->label : NULL;

    return label != NULL ? label->text : "";
}

uint32_t tesup_notify_max(const struct tesup_session *session)
{
    return session != NULL ? (uint32_t)atomic_peek(&session->notify_max) : TESUP_NOTIFY_MAX;
}

struct tesup_channel *tesup_channel_main(struct tesup_session *session)
{
    return session != NULL ? session->main : NULL;
}
