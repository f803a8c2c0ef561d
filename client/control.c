/* Requests to the supervisor: one at a time over the control socket, each with a deadline. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/internal.h"

#define CONTROL_SOCKET_NAME "default.sock"
#define POST_MS             1000u /* for room in the socket, where no answer is waited for */

int control_path(const char *option, char *path, size_t size)
{
    const char *given = option != NULL ? option : secure_getenv("TESUP_SOCKET");
    const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
    int length;

    if (given != NULL && given[0] != '\0')
        length = snprintf(path, size, "%s", given);
    else if (geteuid() == 0)
        length = snprintf(path, size, "/run/tesup/" CONTROL_SOCKET_NAME);
    else if (runtime != NULL && runtime[0] == '/')
        length = snprintf(path, size, "%s/tesup/" CONTROL_SOCKET_NAME, runtime);
    else
        return error_set(
            TS_ERR_NO_DAEMON,
            "no socket to try: TESUP_SOCKET is not set, and XDG_RUNTIME_DIR, where the "
            "default socket lies, is not set either; set one of them to that of "
            "`tesup serve`");
    if (length < 0 || (size_t)length >= size)
        return error_set(TS_ERR_INVALID,
                         "the socket path '%.80s...' is longer than the %zu bytes of a Unix socket",
                         given != NULL ? given : runtime, size - 1);
    return TS_OK;
}

static int control_connect_error(const char *path)
{
    if (errno == ENOENT || errno == ECONNREFUSED || errno == ENOTDIR)
        return error_set(
            TS_ERR_NO_DAEMON,
            "no supervisor at %s: %s; start one with `tesup serve`, or set TESUP_SOCKET "
            "to the socket of one that runs",
            path, errno == ECONNREFUSED ? "nobody listens there" : "no such socket");
    if (errno == EPROTOTYPE)
        return error_set(TS_ERR_INVALID, "%s is a socket, but not one of `tesup serve`", path);
    if (errno == EACCES)
        return error_set(TS_ERR_DENIED,
                         "uid %u may not use the supervisor at %s: whoever runs it can allow that "
                         "with limits.allow_uids",
                         (unsigned)geteuid(), path);
    return error_system("cannot connect to the supervisor at %s", path);
}

int control_connect(const char *path, uint64_t deadline, int *socket_out)
{
    const struct timespec pause = {.tv_nsec = 2 * (long)CLOCK_NS_PER_MS};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc;

    if (fd < 0)
        return error_system("cannot make a socket for the supervisor at %s", path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    while (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
        if (errno == EAGAIN && clock_now() < deadline) {
            nanosleep(&pause, NULL); /* its backlog is full; poll(2) cannot wait for that */
            continue;
        }
        if (errno == EINTR)
            continue;
        rc = errno == EAGAIN
                 ? error_set(TS_ERR_TIMEOUT, "the supervisor at %s accepts nobody: is it stopped?",
                             path)
                 : control_connect_error(path);
        close(fd);
        return rc;
    }
    *socket_out = fd;
    return TS_OK;
}

/* Waits for `events` until the deadline. TS_OK or TS_ERR_TIMEOUT. */
static int control_ready(int socket, short events, uint64_t deadline)
{
    struct pollfd wait = {.fd = socket, .events = events};

    for (;;) {
        uint64_t now = clock_now();
        int count = poll(&wait, 1, clock_ms_until(deadline, now));

        if (count > 0)
            return TS_OK;
        if (now >= deadline)
            return TS_ERR_TIMEOUT;
    }
}

static int control_send(int socket, const struct wire_message *message, uint64_t deadline)
{
    for (;;) {
        int rc = wire_send(socket, message);

        if (rc != TS_AGAIN)
            return rc;
        rc = control_ready(socket, POLLOUT, deadline);
        if (rc != TS_OK)
            return rc;
    }
}

/* Echoed by the answer; 0 is nobody's. */
static uint32_t control_next_id(struct tesup_session *session)
{
    if (++session->next_id == 0)
        session->next_id = 1;
    return session->next_id;
}

uint32_t control_post(struct tesup_session *session, struct wire_message *message)
{
    uint64_t deadline = clock_now() + POST_MS * CLOCK_NS_PER_MS;

    message->header.id = control_next_id(session);
    return control_send(session->socket, message, deadline) == TS_OK ? message->header.id : 0;
}

uint32_t control_post_handle(struct tesup_session *session, enum wire_type type, uint32_t handle)
{
    struct wire_message message;

    wire_message_init(&message, type);
    message.body.handle.handle = handle;
    return control_post(session, &message);
}

/* An answer came too late: what it made is undone, for nobody knows its handle. */
static void control_undo_late(struct tesup_session *session, const struct wire_message *message)
{
    for (uint32_t i = 0; i < SESSION_LATE_MAX; i++) {
        if (session->late[i].id != message->header.id)
            continue;
        session->late[i].id = 0;
        if (message->body.reply.status == TS_OK)
            control_post_handle(session, (enum wire_type)session->late[i].undo,
                                message->body.reply.handle);
    }
}

void control_disown(struct tesup_session *session, uint32_t id, uint16_t type)
{
    uint32_t undo = type == WIRE_REGION_ADD     ? WIRE_REGION_DEL
                    : type == WIRE_REMOTE_OPEN  ? WIRE_REMOTE_CLOSE
                    : type == WIRE_CHANNEL_OPEN ? WIRE_CHANNEL_CLOSE
                                                : WIRE_NONE;
    uint32_t at = session->late_next++ % SESSION_LATE_MAX;

    if (undo == WIRE_NONE)
        return;
    session->late[at].id = id;
    session->late[at].undo = undo;
}

/* An answer that no call waits for. */
static void control_dispatch(struct tesup_session *session, struct wire_message *message)
{
    const struct proto_reply *reply = &message->body.reply;

    if (message->header.id != 0 &&
        (message->header.type == WIRE_REPLY || message->header.type == WIRE_CHANNEL_READY) &&
        !remote_on_answer(session, message->header.id, reply->status, reply->handle))
        control_undo_late(session, message);
    wire_message_close(message);
}

static int control_receive(struct tesup_session *session, int socket, uint32_t id,
                           struct wire_message *message, uint64_t deadline)
{
    for (;;) {
        int rc = wire_receive(socket, message);

        if (rc == TS_OK) {
            if (message->header.id == id)
                return TS_OK;
            control_dispatch(session, message);
            continue;
        }
        if (rc != TS_AGAIN)
            return rc;
        rc = control_ready(socket, POLLIN, deadline);
        if (rc != TS_OK)
            return rc;
    }
}

static int control_error(const struct tesup_session *session, int rc)
{
    switch (rc) {
    case TS_OK:
    case TS_ERR_GONE:
        return rc;
    case TS_ERR_TIMEOUT:
        return error_set(rc, "the supervisor at %s did not answer in time: is it stopped?",
                         session->path);
    case TS_ERR_VERSION:
        return error_set(rc,
                         "the supervisor at %s speaks another version of the local protocol than "
                         "this library (%u); install both from one release",
                         session->path, WIRE_VERSION);
    case TS_ERR_PROTOCOL:
        return error_set(rc, "what answers at %s is not a tesup supervisor", session->path);
    case TS_ERR_LIMIT:
        return error_set(rc,
                         "this process may open no more files (RLIMIT_NOFILE) for what the "
                         "supervisor at %s sent: raise it with `ulimit -n`",
                         session->path);
    default:
        return error_system("talking to the supervisor at %s", session->path);
    }
}

int control_exchange(struct tesup_session *session, int socket, struct wire_message *message,
                     uint64_t deadline)
{
    uint16_t type = message->header.type;
    uint32_t id = control_next_id(session);
    int rc;

    message->header.id = id;
    rc = control_send(socket, message, deadline);
    if (rc == TS_OK)
        rc = control_receive(session, socket, id, message, deadline);
    if (rc == TS_ERR_TIMEOUT)
        control_disown(session, id, type);
    return control_error(session, rc);
}

int control_begin(struct tesup_session *session)
{
    int rc = TS_OK;

    pthread_mutex_lock(&session->lock);
    if ((atomic_observe(&session->attachment) & 1) == 0)
        session_look(session, atomic_peek(&session->attachment));
    if ((atomic_peek(&session->attachment) & 1) != 0)
        rc = session_reattach(session);
    if (rc != TS_OK)
        pthread_mutex_unlock(&session->lock);
    return rc;
}

void control_end(struct tesup_session *session)
{
    pthread_mutex_unlock(&session->lock);
}

int control_call(struct tesup_session *session, struct wire_message *message, uint64_t ms,
                 const char *what)
{
    uint16_t asked = message->header.type;
    struct proto_reply *reply = &message->body.reply;
    int rc =
        control_exchange(session, session->socket, message, clock_now() + ms * CLOCK_NS_PER_MS);

    if (rc == TS_ERR_GONE) {
        session_lose(session, atomic_peek(&session->attachment));
        return error_set(TS_ERR_NO_DAEMON,
                         "%s: the supervisor at %s went away during the call; call again when "
                         "`tesup serve` is back",
                         what, session->path);
    }
    if (rc != TS_OK)
        return rc;
    if (message->header.type == WIRE_GRANT && asked == WIRE_REGION_GRANT)
        return TS_OK;
    if (message->header.type == WIRE_REPLY && reply->status != TS_OK && reply->status <= TS_AGAIN) {
        wire_text_close(reply->text);
        rc = error_set(reply->status, "%s: %s", what,
                       reply->text[0] != '\0' ? reply->text : tesup_strerror(reply->status));
    } else if (message->header.type !=
                   (asked == WIRE_CHANNEL_OPEN ? WIRE_CHANNEL_READY : WIRE_REPLY) ||
               reply->status != TS_OK) {
        rc = control_error(session, TS_ERR_PROTOCOL);
    }
    if (rc != TS_OK)
        wire_message_close(message);
    return rc;
}

int control_call_handle(struct tesup_session *session, enum wire_type type, uint32_t handle,
                        const char *what)
{
    struct wire_message message;
    int rc;

    wire_message_init(&message, type);
    message.body.handle.handle = handle;
    rc = control_call(session, &message, session->timeout_ms, what);
    if (rc == TS_OK)
        wire_message_close(&message);
    return rc;
}

void control_collect(struct tesup_session *session)
{
    struct wire_message message;
    int rc;

    if (pthread_mutex_trylock(&session->lock) != 0)
        return; /* a call is waiting: it takes what comes */
    while ((rc = wire_receive(session->socket, &message)) == TS_OK)
        control_dispatch(session, &message);
    if (rc == TS_ERR_GONE)
        session_lose(session, atomic_peek(&session->attachment));
    pthread_mutex_unlock(&session->lock);
}
