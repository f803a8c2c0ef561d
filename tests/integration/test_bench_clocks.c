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

#define TESUP       TESUP_BIN_DIR "/tesup"
#define OTHER_CLOCK "unshare --time --monotonic 1000 "

static struct command supervisor, target, run;

/* Two hosts have two clocks: here the initiator's is 1,000 s ahead of the target's. */
static void test_two_clocks(void **state)
{
    char words[512], rest[256];
    const char *dir = command_scratch();

    (void)state;
    command_run(&run, OTHER_CLOCK "true");
    if (run.code) {
        print_message("time namespaces are not allowed here\n");
        skip();
    }
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
             OTHER_CLOCK TESUP " bench initiator %s --socket %s/one.sock --sizes 4K --depth 3 "
                               "--iters 20",
             rest, dir);
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
