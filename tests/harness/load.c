#include "tests/harness/test.h"

#include "tests/harness/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/atomics.h"
#include "tests/harness/wait.h"

#define ROUNDS_MORE 3u
#define END_MS      30000u

struct slot {
    uint8_t *written, *read; /* in the source's region */
    uint64_t offset;         /* of `written`; `read` lies behind all of them */
    uint64_t seed, length;
    uint64_t cookie; /* of the request in flight, 0 = none */
    uint32_t op;
};

struct source {
    struct load *load;
    struct load_source *board;
    unsigned index;
    struct party party;
    struct party_region region;
    tesup_remote_t remote;
    struct slot slot[LOAD_SLOTS];
    uint64_t next_cookie;
};

/* ---- target ---- */

static void target_job(void *argument)
{
    struct load *load = argument;
    struct party_region region;
    struct party party;
    struct tesup_notification note;
    int code;

    party_attach(&party, load->to, NULL);
    party_region_create(&party, load->memory, (uint64_t)LOAD_SOURCES * LOAD_SLOTS * LOAD_SLOT,
                        TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE, &region);
    snprintf(load->target_name, sizeof(load->target_name), "%s", tesup_segment_name(party.session));
    load->target_region = region.handle;
    atomic_publish(&load->ready, 1);
    while (atomic_observe(&load->target_stop) == 0) {
        code = tesup_notify_peek(party.channel, &note);
        if (code == TESUP_AGAIN) {
            code = tesup_wait(party.channel, 20);
            if (code == TESUP_ERR_TIMEOUT || code == TESUP_ERR_GONE)
                continue;
            party_check(code, "target waits");
            continue;
        }
        party_check(code, "notification");
        atomic_count(&load->received, 1);
        party_check(tesup_notify_release(party.channel), "release");
    }
    party_detach(&party);
}

/* ---- source ---- */

static const uint64_t lengths[] = {1, 64, 4096, 4097, 65536, LOAD_SLOT - 5, LOAD_SLOT};

static void slot_submit(struct source *source, struct slot *slot, uint32_t op)
{
    struct load *load = source->load;
    uint64_t place = (uint64_t)(source->index * LOAD_SLOTS + (slot - source->slot));
    struct tesup_request request = {.op = op,
                                    .cookie = ++source->next_cookie,
                                    .remote = source->remote,
                                    .local_region = source->region.handle,
                                    .local_offset = slot->offset,
                                    .remote_region = load->target_region,
                                    .remote_offset = place * LOAD_SLOT,
                                    .length = slot->length,
                                    .name = "load",
                                    .name_len = 4};
    uint32_t accepted = 0;
    int code;

    if (op == TESUP_OP_READ)
        request.local_offset += (uint64_t)LOAD_SLOTS * LOAD_SLOT;
    code = tesup_submit(source->party.channel, &request, 1, NULL, &accepted);
    if (code == TESUP_AGAIN || code == TESUP_ERR_NO_DAEMON) {
        source->next_cookie--; /* nothing was accepted */
        return;
    }
    party_check(code, "source submits");
    assert_int_equal(accepted, 1);
    slot->cookie = request.cookie;
    slot->op = op;
    atomic_count(&source->board->accepted, 1);
}

static void slot_start(struct source *source, struct slot *slot)
{
    uint64_t round = ++slot->seed;

    slot->length = lengths[round % (sizeof(lengths) / sizeof(lengths[0]))];
    party_fill(slot->written, slot->length, slot->seed * LOAD_SLOTS + source->index);
    slot_submit(source, slot, TESUP_OP_WRITE);
}

static void slot_verify(struct source *source, struct slot *slot)
{
    party_verify(slot->read, slot->length, slot->seed * LOAD_SLOTS + source->index,
                 "what was written is read back");
    memset(slot->read, 0, slot->length);
    atomic_count(&source->board->rounds, 1);
}

/* The ledger: a cookie that is in flight, once. */
static struct slot *slot_find(struct source *source, const struct tesup_completion *completion)
{
    for (unsigned i = 0; i < LOAD_SLOTS; i++)
        if (source->slot[i].cookie == completion->cookie)
            return &source->slot[i];
    fail_msg("completion for cookie %llu, which is not in flight (status %d)",
             (unsigned long long)completion->cookie, completion->status);
    return NULL;
}

static void source_take(struct source *source, const struct tesup_completion *completion)
{
    struct slot *slot = slot_find(source, completion);
    struct load_source *board = source->board;

    slot->cookie = 0;
    atomic_count(&board->completed, 1);
    if (completion->status == TESUP_OK) {
        assert_int_equal(completion->bytes, slot->length);
        assert_int_equal(completion->op, slot->op);
        atomic_count(&board->ok, 1);
        if (slot->op == TESUP_OP_WRITE)
            slot_submit(source, slot, TESUP_OP_READ);
        else
            slot_verify(source, slot);
    } else if (completion->status == TESUP_ERR_UNCERTAIN) {
        atomic_count(&board->uncertain, 1);
    } else if (completion->status != TESUP_AGAIN) {
        atomic_set(&board->status, (uint64_t)-completion->status);
        atomic_count(&board->failed, 1);
    }
}

static void source_turn(struct source *source, bool more)
{
    struct tesup_completion completions[LOAD_SLOTS];
    int got = tesup_poll(source->party.channel, completions, LOAD_SLOTS);

    if (got < 0)
        party_check(got, "source polls");
    for (int i = 0; i < got; i++)
        source_take(source, &completions[i]);
    for (unsigned i = 0; more && i < LOAD_SLOTS; i++)
        if (source->slot[i].cookie == 0)
            slot_start(source, &source->slot[i]);
    if (got == 0 && (got = tesup_wait(source->party.channel, 20)) != TESUP_OK)
        if (got != TESUP_ERR_TIMEOUT && got != TESUP_ERR_GONE)
            party_check(got, "source waits");
}

static bool source_in_flight(const struct source *source)
{
    for (unsigned i = 0; i < LOAD_SLOTS; i++)
        if (source->slot[i].cookie != 0)
            return true;
    return false;
}

static void source_open(struct source *source)
{
    struct load *load = source->load;

    party_attach(&source->party, load->from, NULL);
    party_region_create(&source->party, load->memory, (uint64_t)2 * LOAD_SLOTS * LOAD_SLOT,
                        TESUP_ACCESS_LOCAL, &source->region);
    memset(source->region.bytes, 0, source->region.size);
    source->remote = party_open(&source->party, load->target_name);
    for (unsigned i = 0; i < LOAD_SLOTS; i++) {
        source->slot[i].offset = (uint64_t)i * LOAD_SLOT;
        source->slot[i].written = source->region.bytes + source->slot[i].offset;
        source->slot[i].read = source->slot[i].written + (uint64_t)LOAD_SLOTS * LOAD_SLOT;
    }
}

static void source_job(void *argument)
{
    struct load *load = argument;
    struct source source = {.load = load};
    struct wait wait;

    source.index = (unsigned)atomic_fetch_add(&load->ready, 1) - 1;
    source.board = &load->source[source.index];
    source_open(&source);
    while (atomic_observe(&load->stop) == 0)
        source_turn(&source, true);
    wait = wait_begin("the last completions", WAIT_MS);
    while (source_in_flight(&source)) {
        source_turn(&source, false);
        wait_step(&wait);
    }
    source_turn(&source, false); /* one more would be one too many */
    assert_int_equal(atomic_peek(&source.board->accepted), atomic_peek(&source.board->completed));
    party_detach(&source.party);
}

/* ---- the test's side ---- */

struct load *load_start(const struct daemon *from, const struct daemon *to, unsigned sources,
                        enum party_memory memory)
{
    struct load *load = job_board_create(sizeof(*load));

    load->from = from;
    load->to = to;
    load->sources = sources;
    load->memory = memory;
    job_start(&load->target_job, "load target", target_job, load);
    wait_word(&load->ready, 1, "the load's target");
    for (unsigned i = 0; i < sources; i++)
        job_start(&load->source_job[i], "load source", source_job, load);
    load_expect_progress(load);
    return load;
}

void load_expect_progress(struct load *load)
{
    uint64_t before[LOAD_SOURCES];

    for (unsigned i = 0; i < load->sources; i++)
        before[i] = atomic_observe(&load->source[i].rounds);
    for (unsigned i = 0; i < load->sources; i++)
        wait_word(&load->source[i].rounds, before[i] + ROUNDS_MORE, "progress of the load");
}

void load_stop(struct load *load)
{
    atomic_publish(&load->stop, 1);
    for (unsigned i = 0; i < load->sources; i++) /* each checks its ledger */
        if (load->source_job[i].pid != 0)
            job_expect_success(&load->source_job[i], END_MS);
    atomic_publish(&load->target_stop, 1);
    if (load->target_job.pid != 0)
        job_expect_success(&load->target_job, END_MS);
    job_board_free(load, sizeof(*load));
}

uint64_t load_sum_uncertain(const struct load *load)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < load->sources; i++)
        sum += atomic_observe(&load->source[i].uncertain);
    return sum;
}

void load_stop_clean(struct load *load)
{
    for (unsigned i = 0; i < load->sources; i++) {
        uint64_t failed = atomic_observe(&load->source[i].failed);

        if (failed > 0)
            fail_msg("%llu requests of source %u failed, the last with '%s'",
                     (unsigned long long)failed, i,
                     tesup_strerror(-(int)atomic_observe(&load->source[i].status)));
        assert_int_equal(atomic_observe(&load->source[i].uncertain), 0);
    }
    load_stop(load);
}
