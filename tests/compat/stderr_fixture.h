/* What a call writes to standard error. */
#ifndef TESUP_TESTS_COMPAT_STDERR_FIXTURE_H
#define TESUP_TESTS_COMPAT_STDERR_FIXTURE_H

#include "tests/harness/test.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STDERR_TEXT 16384

struct stderr_catch {
    int kept, file;
    char text[STDERR_TEXT];
};

static inline void stderr_catch_begin(struct stderr_catch *caught)
{
    caught->file = memfd_create("stderr", MFD_CLOEXEC);
    caught->kept = dup(STDERR_FILENO);
    assert_true(caught->file >= 0 && caught->kept >= 0);
    assert_int_equal(dup2(caught->file, STDERR_FILENO), STDERR_FILENO);
}

static inline void stderr_catch_end(struct stderr_catch *caught)
{
    ssize_t got = pread(caught->file, caught->text, STDERR_TEXT - 1, 0);

    assert_int_equal(dup2(caught->kept, STDERR_FILENO), STDERR_FILENO);
    close(caught->kept);
    close(caught->file);
    caught->text[got > 0 ? got : 0] = '\0';
}

#endif
