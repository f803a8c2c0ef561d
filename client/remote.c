/* Segments of other processes: opened, watched, closed, and opened again after a loss. */
#include <stdlib.h>
#include <string.h>

#include "client/internal.h"
#include "shm/name.h"

#define ANSWER_MS  500u /* for the supervisor to tell that the peer did not answer */
#define REOPEN_MAX 64u  /* requests that wait for their answer at a time, after a loss */

static void remote_message(const struct tesup_session *session, const struct remote *remote,
                           struct wire_message *message)
{
    wire_message_init(message, WIRE_REMOTE_OPEN);
    message->body.remote.timeout_ms = session->timeout_ms;
    memcpy(message->body.remote.name, remote->name, sizeof(remote->name));
}

/* Enters a remote under the supervisor's handle or, where that number is in use for a remote of a
 * dead supervisor, under a free one: only this process uses it. */
static int remote_enter(struct tesup_session *session, struct remote *remote, uint32_t wire,
                        uint32_t *user)
{
    int rc;

    *user = wire;
    while ((rc = book_add(&session->remotes, *user, wire, remote)) == TS_ERR_EXISTS)
        *user = *user + 1 != 0 ? *user + 1 : 1;
    if (rc == TS_OK && *user != wire)
        atomic_set(&session->moved, 1);
    return rc;
}

static int remote_request(struct tesup_session *session, struct remote *remote, uint32_t *user)
{
    struct wire_message message;
    uint32_t wire;
    int rc;

    remote_message(session, remote, &message);
    rc = control_call(session, &message, session->timeout_ms + ANSWER_MS, remote->name);
    if (rc != TS_OK)
        return rc;
    wire = message.body.reply.handle;
    wire_message_close(&message);
    if (wire == 0)
        return error_set(TS_ERR_PROTOCOL, "the supervisor at %s gave 0 as the handle of %s",
                         session->path, remote->name);
    rc = remote_enter(session, remote, wire, user);
    if (rc != TS_OK) {
        control_post_handle(session, WIRE_REMOTE_CLOSE, wire);
        error_set(rc, "no memory to keep %s open", remote->name);
    }
    return rc;
}

int tesup_segment_open(struct tesup_session *session, const char *name, tesup_remote_t *handle)
{
    struct segment_name parts;
    struct remote *remote;
    const char *why = "";
    int rc = session_guard(session);

    if (rc != TS_OK)
        return rc;
    if (name == NULL || handle == NULL)
        return error_set(TS_ERR_INVALID,
                         "tesup_segment_open needs a name and a place for a handle");
    if (strlen(name) >= LAYOUT_NAME_MAX)
        return error_set(TS_ERR_INVALID, "'%.80s...' is longer than the %u bytes of a segment name",
                         name, LAYOUT_NAME_MAX - 1);
    if (name_parse(name, &parts, &why) != TS_OK)
        return error_set(TS_ERR_INVALID, "'%s' is no segment (HOST:PORT/SEGMENT): %s", name, why);
    remote = calloc(1, sizeof(*remote));
    if (remote == NULL)
        return error_set(TS_ERR_NO_MEMORY, "no memory to open %s", name);
    memcpy(remote->name, name, strlen(name) + 1);
    rc = control_begin(session);
    if (rc == TS_OK) {
        rc = remote_request(session, remote, handle);
        control_end(session);
    }
    if (rc != TS_OK)
        free(remote);
    return rc;
}

static struct remote *remote_find(struct tesup_session *session, uint32_t handle, uint32_t *wire)
{
    struct remote *remote = book_find(&session->remotes, handle, wire);

    if (remote == NULL)
        error_set(TS_ERR_GONE, "remote %#x is not open (any more)", handle);
    return remote;
}

static void remote_forget(struct tesup_session *session, uint32_t handle)
{
    struct remote *remote = book_take(&session->remotes, handle);

    if (remote->open_id != 0)
        control_disown(session, remote->open_id, WIRE_REMOTE_OPEN);
    if (remote->reopening)
        atomic_fetch_sub(&session->opening, 1);
    if (remote->event_owed)
        atomic_fetch_sub(&session->events_owed, 1);
    free(remote);
}

int tesup_segment_close(struct tesup_session *session, tesup_remote_t handle)
{
    uint32_t wire = 0;
    int rc = session_guard(session);
    bool attached;

    if (rc != TS_OK)
        return rc;
    attached = control_begin(session) == TS_OK;
    if (!attached)
        pthread_mutex_lock(&session->lock);
    const struct remote *remote = remote_find(session, handle, &wire);
    if (remote == NULL)
        rc = TS_ERR_GONE;
    else if (attached && wire != 0)
        rc = control_call_handle(session, WIRE_REMOTE_CLOSE, wire, remote->name);
    /* What the supervisor does not know, or took with it, is closed. */
    if (remote != NULL && (rc == TS_ERR_GONE || rc == TS_ERR_NO_DAEMON))
        rc = TS_OK;
    if (rc == TS_OK)
        remote_forget(session, handle);
    control_end(session);
    return rc;
}

/* A watched segment that is not there is an event, without a worker to tell it. */
static void remote_set(struct tesup_session *session, struct remote *remote, bool watched,
                       bool gone)
{
    pthread_mutex_lock(&session->remotes.lock);
    remote->watched = watched;
    if (watched && gone && !remote->event_owed) {
        remote->event_owed = true;
        atomic_fetch_add(&session->events_owed, 1);
    }
    pthread_mutex_unlock(&session->remotes.lock);
}

bool remote_event_owed(struct tesup_session *session, uint32_t *user, int *status)
{
    bool found = false;

    pthread_mutex_lock(&session->remotes.lock);
    for (size_t i = 0; i < session->remotes.count && !found; i++) {
        const struct remote *remote = session->remotes.entries[i].object;

        found = remote->event_owed;
        *user = session->remotes.entries[i].user;
        *status = remote->status;
    }
    pthread_mutex_unlock(&session->remotes.lock);
    return found;
}

void remote_event_taken(struct tesup_session *session, uint32_t user, bool own)
{
    pthread_mutex_lock(&session->remotes.lock);
    for (size_t i = 0; i < session->remotes.count; i++) {
        struct remote *remote = session->remotes.entries[i].object;

        if (session->remotes.entries[i].user != user)
            continue;
        remote->watched = false;
        if (own && remote->event_owed) {
            remote->event_owed = false;
            atomic_fetch_sub(&session->events_owed, 1);
        }
    }
    pthread_mutex_unlock(&session->remotes.lock);
}

int tesup_segment_watch(struct tesup_session *session, tesup_remote_t handle)
{
    struct remote *remote;
    uint32_t wire = 0;
    int rc = session_guard(session);

    if (rc != TS_OK)
        return rc;
    rc = control_begin(session);
    if (rc != TS_OK)
        return rc;
    remote = remote_find(session, handle, &wire);
    if (remote == NULL) {
        rc = TS_ERR_GONE;
        goto out;
    }
    /* Before the call: the event may come before its answer. */
    remote_set(session, remote, true, wire == 0 && !remote->reopening);
    if (wire != 0)
        rc = control_call_handle(session, WIRE_REMOTE_WATCH, wire, remote->name);
    if (rc != TS_OK)
        remote_set(session, remote, false, false);
out:
    control_end(session);
    return rc;
}

/* ---- after a loss ---- */

static void remote_settle(struct tesup_session *session, struct book_entry *entry, int status,
                          uint32_t wire)
{
    struct remote *remote = entry->object;
    bool open = status == TS_OK && wire != 0;

    pthread_mutex_lock(&session->remotes.lock);
    remote->status = status;
    pthread_mutex_unlock(&session->remotes.lock);
    remote->open_id = 0;
    remote->reopening = false;
    if (open)
        book_move(&session->remotes, entry->user, wire);
    if (open && remote->watched)
        control_post_handle(session, WIRE_REMOTE_WATCH, wire);
    if (!open)
        remote_set(session, remote, remote->watched, true);
    atomic_fetch_sub(&session->opening, 1);
}

/* A few at a time: the supervisor keeps a limited number of requests for us. */
static void reopen_more(struct tesup_session *session)
{
    uint32_t sent = 0;

    for (size_t i = 0; i < session->remotes.count; i++)
        sent += ((const struct remote *)session->remotes.entries[i].object)->open_id != 0;
    for (size_t i = 0; i < session->remotes.count && sent < REOPEN_MAX; i++) {
        struct book_entry *entry = &session->remotes.entries[i];
        struct remote *remote = entry->object;
        struct wire_message message;

        if (!remote->reopening || remote->open_id != 0)
            continue;
        remote_message(session, remote, &message);
        remote->open_id = control_post(session, &message);
        if (remote->open_id != 0)
            sent++;
        else
            remote_settle(session, entry, TS_ERR_UNREACHABLE, 0);
    }
}

bool remote_on_answer(struct tesup_session *session, uint32_t id, int status, uint32_t wire)
{
    for (size_t i = 0; i < session->remotes.count; i++) {
        struct book_entry *entry = &session->remotes.entries[i];

        if (((const struct remote *)entry->object)->open_id != id)
            continue;
        remote_settle(session, entry, status, wire);
        reopen_more(session);
        return true;
    }
    return false;
}

void remotes_reopen(struct tesup_session *session)
{
    for (size_t i = 0; i < session->remotes.count; i++) {
        struct book_entry *entry = &session->remotes.entries[i];
        struct remote *remote = entry->object;

        if (!remote->reopening)
            atomic_fetch_add(&session->opening, 1);
        remote->reopening = true;
        remote->open_id = 0;
        book_move(&session->remotes, entry->user, 0);
        atomic_set(&session->moved, 1);
    }
    reopen_more(session);
}
