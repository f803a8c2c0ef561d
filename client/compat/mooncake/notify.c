/* Notifications: those that arrived, and those that are sent alone. */
#include <stdlib.h>
#include <string.h>

#include "client/compat/mooncake/engine.h"

int notification_check(const struct engine *engine, const notify_msg_t *msg, const char *call)
{
    uint32_t most = tesup_notify_max(engine->session);
    size_t name, text;

    if (msg->name == NULL || msg->msg == NULL)
        return refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, call,
                      "a notification needs a name and a message; \"\" is one");
    name = strlen(msg->name);
    text = strlen(msg->msg);
    if (name > most || text > most - name)
        return refuse(TRANSFER_ENGINE_NOT_IMPLEMENTED, call,
                      "a notification of %zu + %zu bytes is longer than %u; "
                      "MC_RDMA_NOTIFY_OOB_FALLBACK=1 for the supervisor allows 1 MiB",
                      name, text, most);
    return 0;
}

/* ---- arrived ---- */

struct inbox {
    notify_msg_t *messages;
    size_t count, room;
};

static char *text_copy(const void *bytes, uint32_t length)
{
    char *text = malloc((size_t)length + 1);

    if (text == NULL)
        return NULL;
    if (length > 0)
        memcpy(text, bytes, length);
    text[length] = '\0';
    return text;
}

static int inbox_add(struct inbox *inbox, const struct tesup_notification *note)
{
    notify_msg_t message;

    if (inbox->count == inbox->room) {
        size_t room = inbox->room > 0 ? 2 * inbox->room : 8;
        void *larger = realloc(inbox->messages, room * sizeof(*inbox->messages));

        if (larger == NULL)
            return -1;
        inbox->messages = larger;
        inbox->room = room;
    }
    message.name = text_copy(note->name, note->name_len);
    message.msg = text_copy(note->msg, note->msg_len);
    if (message.name == NULL || message.msg == NULL) {
        free(message.name);
        free(message.msg);
        return -1;
    }
    inbox->messages[inbox->count++] = message;
    return 0;
}

/* Here a notification says that all went well; one of tesup.h may say something else. */
static bool note_is_message(const struct tesup_notification *note)
{
    if (note->kind != TESUP_NOTIFICATION_MESSAGE)
        return false;
    if (note->status == TESUP_OK)
        return true;
    say(LOG_LEVEL_WARNING, "getNotifsFromEngine",
        "a notification of %.*s is left out: its transfer ended with '%s'", (int)note->from_len,
        note->from, tesup_strerror(note->status));
    return false;
}

/* What does not fit into memory stays in the mailbox. */
static void inbox_fill(struct engine *engine, struct inbox *inbox, const char *call)
{
    struct tesup_notification note;
    int rc;

    while ((rc = tesup_notify_peek(engine->channel, &note)) == TESUP_OK) {
        if (note_is_message(&note) && inbox_add(inbox, &note) < 0) {
            say(LOG_LEVEL_ERROR, call, "no memory for what arrived; it stays for the next call");
            return;
        }
        tesup_notify_release(engine->channel);
    }
    if (rc < 0)
        say(LOG_LEVEL_ERROR, call, "%s", tesup_last_error());
    /* A program that does nothing but wait here must see that the supervisor is another one. */
    if (inbox->count > 0)
        return;
    rc = engine_progress(engine);
    if (rc == TESUP_ERR_NO_DAEMON)
        (void)daemon_restart(engine, call);
    if (rc == 0)
        engine_idle(engine);
}

notify_msg_t *getNotifsFromEngine(transfer_engine_t handle, int *size)
{
    struct engine *engine;
    struct inbox inbox = {0};

    if (size != NULL)
        *size = 0;
    if (slot_enter(handle, __func__, &engine) != 0)
        return NULL;
    if (size == NULL)
        say(LOG_LEVEL_ERROR, __func__, "there is no place for the number of notifications");
    else
        inbox_fill(engine, &inbox, __func__);
    slot_leave(engine);
    if (size != NULL)
        *size = (int)inbox.count;
    return inbox.messages;
}

int freeNotifsMsgBuf(notify_msg_t *messages, int size)
{
    for (int i = 0; messages != NULL && i < size; i++) {
        free(messages[i].name);
        free(messages[i].msg);
    }
    free(messages);
    return 0;
}

/* ---- sent alone ---- */

static struct piece *notification_new(struct engine *engine, struct peer *peer,
                                      const notify_msg_t *msg, int *outcome)
{
    struct piece *piece = piece_new(engine);

    if (piece == NULL)
        return NULL;
    piece->request.op = TESUP_OP_NOTIFY;
    piece->request.remote = peer->remote;
    piece->request.deadline_ms = engine->deadline_ms;
    piece->request.name = msg->name;
    piece->request.name_len = (uint32_t)strlen(msg->name);
    piece->request.msg = msg->msg;
    piece->request.msg_len = (uint32_t)strlen(msg->msg);
    piece->peer = peer;
    piece->give_up_at = clock_now() + engine->timeout_ms * CLOCK_NS_PER_MS;
    piece->outcome = outcome;
    return piece;
}

/* Until it was handed to the connection. */
static int notification_wait(struct engine *engine, const int *outcome)
{
    int rc = TESUP_OK;

    while (*outcome == TESUP_AGAIN && rc == TESUP_OK)
        rc = send_wait(engine);
    return *outcome == TESUP_AGAIN ? rc : *outcome;
}

static int notification_send(struct engine *engine, struct peer *peer, const notify_msg_t *msg,
                             const char *call)
{
    int outcome = TESUP_AGAIN;
    struct piece *piece;
    struct list queue;
    int rc = TESUP_ERR_CANCELLED;

    list_init(&queue);
    if (!send_begin(engine))
        return rc;
    piece = peer_prepare(engine, peer, call) == 0 ? notification_new(engine, peer, msg, &outcome)
                                                  : NULL;
    if (piece != NULL) {
        list_append(&queue, &piece->link);
        send_pieces(engine, &queue, call);
    }
    send_end(engine);
    if (piece == NULL)
        return TESUP_ERR_UNREACHABLE;
    rc = notification_wait(engine, &outcome);
    if (outcome == TESUP_AGAIN)
        piece_forget(engine, piece);
    return rc;
}

int genNotifyInEngine(transfer_engine_t handle, uint64_t target, notify_msg_t msg)
{
    struct engine *engine;
    struct peer *peer;
    int rc, code = slot_enter(handle, __func__, &engine);

    if (code != 0)
        return code_negative(code);
    peer = target <= INT32_MAX ? peer_get(engine, (int64_t)target) : NULL;
    if (peer == NULL)
        code = refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, __func__,
                      "target_id %llu is not open; use what openSegment gave",
                      (unsigned long long)target);
    if (code == 0)
        code = notification_check(engine, &msg, __func__);
    if (code == 0) {
        rc = notification_send(engine, peer, &msg, __func__);
        if (rc != TESUP_OK)
            code = refuse(rc == TESUP_ERR_UNSUPPORTED || rc == TESUP_ERR_TOO_LONG
                              ? TRANSFER_ENGINE_NOT_IMPLEMENTED
                              : TRANSFER_ENGINE_ENDPOINT,
                          __func__, "a notification to %s: %s", peer->name, tesup_strerror(rc));
    }
    slot_leave(engine);
    return code_negative(code);
}
