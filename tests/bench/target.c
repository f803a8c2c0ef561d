#include "tests/bench/target.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/work.h"

struct serving {
    struct target *target;
    struct party party;
    struct party_region region;
    tesup_remote_t peer;
};

static void answer_send(struct serving *serving)
{
    static const uint8_t message[64];
    const struct tesup_request answer = {
        .op = TESUP_OP_NOTIFY, .remote = serving->peer, .msg = message, .msg_len = sizeof(message)};
    struct tesup_completion done[16];
    uint32_t accepted = 0;

    party_check(tesup_submit(serving->party.channel, &answer, 1, NULL, &accepted), "answer");
    /* Not waited for: the completion of the last answer is here by now. */
    for (int got = tesup_poll(serving->party.channel, done, 16); got > 0; got--)
        party_check(done[got - 1].status, "completion of an answer");
}

static bool notes_take(struct serving *serving)
{
    struct tesup_notification note;
    bool any = false;

    while (tesup_notify_peek(serving->party.channel, &note) == TESUP_OK) {
        atomic_set(&serving->target->received_ns, clock_now());
        party_check(tesup_notify_release(serving->party.channel), "release");
        atomic_publish(&serving->target->received, atomic_peek(&serving->target->received) + 1);
        if (serving->target->answer)
            answer_send(serving);
        any = true;
    }
    return any;
}

/* Completions of answers would keep tesup_wait awake. */
static void completions_take(struct serving *serving)
{
    struct tesup_completion done[16];
    int got = tesup_poll(serving->party.channel, done, 16);

    assert_true(got >= 0);
    for (int i = 0; i < got; i++)
        party_check(done[i].status, "completion of an answer");
}

static void turn(struct serving *serving)
{
    struct target *target = serving->target;
    uint64_t seed = atomic_observe(&target->check);

    if (seed != atomic_peek(&target->checked)) {
        party_verify(serving->region.bytes, target->size, seed, "what was written");
        atomic_publish(&target->checked, seed);
    }
    if (notes_take(serving))
        return;
    completions_take(serving);
    if (target->spin) {
        cpu_relax();
        return;
    }
    int code = tesup_wait(serving->party.channel, 20);
    if (code != TESUP_ERR_TIMEOUT)
        party_check(code, "target waits");
}

static void target_job(void *argument)
{
    struct target *target = argument;
    struct serving serving = {.target = target};

    place_pin(0, target->place);
    party_attach(&serving.party, target->daemon, NULL);
    assert_true(party_region_create(&serving.party, target->memory, target->size,
                                    TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE,
                                    &serving.region));
    memset(serving.region.bytes, 1, target->size);
    snprintf(target->name, sizeof(target->name), "%s", tesup_segment_name(serving.party.session));
    if (target->peer[0] != '\0')
        serving.peer = party_open(&serving.party, target->peer);
    atomic_set(&target->region, serving.region.handle);
    atomic_set(&target->pid, (uint64_t)getpid());
    atomic_publish(&target->ready, 1);
    while (atomic_observe(&target->stop) == 0)
        turn(&serving);
    party_region_free(&serving.party, &serving.region);
    party_detach(&serving.party);
}

struct target *target_start(struct target form)
{
    struct target *target = job_board_create(sizeof(*target));

    *target = form;
    job_start(&target->job, "target", target_job, target);
    wait_word(&target->ready, 1, "the target");
    return target;
}

void target_verify(struct target *target, uint64_t seed)
{
    atomic_publish(&target->check, seed);
    wait_word(&target->checked, seed, "the target compares what it got");
}

void target_stop(struct target *target)
{
    atomic_publish(&target->stop, 1);
    job_expect_success(&target->job, WAIT_MS);
    job_board_free(target, sizeof(*target));
}
