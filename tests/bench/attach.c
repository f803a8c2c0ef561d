/* From nothing to the first accepted request. */
#include "tests/bench/work.h"

void attach_time(void **state)
{
    static const struct tesup_request nop = {.op = TESUP_OP_NOP};
    struct series submitted = {.count = 0}, completed = {.count = 0};
    unsigned per_rep = bench_quick ? 3 : 20;
    struct daemon daemon;
    struct row *row;

    (void)state;
    bench_serve(&daemon, "attach", "", 0);
    place_pin(0, 1);
    for (unsigned i = 0; i < bench_reps(); i++) {
        struct series first = {.count = 0}, done = {.count = 0};

        for (unsigned n = 0; n < per_rep; n++) {
            struct patience patience = patience_begin("the first completion");
            struct tesup_completion completion;
            uint64_t began = clock_now();
            struct party party;
            uint32_t accepted;

            party_attach(&party, &daemon, NULL);
            party_check(tesup_submit(party.channel, &nop, 1, NULL, &accepted), "first submit");
            series_add(&first, (double)(clock_now() - began) / 1e6);
            while (tesup_poll(party.channel, &completion, 1) == 0)
                patience_turn(&patience);
            series_add(&done, (double)(clock_now() - began) / 1e6);
            party_detach(&party);
        }
        series_add(&submitted, series_median(&first));
        series_add(&completed, series_median(&done));
        series_free(&first);
        series_free(&done);
    }
    daemon_stop(&daemon);
    row = row_add("attach", "attach to first submit", "ms", &submitted);
    row_ask(row, false, 2, "<= 2 ms", 0.5, "<= 0.5 ms");
    row_place(row, "job CPU %d, worker CPU %d, default idling", place_cpu(1), place_cpu(0));
    row = row_add("attach-done", "attach to the first completion", "ms", &completed);
    row_place(row, "as above");
    series_free(&submitted);
    series_free(&completed);
}
