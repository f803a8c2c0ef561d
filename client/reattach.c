/* What happens when the supervisor dies: its workers leave, and the session moves to its successor.
 *
 * attachment goes odd when a thread sees the end of the connection.  The next call of any kind then
 * looks for a successor at the same socket: HELLO with the same segment name, regions registered
 * again, remotes opened again (their answers come later, control_collect).  attachment goes even,
 * and each channel takes new rings in its own thread (channel_tend).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "client/internal.h"

void session_lose(struct tesup_session *session, uint64_t attachment)
{
    if ((attachment & 1) != 0)
        return;
    atomic_set(&session->lost_at, clock_now());
    /* Fails when another thread saw it first, or when a successor is there already. */
    atomic_compare_exchange_strong(&session->attachment, &attachment, attachment + 1);
}

void session_look(struct tesup_session *session, uint64_t attachment)
{
    struct pollfd hangup = {.fd = session->socket};

    if (poll(&hangup, 1, 0) > 0 && (hangup.revents & (POLLHUP | POLLERR)) != 0)
        session_lose(session, attachment);
}

void session_outlive_workers(const struct tesup_session *session)
{
    uint64_t until = atomic_peek(&session->lost_at) + SESSION_GRACE_MS * CLOCK_NS_PER_MS;
    struct timespec when = {.tv_sec = (time_t)(until / CLOCK_NS_PER_S),
                            .tv_nsec = (long)(until % CLOCK_NS_PER_S)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR)
        ;
}

/* The successor's connection takes the place and the number of the old one, under which other
 * threads may sleep; their channels' epoll sets follow. */
static int session_replace_socket(struct tesup_session *session, int socket)
{
    int rc = TS_OK;

    list_each (node, following, &session->channels)
        channel_watch_socket(list_entry(node, struct tesup_channel, link), session->socket, false);
    if (dup3(socket, session->socket, O_CLOEXEC) < 0)
        rc = error_system("moving to the supervisor at %s", session->path);
    list_each (node, following, &session->channels)
        channel_watch_socket(list_entry(node, struct tesup_channel, link), session->socket, true);
    return rc;
}

/* A region that cannot be registered again stays without a wire handle: its users get GONE. */
static int regions_register_again(struct tesup_session *session)
{
    for (size_t i = 0; i < session->regions.count; i++) {
        const struct book_entry *entry = &session->regions.entries[i];
        uint32_t wire = 0;
        int rc = region_register(session, entry->object, &wire);

        if (rc == TS_ERR_NO_DAEMON || rc == TS_ERR_TIMEOUT)
            return rc;
        book_move(&session->regions, entry->user, wire);
        if (wire != entry->user)
            atomic_set(&session->moved, 1);
    }
    return TS_OK;
}

int session_reattach(struct tesup_session *session)
{
    uint64_t now = clock_now();
    uint64_t deadline = now + session->timeout_ms * CLOCK_NS_PER_MS;
    uint64_t lost = atomic_peek(&session->attachment);
    int socket, rc;

    if (now < session->retry_at)
        return error_set(TS_ERR_NO_DAEMON,
                         "the supervisor at %s is gone and has no successor yet: run `tesup serve`",
                         session->path);
    rc = control_connect(session->path, deadline, &socket);
    if (rc != TS_OK)
        goto err_wait;
    rc = session_hello(session, socket, deadline);
    if (rc == TS_OK)
        rc = session_replace_socket(session, socket);
    close(socket);
    if (rc != TS_OK)
        goto err_wait;
    rc = regions_register_again(session);
    if (rc != TS_OK)
        goto err_wait;
    remotes_reopen(session);
    atomic_publish(&session->attachment, lost + 1); /* pairs with channel_tend */
    return TS_OK;

err_wait:
    /* The sentence says why: no successor, or one that does not want us (yet). */
    session->retry_at = clock_now() + SESSION_RETRY_MS * CLOCK_NS_PER_MS;
    return TS_ERR_NO_DAEMON;
}
