/* Nobody has work: supervisor and workers must not cost CPU time.  Not in a sanitizer's build,
 * whose runtime does.
 *
 * Looks for 10 s; `integration-idle 60` looks for a whole minute. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/harness/party.h"
#include "tests/harness/process.h"
#include "tests/harness/wait.h"

#define LIMIT_MS    50u /* per minute and process */
#define MINUTE_MS   60000u
#define SECONDS_MAX 3600u

static unsigned idle_ms = 10000;

struct cost {
    const char *what;
    pid_t pid;
    uint64_t before;
};

static void cost_begin(struct cost *cost, const struct daemon *daemon)
{
    pid_t workers[DAEMON_WORKERS];

    assert_int_equal(daemon_workers(daemon, workers), 1);
    cost[0] = (struct cost){"supervisor", daemon->pid, process_cpu_ms(daemon->pid)};
    cost[1] = (struct cost){"worker", workers[0], process_cpu_ms(workers[0])};
}

static void idle_costs_nothing(void **state)
{
    struct daemon left, right;
    struct party a, b;
    struct cost cost[4];
    struct tesup_request hello = {.op = TESUP_OP_NOTIFY, .name = "hello", .name_len = 5};

    (void)state;
    daemon_start(&left, "left", "--fabric tcp");
    daemon_start(&right, "right", "--fabric tcp");
    party_attach(&a, &left, NULL);
    party_attach(&b, &right, NULL);
    hello.remote = party_open(&a, tesup_segment_name(b.session));
    party_check(party_do(a.channel, &hello).status, "hello");
    party_next(b.channel);
    wait_sleep_ms(200);
    cost_begin(&cost[0], &left);
    cost_begin(&cost[2], &right);
    wait_sleep_ms(idle_ms);
    for (int i = 0; i < 4; i++) {
        uint64_t used = (process_cpu_ms(cost[i].pid) - cost[i].before) * MINUTE_MS / idle_ms;

        print_message("an idle %s: %llu ms of CPU time a minute\n", cost[i].what,
                      (unsigned long long)used);
        if (used >= LIMIT_MS)
            fail_msg("an idle %s used %llu ms of CPU time a minute", cost[i].what,
                     (unsigned long long)used);
    }
    party_detach(&a);
    party_detach(&b);
    daemon_stop(&left);
    daemon_stop(&right);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(idle_costs_nothing, daemon_test_teardown),
    };

    if (argc > 1) {
        unsigned long seconds = strtoul(argv[1], NULL, 10);

        if (seconds < 1 || seconds > SECONDS_MAX) {
            fprintf(stderr, "usage: %s [SECONDS], 1 to %u\n", argv[0], SECONDS_MAX);
            return 2;
        }
        idle_ms = (unsigned)seconds * 1000;
    }
    return cmocka_run_group_tests(tests, daemon_group_setup, daemon_group_teardown);
}
