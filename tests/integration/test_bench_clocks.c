/* `tesup bench target` and `initiator` where the two jobs do not share a clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness/command.h"

#define TESUP TESUP_BIN_DIR "/tesup"
static struct command supervisor, target, run;

/* What makes a command see another clock: as root, or inside a user namespace. */
static const char *other_clock(void)
{
    static const char *const ways[] = {
        "unshare --time --monotonic 1000 ",
        "unshare --user --map-current-user --time --monotonic 1000 "};
    char words[128];

    for (size_t i = 0; i < 2; i++) {
        snprintf(words, sizeof(words), "%strue", ways[i]);
        command_run(&run, words);
        if (run.code == 0)
            return ways[i];
    }
    fail_msg("no clock of its own: %s; run the tests as root (CAP_SYS_ADMIN), or allow user "
             "namespaces: sysctl user.max_user_namespaces",
             run.err);
    return NULL;
}

/* Two hosts have two clocks: here the initiator's is 1,000 s ahead of the target's. */
static void test_two_clocks(void **state)
{
    char words[512], rest[256];
    const char *dir = command_scratch();
    const char *clock = other_clock();

    (void)state;
    snprintf(words, sizeof(words),
             TESUP " serve --foreground --name one --runtime-dir %s --peer-key %s/key "
                   "--listen 127.0.0.1:0 --workers 1",
             dir, dir);
    command_start(&supervisor, words);
    command_line_wait(&supervisor, "listening on ", rest, sizeof(rest));
    snprintf(words, sizeof(words), TESUP " bench target --socket %s/one.sock", dir);
    command_start(&target, words);
    command_line_wait(&target, "target ", rest, sizeof(rest));
    snprintf(words, sizeof(words),
             "%s" TESUP " bench initiator %s --socket %s/one.sock --sizes 4K --depth 3 --iters 20",
             clock, rest, dir);
    command_run(&run, words);
    command_expect_code(&run, 0);
    command_expect_text(run.out, "two clocks");
    command_expect_text(run.out, "yes");
    assert_null(strstr(run.out, "NO"));
    command_end(&target);
    command_expect_code(&target, 0);
    kill(supervisor.pid, SIGTERM);
    command_end(&supervisor);
    command_expect_code(&supervisor, 0);
    snprintf(words, sizeof(words), "%s/key", dir);
    assert_int_equal(unlink(words), 0);
    command_expect_nothing_left();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_two_clocks)};

    return cmocka_run_group_tests(tests, command_scratch_create, command_scratch_remove);
}
