/* Pieces: requests of libtesup, what they are a part of, and how their end is counted. */
#include <stdlib.h>
#include <string.h>

#include "client/compat/mooncake/engine.h"

#define CHUNK_PIECES 256u

struct chunk {
    struct chunk *next;
    struct piece pieces[CHUNK_PIECES];
};

static int chunk_add(struct engine *engine)
{
    struct chunk *chunk = calloc(1, sizeof(*chunk));

    if (chunk == NULL)
        return -1;
    chunk->next = engine->chunks;
    engine->chunks = chunk;
    for (unsigned i = 0; i < CHUNK_PIECES; i++)
        list_append(&engine->free_pieces, &chunk->pieces[i].link);
    return 0;
}

struct piece *piece_new(struct engine *engine)
{
    struct piece *piece;

    if (list_empty(&engine->free_pieces) && chunk_add(engine) < 0)
        return NULL;
    piece = list_entry(engine->free_pieces.prev, struct piece, link); /* its lines are warm */
    list_remove(&piece->link);
    memset(piece, 0, sizeof(*piece));
    list_init(&piece->link);
    piece->request.cookie = (uint64_t)(uintptr_t)piece;
    return piece;
}

void piece_free(struct engine *engine, struct piece *piece)
{
    list_append(&engine->free_pieces, &piece->link);
}

void piece_forget(struct engine *engine, struct piece *piece)
{
    piece->outcome = NULL;
    piece->give_up_at = 0; /* refused, it is not sent again */
    if (list_empty(&piece->link))
        return; /* in the rings, which have a copy */
    list_remove(&piece->link);
    piece_free(engine, piece);
}

/* Pieces in flight go with the session. */
void pieces_fini(struct engine *engine)
{
    struct chunk *chunk = engine->chunks;

    while (chunk != NULL) {
        struct chunk *next = chunk->next;

        for (unsigned i = 0; i < CHUNK_PIECES; i++) {
            struct call *call = chunk->pieces[i].call;

            if (call != NULL && --call->pieces == 0)
                free(call);
        }
        free(chunk);
        chunk = next;
    }
}

struct call *call_new(const char *name, const char *msg)
{
    size_t name_len = strlen(name), msg_len = strlen(msg);
    struct call *call = calloc(1, sizeof(*call) + name_len + msg_len + 1);

    if (call == NULL)
        return NULL;
    call->name_len = (uint32_t)name_len;
    call->msg_len = (uint32_t)msg_len;
    memcpy(call->text, name, name_len);
    memcpy(call->text + name_len, msg, msg_len);
    return call;
}

/* What makes a peer's card or handle doubtful: the next request asks again. */
static bool status_doubts_peer(int status)
{
    switch (status) {
    case TESUP_ERR_GONE:
    case TESUP_ERR_NOT_FOUND:
    case TESUP_ERR_INVALID:
    case TESUP_ERR_DENIED:
    case TESUP_ERR_UNREACHABLE:
    case TESUP_ERR_UNCERTAIN:
        return true;
    default:
        return false;
    }
}

static const char *op_name(uint32_t op)
{
    return op == TESUP_OP_READ ? "READ" : op == TESUP_OP_WRITE ? "WRITE" : "notification";
}

static void piece_say(const struct piece *piece, int status)
{
    const struct tesup_request *request = &piece->request;

    say(LOG_LEVEL_ERROR, op_name(request->op), "%llu bytes at %#llx of %s: %s",
        (unsigned long long)request->length, (unsigned long long)request->remote_offset,
        piece->peer->name, tesup_strerror(status));
}

static void task_count(struct piece *piece, bool failed, uint64_t bytes)
{
    struct task *task = &piece->batch->tasks[piece->task];

    task->bytes += bytes;
    task->failed |= failed;
    if (--task->pieces == 0)
        piece->batch->open--;
}

/* The notification that libtesup left out although, in the end, all arrived: sent alone by this
 * piece. */
static void piece_become_notification(struct engine *engine, struct piece *piece)
{
    struct call *call = piece->call;

    call->missing = false;
    call->pieces = 1;
    piece->batch = NULL;
    piece->request = (struct tesup_request){.op = TESUP_OP_NOTIFY,
                                            .cookie = (uint64_t)(uintptr_t)piece,
                                            .remote = piece->peer->remote,
                                            .name = call->text,
                                            .name_len = call->name_len,
                                            .msg = call->text + call->name_len,
                                            .msg_len = call->msg_len};
    list_append(&engine->again, &piece->link);
}

/* True when the piece goes on as the call's notification. */
static bool call_count(struct engine *engine, struct piece *piece, bool failed)
{
    struct call *call = piece->call;

    call->failed |= failed;
    if (--call->pieces > 0)
        return false;
    if (call->missing && !call->failed) {
        piece_become_notification(engine, piece);
        return true;
    }
    free(call);
    return false;
}

void piece_end(struct engine *engine, struct piece *piece, int status, uint64_t bytes)
{
    const struct tesup_request *request = &piece->request;
    /* All bytes are there; only the notification was left out. */
    bool skipped = status == TESUP_ERR_SKIPPED && bytes == request->length;
    bool failed = status != TESUP_OK && !skipped;

    if (failed && status != TESUP_ERR_SKIPPED)
        piece_say(piece, status);
    if (failed && status_doubts_peer(status))
        piece->peer->stale = true;
    engine->in_flight_bytes -= request->length;
    engine->done_bytes += bytes;
    if (piece->batch != NULL)
        task_count(piece, failed, bytes);
    if (piece->outcome != NULL)
        *piece->outcome = status;
    if (piece->call != NULL) {
        piece->call->missing |= skipped;
        if (call_count(engine, piece, failed))
            return;
        piece->call = NULL;
    }
    piece_free(engine, piece);
}
