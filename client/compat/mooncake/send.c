/* Between pieces and the rings: handing over, waiting for room, taking completions. */
#include <sched.h>

#include "client/compat/mooncake/engine.h"

#define SUBMIT_MAX   64u
#define POLL_MAX     64u
#define WAIT_MS      5 /* at a time with the lock in hand */
#define RECOVERY_MAX 2u
#define IDLE_LOOKS   8u /* a look costs a tenth of giving the CPU away */

bool send_begin(struct engine *engine)
{
    bool alive = true;

    engine->waiting++;
    while (alive && engine->busy)
        alive = slot_wait(engine);
    engine->waiting--;
    if (alive)
        engine->busy = true;
    return alive;
}

void send_end(struct engine *engine)
{
    engine->busy = false;
    if (engine->waiting > 0)
        slot_wake(engine);
}

/* After a failure there is no notification. */
static void piece_strip(struct piece *piece)
{
    if (piece->call == NULL || !piece->call->failed)
        return;
    piece->request.name = piece->request.msg = NULL;
    piece->request.name_len = piece->request.msg_len = 0;
}

/* ---- refused for lack of room at the other side ---- */

/* The bound notification of a group goes only when the others have arrived. */
static bool again_is_due(const struct piece *piece)
{
    const struct call *call = piece->call;

    return call == NULL || call->pieces == 1 || piece->request.name == NULL;
}

static void again_submit(struct engine *engine, struct piece *piece)
{
    uint32_t accepted = 0;
    int rc;

    piece->request.flags &= ~TESUP_MORE; /* it is the rest of its group, or the group is broken */
    piece_strip(piece);
    rc = tesup_submit(engine->channel, &piece->request, 1, NULL, &accepted);
    if (rc == TESUP_OK)
        return;
    if (rc == TESUP_AGAIN && clock_now() < piece->give_up_at)
        list_append(&engine->again, &piece->link);
    else
        piece_end(engine, piece, rc == TESUP_AGAIN ? TESUP_ERR_TIMEOUT : rc, 0);
}

/* Not between the requests of somebody's group. */
static void again_retry(struct engine *engine)
{
    struct list due;

    list_init(&due);
    list_each (node, following, &engine->again) {
        list_remove(node);
        list_append(&due, node);
    }
    list_each (node, following, &due) {
        struct piece *piece = list_entry(node, struct piece, link);

        list_remove(node);
        if (again_is_due(piece))
            again_submit(engine, piece);
        else
            list_append(&engine->again, node);
    }
}

/* ---- completions ---- */

static void completion_take(struct engine *engine, const struct tesup_completion *completion)
{
    struct piece *piece = (struct piece *)(uintptr_t)completion->cookie;

    if (completion->status == TESUP_AGAIN && clock_now() < piece->give_up_at)
        list_append(&engine->again, &piece->link);
    else
        piece_end(engine, piece,
                  completion->status == TESUP_AGAIN ? TESUP_ERR_TIMEOUT : completion->status,
                  completion->bytes);
}

int engine_progress(struct engine *engine)
{
    struct tesup_completion completions[POLL_MAX];
    int count = tesup_poll(engine->channel, completions, POLL_MAX);

    for (int i = 0; i < count; i++)
        completion_take(engine, &completions[i]);
    if (!list_empty(&engine->again) && !engine->busy)
        again_retry(engine);
    return count == TESUP_ERR_GONE ? TESUP_ERR_NO_DAEMON : count;
}

void engine_idle(struct engine *engine)
{
    if (++engine->looks % IDLE_LOOKS != 0)
        return;
    slot_release(engine);
    sched_yield();
    (void)slot_retake(engine);
}

/* ---- handing over ---- */

int send_wait(struct engine *engine)
{
    int count = engine_progress(engine);
    int rc = TESUP_OK;

    if (count < 0)
        return count;
    if (count == 0) {
        rc = tesup_wait(engine->channel, WAIT_MS);
        if (rc == TESUP_ERR_TIMEOUT)
            rc = TESUP_OK;
        if (rc == TESUP_ERR_GONE)
            rc = TESUP_ERR_NO_DAEMON;
    }
    slot_release(engine);
    sched_yield(); /* whoever waits for the lock comes first */
    if (!slot_retake(engine) && rc == TESUP_OK)
        rc = TESUP_ERR_CANCELLED;
    return rc;
}

static uint32_t queue_copy(const struct list *queue, struct tesup_request requests[SUBMIT_MAX])
{
    uint32_t count = 0;

    for (struct list *node = queue->next; node != queue && count < SUBMIT_MAX; node = node->next) {
        struct piece *piece = list_entry(node, struct piece, link);

        piece_strip(piece);
        requests[count++] = piece->request;
    }
    return count;
}

static void queue_drop(struct engine *engine, struct list *queue, uint32_t count)
{
    for (; count > 0; count--) {
        const struct piece *piece = list_entry(queue->next, struct piece, link);

        engine->group_open = (piece->request.flags & TESUP_MORE) != 0;
        list_remove(queue->next);
    }
}

/* Ends a group whose end was not accepted, before anything else is taken for a part of it. */
static void group_end(struct engine *engine, struct list *queue)
{
    struct piece *piece = piece_new(engine);

    if (piece == NULL)
        return;
    piece->request.op = TESUP_OP_NOP;
    piece->peer = engine->peers[LOCAL_SEGMENT];
    piece->give_up_at = clock_now() + engine->timeout_ms * CLOCK_NS_PER_MS;
    list_append(queue->next, &piece->link); /* in front of all */
}

/* A handle of libtesup did not survive, or there is no supervisor: what can be done about it is
 * done twice for a queue. TESUP_OK to try again. */
static int queue_recover(struct engine *engine, struct list *queue, int rc, const char *call)
{
    struct piece *first = list_entry(queue->next, struct piece, link);

    if (rc == TESUP_ERR_NO_DAEMON)
        return daemon_restart(engine, call);
    if (rc != TESUP_ERR_GONE)
        return rc;
    first->peer->stale = true;
    if (peer_prepare(engine, first->peer, call) != 0)
        return rc;
    list_each (node, following, queue) {
        struct piece *piece = list_entry(node, struct piece, link);

        if (piece->peer == first->peer)
            piece->request.remote = piece->peer->remote;
    }
    return TESUP_OK;
}

/* What makes no sense to libtesup concerns this request alone. */
static int queue_refuse_first(struct engine *engine, struct list *queue, int rc, const char *call)
{
    struct piece *piece = list_entry(queue->next, struct piece, link);

    if (rc != TESUP_ERR_INVALID && rc != TESUP_ERR_TOO_LONG)
        return rc;
    say(LOG_LEVEL_ERROR, call, "%s", tesup_last_error());
    list_remove(&piece->link);
    piece_end(engine, piece, rc, 0);
    return TESUP_OK;
}

static void queue_give_up(struct engine *engine, struct list *queue, int rc, const char *call)
{
    say(LOG_LEVEL_ERROR, call, "%s",
        rc == TESUP_ERR_TIMEOUT ? "the worker took no more requests within the time of a transfer "
                                  "(MC_TRANSFER_TIMEOUT); see `tesup status`"
                                : tesup_last_error());
    while (!list_empty(queue)) {
        struct piece *piece = list_entry(queue->next, struct piece, link);

        list_remove(&piece->link);
        piece_end(engine, piece, rc, 0);
    }
}

void send_pieces(struct engine *engine, struct list *queue, const char *call)
{
    uint64_t until = clock_now() + engine->timeout_ms * CLOCK_NS_PER_MS;
    struct tesup_request requests[SUBMIT_MAX];
    unsigned recoveries = 0;
    int rc = TESUP_OK;

    if (engine->group_open)
        group_end(engine, queue);
    while (!list_empty(queue) && rc == TESUP_OK) {
        uint32_t accepted = 0, count = queue_copy(queue, requests);

        rc = tesup_submit(engine->channel, requests, count, NULL, &accepted);
        queue_drop(engine, queue, accepted);
        if (rc == TESUP_AGAIN)
            rc = clock_now() < until ? send_wait(engine) : TESUP_ERR_TIMEOUT;
        if (rc != TESUP_OK)
            rc = queue_refuse_first(engine, queue, rc, call);
        if (rc != TESUP_OK && recoveries++ < RECOVERY_MAX)
            rc = queue_recover(engine, queue, rc, call);
    }
    if (!list_empty(queue))
        queue_give_up(engine, queue, rc, call);
}
