/* Transfers: entries of a batch become tasks, and tasks become pieces that lie in one region at
 * both ends. */
#include <stdlib.h>
#include <string.h>

#include "client/compat/mooncake/engine.h"

struct submission {
    struct engine *engine;
    struct batch *batch;
    const struct transfer_request *entries;
    size_t count, first; /* tasks [first, first + count) of the batch */
    const char *function;
    struct call *call; /* NULL: no notification */
    struct list queue;
    uint64_t give_up_at;
    const struct peer *asked; /* its card is of this submission */
};

/* ---- is it possible at all? ---- */

static int entry_check(const struct submission *submission, size_t i)
{
    const struct transfer_request *entry = &submission->entries[i];

    if (entry->opcode != OPCODE_READ && entry->opcode != OPCODE_WRITE)
        return refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, submission->function,
                      "entry %zu: opcode %d is unknown; OPCODE_READ and OPCODE_WRITE are", i,
                      entry->opcode);
    if (peer_get(submission->engine, entry->target_id) == NULL)
        return refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, submission->function,
                      "entry %zu: target_id %d is not open; use what openSegment gave", i,
                      (int)entry->target_id);
    if (submission->call != NULL && entry->target_id != submission->entries[0].target_id)
        return refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, submission->function,
                      "entry %zu has another target than entry 0: a notification goes to one", i);
    return 0;
}

static int submission_check(const struct submission *submission, batch_id_t id)
{
    const struct batch *batch = submission->batch;
    int code = 0;

    if (batch == NULL)
        return refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, submission->function,
                      "batch %#llx is none of this engine, or was freed", (unsigned long long)id);
    if (submission->entries == NULL && submission->count > 0)
        return refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, submission->function,
                      "the list of entries is NULL");
    if (submission->count > batch->size - batch->count)
        return refuse(TRANSFER_ENGINE_TOO_MANY_REQUESTS, submission->function,
                      "%zu entries more than the %zu that the batch has already are over its size, "
                      "%zu",
                      submission->count, batch->count, batch->size);
    if (submission->call != NULL && submission->count == 0)
        return refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, submission->function,
                      "a notification without an entry has no target; use genNotifyInEngine");
    for (size_t i = 0; code == 0 && i < submission->count; i++)
        code = entry_check(submission, i);
    return code;
}

/* ---- tasks ---- */

/* Each holds one piece that does not exist until its pieces are known. */
static int tasks_add(struct submission *submission)
{
    struct batch *batch = submission->batch;
    int code = batch_grow(batch, submission->count);

    if (code != 0)
        return refuse(code, submission->function, "no memory for %zu tasks", submission->count);
    submission->first = batch->count;
    batch->count += submission->count;
    batch->open += submission->count;
    for (size_t i = submission->first; i < batch->count; i++)
        batch->tasks[i] = (struct task){.pieces = 1};
    return 0;
}

static void task_settle(struct submission *submission, size_t index, bool failed)
{
    struct task *task = &submission->batch->tasks[index];

    task->failed |= failed;
    if (--task->pieces == 0)
        submission->batch->open--;
    if (failed && submission->call != NULL)
        submission->call->failed = true;
}

/* ---- where the bytes lie ---- */

enum reach { REACH_ALL, REACH_NOT_HERE, REACH_NOT_THERE };

/* How many of `length` bytes lie in one region there; 0: the first does not. */
static uint64_t remote_reach(const struct engine *engine, const struct peer *peer, uint64_t address,
                             uint64_t length)
{
    const struct memory_entry *own;
    const struct range *range;
    uint64_t rest;

    if (peer->direct)
        return length;
    if (peer->self) {
        own = memory_find(&engine->memory, address);
        rest = own != NULL && own->ready ? own->length - (address - own->base) : 0;
    } else {
        range = card_range_find(peer->ranges, peer->range_count, address);
        rest = range != NULL ? range->length - (address - range->base) : 0;
    }
    return rest < length ? rest : length;
}

/* How many of `length` bytes lie in one region here. */
static uint64_t local_reach(const struct engine *engine, uint64_t address, uint64_t length,
                            bool store, struct memory_entry **entry)
{
    uint64_t rest;

    *entry = memory_find(&engine->memory, address);
    if (*entry == NULL || !(*entry)->ready || (store && (*entry)->read_only))
        return 0;
    rest = (*entry)->length - (address - (*entry)->base);
    return rest < length ? rest : length;
}

static enum reach entry_step(const struct engine *engine, const struct peer *peer,
                             const struct transfer_request *entry, uint64_t done,
                             struct tesup_request *request)
{
    uint64_t local = (uint64_t)(uintptr_t)entry->source + done;
    bool store = entry->opcode == OPCODE_READ;
    struct memory_entry *memory;

    request->length = local_reach(engine, local, entry->length - done, store, &memory);
    if (request->length == 0)
        return REACH_NOT_HERE;
    request->local_region = memory->region;
    request->local_offset = local - memory->base;
    request->remote_offset = entry->target_offset + done;
    request->length = remote_reach(engine, peer, request->remote_offset, request->length);
    return request->length == 0 ? REACH_NOT_THERE : REACH_ALL;
}

static enum reach entry_reach(const struct engine *engine, const struct peer *peer,
                              const struct transfer_request *entry)
{
    struct tesup_request request;
    enum reach reach = REACH_ALL;

    for (uint64_t done = 0; reach == REACH_ALL && done < entry->length; done += request.length)
        reach = entry_step(engine, peer, entry, done, &request);
    return reach;
}

/* ---- pieces ---- */

static int piece_add(struct submission *submission, size_t index, struct peer *peer, uint64_t done)
{
    struct engine *engine = submission->engine;
    const struct transfer_request *entry = &submission->entries[index - submission->first];
    struct piece *piece = piece_new(engine);

    if (piece == NULL)
        return -1;
    entry_step(engine, peer, entry, done, &piece->request);
    piece->request.op = entry->opcode == OPCODE_READ ? TESUP_OP_READ : TESUP_OP_WRITE;
    piece->request.flags = TESUP_REMOTE_ADDR;
    piece->request.remote = peer->remote;
    piece->request.deadline_ms = engine->deadline_ms;
    piece->peer = peer;
    piece->batch = submission->batch;
    piece->task = index;
    piece->call = submission->call;
    piece->give_up_at = submission->give_up_at;
    if (piece->call != NULL)
        piece->call->pieces++;
    submission->batch->tasks[index].pieces++;
    engine->in_flight_bytes += piece->request.length;
    list_append(&submission->queue, &piece->link);
    return 0;
}

static const struct piece *queue_last(const struct submission *submission)
{
    return list_entry(submission->queue.prev, struct piece, link);
}

static int entry_cut(struct submission *submission, size_t index, struct peer *peer)
{
    uint64_t length = submission->entries[index - submission->first].length;

    for (uint64_t done = 0; done < length; done += queue_last(submission)->request.length)
        if (piece_add(submission, index, peer, done) < 0)
            return refuse(-1, submission->function, "no memory for a request");
    return 0;
}

static void entry_refuse(const struct submission *submission, size_t i, enum reach reach)
{
    const struct transfer_request *entry = &submission->entries[i];

    if (reach == REACH_NOT_HERE)
        say(LOG_LEVEL_ERROR, submission->function,
            "entry %zu fails: %p + %llu bytes are not registered here%s", i, entry->source,
            (unsigned long long)entry->length,
            entry->opcode == OPCODE_READ ? ", or are read-only" : "");
    else
        say(LOG_LEVEL_ERROR, submission->function,
            "entry %zu fails: %#llx + %llu bytes are not registered by %s", i,
            (unsigned long long)entry->target_offset, (unsigned long long)entry->length,
            peer_get(submission->engine, entry->target_id)->name);
}

/* True when all its pieces are in the queue. */
static bool entry_plan(struct submission *submission, size_t index)
{
    struct engine *engine = submission->engine;
    const struct transfer_request *entry = &submission->entries[index - submission->first];
    struct peer *peer = peer_get(engine, entry->target_id);
    enum reach reach;

    if (entry->length == 0)
        return true;
    if (peer_prepare(engine, peer, submission->function) != 0)
        return false;
    reach = entry_reach(engine, peer, entry);
    if (reach == REACH_NOT_THERE && !peer->self && submission->asked != peer) {
        submission->asked = peer; /* it may be registered since we asked */
        if (peer_refresh(engine, peer, submission->function) == 0)
            reach = entry_reach(engine, peer, entry);
    }
    if (reach != REACH_ALL) {
        entry_refuse(submission, index - submission->first, reach);
        return false;
    }
    return entry_cut(submission, index, peer) == 0;
}

/* ---- the notification ---- */

static void request_bind(struct tesup_request *request, const struct call *call)
{
    request->name = call->text;
    request->name_len = call->name_len;
    request->msg = call->text + call->name_len;
    request->msg_len = call->msg_len;
}

/* Nothing is to be moved: the notification goes alone. */
static void notification_add(struct submission *submission)
{
    struct peer *peer = peer_get(submission->engine, submission->entries[0].target_id);
    struct piece *piece;

    if (submission->call->failed || peer_prepare(submission->engine, peer, submission->function))
        return;
    piece = piece_new(submission->engine);
    if (piece == NULL)
        return;
    piece->request.op = TESUP_OP_NOTIFY;
    piece->request.remote = peer->remote;
    piece->peer = peer;
    piece->call = submission->call;
    piece->give_up_at = submission->give_up_at;
    submission->call->pieces++;
    list_append(&submission->queue, &piece->link);
}

/* Bound to the last piece; the others are one group with it. */
static void notification_bind(struct submission *submission)
{
    struct call *call = submission->call;

    if (list_empty(&submission->queue))
        notification_add(submission);
    if (call->pieces == 0) {
        free(call);
        return;
    }
    if (call->failed)
        return;
    list_each (node, following, &submission->queue) {
        struct piece *piece = list_entry(node, struct piece, link);

        if (following == &submission->queue)
            request_bind(&piece->request, call);
        else
            piece->request.flags |= TESUP_MORE;
    }
}

/* ---- all together ---- */

static void submission_send(struct submission *submission)
{
    struct batch *batch = submission->batch;

    batch->open++; /* stays while the lock is let go */
    for (size_t i = 0; i < submission->count; i++) {
        bool planned = entry_plan(submission, submission->first + i);

        task_settle(submission, submission->first + i, !planned);
    }
    if (submission->call != NULL)
        notification_bind(submission);
    send_pieces(submission->engine, &submission->queue, submission->function);
    batch->open--;
}

/* Takes submission->call in any case. */
static int submission_run(struct submission *submission, batch_id_t id)
{
    struct engine *engine = submission->engine;
    int code = TRANSFER_ENGINE_INVALID_ARGUMENT;

    list_init(&submission->queue);
    if (!send_begin(engine)) {
        free(submission->call);
        return refuse(code, submission->function, "the engine is being destroyed");
    }
    submission->give_up_at = clock_now() + engine->timeout_ms * CLOCK_NS_PER_MS;
    submission->batch = batch_find(engine, id);
    code = submission_check(submission, id);
    if (code == 0)
        code = tasks_add(submission);
    if (code == 0)
        submission_send(submission);
    else
        free(submission->call);
    send_end(engine);
    return code;
}

int submitTransfer(transfer_engine_t handle, batch_id_t id, struct transfer_request *entries,
                   size_t count)
{
    struct submission submission = {.entries = entries, .count = count, .function = __func__};
    int code = slot_enter(handle, __func__, &submission.engine);

    if (code != 0)
        return code;
    code = submission_run(&submission, id);
    slot_leave(submission.engine);
    return code;
}

int submitTransferWithNotify(transfer_engine_t handle, batch_id_t id,
                             struct transfer_request *entries, size_t count, notify_msg_t msg)
{
    struct submission submission = {.entries = entries, .count = count, .function = __func__};
    int code = slot_enter(handle, __func__, &submission.engine);

    if (code != 0)
        return code;
    code = notification_check(submission.engine, &msg, __func__);
    if (code == 0) {
        submission.call = call_new(msg.name, msg.msg);
        code = submission.call != NULL
                   ? submission_run(&submission, id)
                   : refuse(TRANSFER_ENGINE_MEMORY, __func__, "no memory for a notification");
    }
    slot_leave(submission.engine);
    return code;
}
