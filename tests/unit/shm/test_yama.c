/* What ptrace_scope says, and the sentence for each scope. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/proto.h"
#include "shm/yama.h"

static int scope_of(const char *content)
{
    char path[] = "/tmp/tesup-yama-XXXXXX";
    int fd = mkstemp(path);
    int scope;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), (ssize_t)strlen(content));
    close(fd);
    scope = yama_scope(path);
    unlink(path);
    return scope;
}

static void test_scope_is_read(void **state)
{
    (void)state;
    assert_int_equal(scope_of("0\n"), 0);
    assert_int_equal(scope_of("1\n"), 1);
    assert_int_equal(scope_of("2\n"), 2);
    assert_int_equal(scope_of("3\n"), 3);
}

static void test_scope_without_yama(void **state)
{
    (void)state;
    assert_int_equal(yama_scope("/nonexistent/ptrace_scope"), 0);
}

/* Better one call too many than memory that cannot be reached. */
static void test_scope_without_sense(void **state)
{
    (void)state;
    assert_int_equal(scope_of(""), 1);
    assert_int_equal(scope_of("x\n"), 1);
    assert_int_equal(scope_of("4\n"), 1);
}

static void sentence_expect(int scope, const char *part)
{
    char text[PROTO_TEXT_MAX];

    yama_explain(scope, 4711, text, sizeof(text));
    if (!strstr(text, part))
        fail_msg("'%s' is not in: %s", part, text);
}

static void sentence_expect_not(int scope, const char *part)
{
    char text[PROTO_TEXT_MAX];

    yama_explain(scope, 4711, text, sizeof(text));
    if (strstr(text, part))
        fail_msg("'%s' is in: %s", part, text);
}

static void test_sentence_names_cause(void **state)
{
    (void)state;
    for (int scope = 0; scope <= 3; scope++) {
        sentence_expect(scope, "process 4711");
        sentence_expect(scope, "tesup_mem_alloc");
    }
    sentence_expect_not(0, "Yama");
    sentence_expect(1, "ptrace_scope 1");
    sentence_expect(2, "ptrace_scope 2");
    sentence_expect(3, "ptrace_scope 3");
}

static void test_sentence_names_remedy(void **state)
{
    (void)state;
    sentence_expect(0, "same user");
    sentence_expect(1, "sysctl kernel.yama.ptrace_scope=0");
    sentence_expect(2, "supervisor as root");
    sentence_expect(2, "sysctl kernel.yama.ptrace_scope=1 or 0");
    sentence_expect(3, "reboot");
    sentence_expect_not(3, "sysctl kernel.yama"); /* would be refused */
}

/* The end of the longest one is not lost on its way to the job. */
static void test_sentence_fits_a_message(void **state)
{
    (void)state;
    for (int scope = 0; scope <= 3; scope++) {
        char text[4 * PROTO_TEXT_MAX];

        yama_explain(scope, 4194304, text, sizeof(text));
        assert_true(strlen(text) < PROTO_TEXT_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scope_is_read),
        cmocka_unit_test(test_scope_without_yama),
        cmocka_unit_test(test_scope_without_sense),
        cmocka_unit_test(test_sentence_names_cause),
        cmocka_unit_test(test_sentence_names_remedy),
        cmocka_unit_test(test_sentence_fits_a_message),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
