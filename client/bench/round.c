#include "client/bench/round.h"

#include <string.h>
#include <time.h>

#include "client/bench/clock.h"

/* A round may take this long, and longer by what its bytes need at the slowest rate. */
#define ROUND_BASE_NS     (UINT64_C(20) * 1000000000)
#define ROUND_NS_PER_BYTE 20 /* 50 MB/s */
#define ROUND_SUBMIT_MAX  64u
#define ROUND_RETRY_NS    50000
/* A block's place in the round is slot * PLACE_SLOT + block: the cookie of its request. */
#define PLACE_SLOT 65536u

static uint64_t round_deadline_ns(const struct round *round)
{
    uint64_t bytes = round->shape->block_bytes * round->shape->batch * round->slots;

    return clock_now_ns() + ROUND_BASE_NS + bytes * ROUND_NS_PER_BYTE;
}

static void request_fill(const struct round *round, uint32_t place, struct tesup_request *request,
                         struct message_block *message)
{
    const struct message_case *shape = round->shape;
    uint32_t slot = place / PLACE_SLOT;
    uint32_t block = place % PLACE_SLOT;
    uint64_t offset = blocks_offset(round->blocks, slot, block);

    *request = (struct tesup_request){
        .op = shape->op == BENCH_OP_READ ? TESUP_OP_READ : TESUP_OP_WRITE,
        .cookie = place,
        .remote = round->party->remote,
        .local_region = round->blocks->region,
        .local_offset = offset,
        .remote_region = round->region,
        .remote_offset = offset,
        .length = shape->block_bytes,
    };
    if (shape->notify == BENCH_NOTIFY_NONE)
        return;
    *message = (struct message_block){
        .head = {.magic = MESSAGE_MAGIC, .kind = MESSAGE_BLOCK},
        .iteration = round->first_iteration + slot,
        .block = block,
    };
    request->name = MESSAGE_NAME;
    request->name_len = sizeof(MESSAGE_NAME) - 1;
    request->msg = message;
    request->msg_len = sizeof(*message);
}

static int completion_take(struct round *round, const struct party_event *event)
{
    const struct tesup_completion *completion = &event->completion;
    uint64_t slot = completion->cookie / PLACE_SLOT;
    uint64_t block = completion->cookie % PLACE_SLOT;
    uint64_t iteration = round->first_iteration + slot;

    if (slot >= round->slots || block >= round->shape->batch || round->in_flight == 0)
        return party_fail(round->party, "a completion came for a request that is not in flight");
    round->in_flight--;
    /* Refused for lack of room at the other side: nothing was sent, so it goes once more. */
    if (completion->status == TESUP_AGAIN) {
        round->again[round->again_count++] = (uint32_t)completion->cookie;
        return 0;
    }
    if (completion->status != TESUP_OK || completion->bytes != round->shape->block_bytes)
        return party_fail(
            round->party, "iteration %llu, block %llu: %s of %llu bytes: %s, %llu bytes moved",
            (unsigned long long)iteration, (unsigned long long)block,
            options_op_name((enum bench_op)round->shape->op),
            (unsigned long long)round->shape->block_bytes, tesup_strerror(completion->status),
            (unsigned long long)completion->bytes);
    round->complete_ns[slot] = event->at_ns;
    round->completions_missing--;
    return 0;
}

static int report_take(struct round *round, const struct party_event *event)
{
    const struct message_report *report = (const struct message_report *)event->message;

    if (report->first_iteration != round->first_iteration || report->iterations != round->slots ||
        event->message_len < sizeof(*report) + round->slots * sizeof(report->received_ns[0]))
        return party_fail(round->party, "%s reported another round", round->party->peer);
    round->reported = true;
    round->verified = report->verified != 0;
    round->fault = report->fault;
    round->verified_on_gpu = report->verified_on_gpu;
    if (!round->shape->receipts && round->shape->notify != BENCH_NOTIFY_NONE)
        memcpy(round->receive_ns, report->received_ns,
               round->slots * sizeof(report->received_ns[0]));
    return 0;
}

static int receipt_take(struct round *round, const struct party_event *event)
{
    const struct message_iteration *receipt = (const struct message_iteration *)event->message;
    uint64_t slot = receipt->iteration - round->first_iteration;

    if (slot >= round->slots || round->receipts_missing == 0)
        return party_fail(round->party, "%s acknowledged an iteration that is not in flight",
                          round->party->peer);
    round->receive_ns[slot] = event->at_ns;
    round->receipts_missing--;
    return 0;
}

static int event_take(struct round *round, uint64_t deadline_ns)
{
    struct party_event event;

    if (party_event_wait(round->party, deadline_ns, &event))
        return -1;
    if (event.kind == PARTY_COMPLETION)
        return completion_take(round, &event);
    if (event.message->kind == MESSAGE_REPORT)
        return report_take(round, &event);
    if (event.message->kind == MESSAGE_RECEIPT)
        return receipt_take(round, &event);
    return party_fail(round->party, "%s sent a message of kind %u out of turn", round->party->peer,
                      event.message->kind);
}

/* After a submit that found no room: a completion makes some, else only time does. */
static int room_wait(struct round *round, uint64_t deadline_ns)
{
    if (round->in_flight > 0)
        return event_take(round, deadline_ns);
    if (clock_now_ns() >= deadline_ns)
        return party_fail(round->party, "%s takes no more requests; see `tesup status`",
                          round->party->peer);
    nanosleep(&(struct timespec){.tv_nsec = ROUND_RETRY_NS}, NULL);
    return 0;
}

/* Submits the first of these blocks, as many at once as fit. How many, or -1. */
static int some_submit(struct round *round, const uint32_t *place, uint32_t count)
{
    struct tesup_request requests[ROUND_SUBMIT_MAX];
    struct message_block messages[ROUND_SUBMIT_MAX];
    uint32_t filled = 0, accepted = 0;

    do
        request_fill(round, place[filled], &requests[filled], &messages[filled]);
    while (++filled < count && filled < ROUND_SUBMIT_MAX);
    int code = tesup_submit(round->party->channel, requests, filled, NULL, &accepted);
    if (code < 0)
        return party_fail_code(round->party, code, "cannot submit");
    round->in_flight += accepted;
    return (int)accepted;
}

static int blocks_submit(struct round *round, const uint32_t *place, uint32_t count,
                         uint64_t deadline_ns)
{
    for (uint32_t done = 0; done < count;) {
        int accepted = some_submit(round, place + done, count - done);
        if (accepted < 0 || (accepted == 0 && room_wait(round, deadline_ns)))
            return -1;
        done += (uint32_t)accepted;
    }
    return 0;
}

static int slots_submit(struct round *round, uint64_t deadline_ns)
{
    uint32_t place[OPTIONS_BLOCKS_MAX] = {0};

    for (uint32_t slot = 0; slot < round->slots; slot++) {
        for (uint32_t block = 0; block < round->shape->batch; block++)
            place[block] = slot * PLACE_SLOT + block;
        round->submit_ns[slot] = clock_now_ns();
        if (blocks_submit(round, place, round->shape->batch, deadline_ns))
            return -1;
    }
    return 0;
}

static int again_submit(struct round *round, uint64_t deadline_ns)
{
    uint32_t place[OPTIONS_BLOCKS_MAX];
    uint32_t count = round->again_count;

    memcpy(place, round->again, count * sizeof(place[0]));
    round->again_count = 0;
    return blocks_submit(round, place, count, deadline_ns);
}

static int check_send(struct round *round)
{
    struct message_iteration check = {.iteration = round->first_iteration};

    return party_message_send(round->party, &check.head, sizeof(check), MESSAGE_CHECK);
}

int round_run(struct round *round)
{
    const struct message_case *shape = round->shape;
    uint64_t deadline = round_deadline_ns(round);

    round->completions_missing = round->slots * shape->batch;
    round->receipts_missing = shape->receipts ? round->slots : 0;
    round->in_flight = 0;
    round->again_count = 0;
    round->reported = false;
    if (slots_submit(round, deadline))
        return -1;
    while (round->completions_missing > 0 || round->receipts_missing > 0)
        if (again_submit(round, deadline) || event_take(round, deadline))
            return -1;
    if (shape->notify == BENCH_NOTIFY_NONE && check_send(round))
        return -1;
    /* Checking has its own time, at the other side, so it gets its own deadline. */
    deadline = round_deadline_ns(round);
    while (!round->reported)
        if (event_take(round, deadline))
            return -1;
    return 0;
}

static uint64_t round_end_ns(const struct round *round, uint32_t slot)
{
    uint64_t complete = round->complete_ns[slot];
    uint64_t receive = round->receive_ns[slot];

    if (round->shape->notify == BENCH_NOTIFY_NONE)
        return complete;
    if (round->shape->op == BENCH_OP_READ && complete > receive)
        return complete;
    return receive;
}

uint64_t round_time_ns(const struct round *round, uint32_t slot)
{
    return round_end_ns(round, slot) - round->submit_ns[slot];
}

uint64_t round_busy_ns(const struct round *round)
{
    uint64_t end = 0;

    for (uint32_t slot = 0; slot < round->slots; slot++)
        if (round_end_ns(round, slot) > end)
            end = round_end_ns(round, slot);
    return end - round->submit_ns[0];
}
