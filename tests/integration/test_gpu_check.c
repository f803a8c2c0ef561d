/* scripts/gpu-check on a machine without a GPU: it says so, here and from its bundle.  What it
 * would do with one is tried as far as the stand-in goes: the probe. */
#include "tests/harness/test.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/command.h"

static struct command command;

__attribute__((format(printf, 2, 3))) static void run(int code, const char *format, ...)
{
    char words[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(words, sizeof(words), format, args);
    va_end(args);
    command_run(&command, words);
    command_expect_code(&command, code);
}

static void no_gpu_is_said(void **state)
{
    (void)state;
    run(77,
        "env CUDA_VISIBLE_DEVICES= " TESUP_SOURCE_DIR "/scripts/gpu-check --build " TESUP_BIN_DIR
        "/.. --json %s/found.json",
        command_scratch());
    command_expect_text(command.out, "programs               pass");
    command_expect_text(command.out, "no GPU here, so nothing of it was checked");
    run(0, "grep -c \"gpu\":.false %s/found.json", command_scratch());
    run(0, "rm %s/found.json", command_scratch());
    command_expect_nothing_left();
}

static void a_bundle_needs_nothing_of_the_build(void **state)
{
    char mib[8];

    (void)state;
    run(0, TESUP_SOURCE_DIR "/scripts/gpu-check --build " TESUP_BIN_DIR "/.. --bundle %s/bundle",
        command_scratch());
    run(0, "du -sm %s/bundle", command_scratch());
    snprintf(mib, sizeof(mib), "%.4s", command.out);
    assert_in_range(strtol(mib, NULL, 10), 1, 59);
    run(77,
        "env -i CUDA_VISIBLE_DEVICES= PATH=/usr/bin:/bin %s/bundle/gpu-check --json "
        "%s/bundle/found.json",
        command_scratch(), command_scratch());
    command_expect_text(command.out, "programs               pass");
    run(0, "rm -r %s/bundle", command_scratch());
    command_expect_nothing_left();
}

static void other_words_are_refused(void **state)
{
    (void)state;
    run(2, TESUP_SOURCE_DIR "/scripts/gpu-check --fast");
    command_expect_text(command.err, "usage: scripts/gpu-check");
    run(1, TESUP_SOURCE_DIR "/scripts/gpu-check --build " TESUP_BIN_DIR "/.. --bundle /usr");
    command_expect_text(command.err, "is no bundle");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_gpu_is_said),
        cmocka_unit_test(a_bundle_needs_nothing_of_the_build),
        cmocka_unit_test(other_words_are_refused),
    };

    return cmocka_run_group_tests(tests, command_scratch_create, command_scratch_remove);
}
