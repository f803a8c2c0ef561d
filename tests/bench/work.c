#include "tests/bench/work.h"

#define PATIENCE_NS (20 * CLOCK_NS_PER_S)

struct patience patience_begin(const char *what)
{
    return (struct patience){.what = what};
}

void patience_turn(struct patience *patience)
{
    cpu_relax();
    if (++patience->turns % 4096 != 0)
        return;
    if (patience->until == 0)
        patience->until = clock_now() + PATIENCE_NS; /* not sooner: it costs 25 ns */
    else if (clock_now() > patience->until)
        fail_msg("too late: %s", patience->what);
}

/* TESUP_OK when there may be something; fails the test when nothing comes. */
static void channel_sleep(struct tesup_channel *channel, const char *what)
{
    party_check(tesup_wait(channel, WAIT_MS), what);
}

void work_once(struct tesup_channel *channel, const struct tesup_request *request, bool sleep)
{
    struct patience patience = patience_begin("a completion");
    struct tesup_completion completion;
    uint32_t accepted = 0;
    int got;

    party_check(tesup_submit(channel, request, 1, NULL, &accepted), "submit");
    while ((got = tesup_poll(channel, &completion, 1)) == 0) {
        if (sleep)
            channel_sleep(channel, "a completion");
        else
            patience_turn(&patience);
    }
    assert_int_equal(got, 1);
    party_check(completion.status, "completion");
    assert_int_equal(completion.cookie, request->cookie);
}

void work_take(struct tesup_channel *channel, struct tesup_notification *note, bool sleep)
{
    struct patience patience = patience_begin("a notification");
    int code;

    while ((code = tesup_notify_peek(channel, note)) == TESUP_AGAIN) {
        if (sleep)
            channel_sleep(channel, "a notification");
        else
            patience_turn(&patience);
    }
    party_check(code, "notification");
}

static void flood_submit(struct flood *flood)
{
    struct tesup_request batch[FLOOD_BATCH_MAX];
    uint32_t accepted = 0;
    int code;

    for (uint32_t i = 0; i < flood->batch; i++)
        batch[i] = *flood->request;
    code = tesup_submit(flood->channel, batch, flood->batch, NULL, &accepted);
    if (code != TESUP_AGAIN)
        party_check(code, "submit");
    flood->in_flight += accepted;
}

static uint32_t flood_poll(struct flood *flood)
{
    struct tesup_completion done[FLOOD_BATCH_MAX];
    int got = tesup_poll(flood->channel, done, FLOOD_BATCH_MAX);

    assert_true(got >= 0);
    for (int i = 0; i < got; i++)
        party_check(done[i].status, "completion");
    flood->in_flight -= (uint32_t)got;
    return (uint32_t)got;
}

static void flood_take_notes(struct flood *flood)
{
    struct tesup_notification note;

    while (tesup_notify_peek(flood->channel, &note) == TESUP_OK) {
        assert_int_equal(note.msg_len, flood->request->msg_len);
        party_check(tesup_notify_release(flood->channel), "release");
        flood->notes++;
    }
}

uint32_t flood_turn(struct flood *flood, bool submit)
{
    uint32_t got;

    if (submit && flood->in_flight + flood->batch <= flood->window)
        flood_submit(flood);
    got = flood_poll(flood);
    if (flood->request->op == TESUP_OP_NOTIFY)
        flood_take_notes(flood);
    return got;
}

uint64_t flood_run(struct flood *flood, uint64_t count)
{
    struct patience patience = patience_begin("completions of a flood");
    uint64_t began = clock_now();

    while (count > 0) {
        uint32_t got = flood_turn(flood, count > flood->in_flight);

        if (got == 0)
            patience_turn(&patience);
        count -= got < count ? got : count;
    }
    return clock_now() - began;
}
