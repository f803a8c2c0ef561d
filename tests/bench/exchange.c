#include "tests/bench/exchange.h"

#include <stdio.h>

#include "tests/bench/work.h"

void stage_open(struct stage *stage, const char *options, bool sleep, const unsigned at[4])
{
    *stage = (struct stage){.sleep = sleep};
    stage->left_worker = bench_serve(&stage->left, "left", options, at[2]);
    stage->right_worker = bench_serve(&stage->right, "right", options, at[3]);
    party_attach(&stage->party, &stage->left, NULL);
    assert_true(party_region_create(&stage->party, PARTY_MEMORY_ALLOC, EXCHANGE_BLOCK,
                                    TESUP_ACCESS_LOCAL, &stage->region));
    struct target form = {.daemon = &stage->right,
                          .place = at[1],
                          .spin = !sleep,
                          .answer = true,
                          .size = EXCHANGE_BLOCK};
    snprintf(form.peer, sizeof(form.peer), "%s", tesup_segment_name(stage->party.session));
    stage->target = target_start(form);
    place_pin(0, at[0]);
    stage->write =
        (struct tesup_request){.op = TESUP_OP_WRITE,
                               .remote = party_open(&stage->party, stage->target->name),
                               .local_region = stage->region.handle,
                               .remote_region = (tesup_region_t)atomic_peek(&stage->target->region),
                               .length = EXCHANGE_BLOCK,
                               .name = "block",
                               .name_len = 5};
}

void stage_close(struct stage *stage)
{
    target_stop(stage->target);
    party_region_free(&stage->party, &stage->region);
    party_detach(&stage->party);
    daemon_stop(&stage->left);
    daemon_stop(&stage->right);
}

void stage_exchange(struct stage *stage, uint64_t *whole, uint64_t *one_way)
{
    struct tesup_notification note;
    uint64_t began = clock_now();

    work_once(stage->party.channel, &stage->write, stage->sleep);
    work_take(stage->party.channel, &note, stage->sleep);
    *whole = clock_now() - began;
    *one_way = atomic_peek(&stage->target->received_ns) - began;
    party_check(tesup_notify_release(stage->party.channel), "release");
}
