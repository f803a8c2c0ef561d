/* Memory of another process: reached while that very address space lives, page by page, and never
 * mistaken for another one. */
#include "tests/harness/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/process.h"
#include "shm/segment.h"
#include "tests/harness/process.h"
#include "tests/harness/worker/stranger.h"
#include "worker/memory.h"

#define PAGE 4096u
#define SIZE (600u * 1024u) /* more than two times the staging buffer */

static struct stranger stranger;
static struct memory memory;
static uint8_t buffer[SIZE];
static char text[256];

static int setup(void **state)
{
    (void)state;
    stranger_start(&stranger, SIZE, 'p');
    text[0] = '\0';
    return memory_attach(&memory, stranger.pid, stranger.base, SIZE, text, sizeof(text));
}

static int teardown(void **state)
{
    (void)state;
    memory_release(&memory);
    if (stranger.pid > 0)
        stranger_end(&stranger);
    return 0;
}

static void test_load_and_store(void **state)
{
    (void)state;
    assert_int_equal(memory_load(buffer, &memory, 0, SIZE), TS_OK);
    assert_int_equal(buffer[0], 'p');
    assert_int_equal(buffer[SIZE - 1], 'p');
    assert_int_equal(memory_store(&memory, SIZE - 3, "xyz", 3), TS_OK);
    assert_int_equal(stranger_look(&stranger, SIZE - 1), 'z');
    assert_int_equal(stranger_look(&stranger, SIZE - 4), 'p');
}

static void test_ranges_that_cannot_be(void **state)
{
    struct memory other;

    (void)state;
    assert_int_equal(memory_attach(&other, stranger.pid, stranger.base, 0, text, sizeof(text)),
                     TS_ERR_INVALID);
    assert_int_equal(memory_attach(&other, stranger.pid, UINT64_MAX - 7, 16, text, sizeof(text)),
                     TS_ERR_INVALID);
    assert_int_equal(memory_attach(&other, stranger.pid, 0, 16, text, sizeof(text)), TS_ERR_FAULT);
    assert_non_null(strstr(text, "not mapped"));
    stranger_unmap(&stranger, SIZE - PAGE, PAGE);
    assert_int_equal(memory_attach(&other, stranger.pid, stranger.base, SIZE, text, sizeof(text)),
                     TS_ERR_FAULT); /* only the first byte is there */
}

/* The kernel moves what it can and says how much: the rest is an error, whatever came before. */
static void test_partly_unmapped(void **state)
{
    (void)state;
    stranger_unmap(&stranger, PAGE, PAGE);
    assert_int_equal(memory_load(buffer, &memory, 0, PAGE), TS_OK);
    assert_int_equal(memory_load(buffer, &memory, 0, 2 * PAGE), TS_ERR_FAULT);
    assert_int_equal(memory_load(buffer, &memory, PAGE, 1), TS_ERR_FAULT);
    assert_int_equal(memory_store(&memory, PAGE - 4, "12345678", 8), TS_ERR_FAULT);
    assert_int_equal(memory_load(buffer, &memory, 2 * PAGE, SIZE - 2 * PAGE), TS_OK);
}

/* Also when the very byte that tells life from death is not there any more. */
static void test_alive_without_its_first_page(void **state)
{
    (void)state;
    stranger_unmap(&stranger, 0, PAGE);
    assert_int_equal(memory_load(buffer, &memory, 0, 1), TS_ERR_FAULT);
    assert_int_equal(memory_load(buffer, &memory, PAGE, 1), TS_OK);
}

/* After exec the pid is the same and the memory another: it must not be touched. */
static void test_exec(void **state)
{
    (void)state;
    stranger_exec(&stranger);
    assert_int_equal(memory_load(buffer, &memory, 0, 1), TS_ERR_GONE);
    assert_int_equal(memory_store(&memory, 0, "x", 1), TS_ERR_GONE);
}

/* ---- the fast way to read ---- */

static void test_fast(void **state)
{
    uint8_t mark = memory.space.mark[0];

    (void)state;
    assert_true(space_fast_load(&memory.space, buffer, stranger.base, SIZE));
    assert_int_equal(buffer[0], 'p');
    assert_int_equal(buffer[SIZE - 1], 'p');
    stranger_unmap(&stranger, SIZE - PAGE, PAGE);
    assert_true(space_fast_load(&memory.space, buffer, stranger.base, SIZE - PAGE));
    assert_false(space_fast_load(&memory.space, buffer, stranger.base, SIZE));
    assert_int_equal(memory_load(buffer, &memory, 0, SIZE), TS_ERR_FAULT);
    memory.space.mark[0] = (uint8_t)~mark; /* as if another program were there */
    assert_false(space_fast_load(&memory.space, buffer, stranger.base, PAGE));
    memset(buffer, 0, SIZE);
    assert_int_equal(memory_load(buffer, &memory, 0, SIZE - PAGE),
                     TS_OK); /* the slow way decides */
    assert_int_equal(buffer[SIZE - PAGE - 1], 'p');
    memory.space.mark[0] = mark;
    assert_true(space_fast_load(&memory.space, buffer, stranger.base, PAGE));
}

/* A fork has the mark, too.  Of one that got the pid of a dead process nothing is taken. */
static void test_fast_not_for_a_fork(void **state)
{
    struct stranger other;

    (void)state;
    stranger_start(&other, PAGE, 'o');
    close(memory.space.pidfd);
    memory.space.pidfd = process_pidfd(other.pid);
    assert_true(memory.space.pidfd >= 0);
    assert_true(space_fast_load(&memory.space, buffer, stranger.base, PAGE));
    stranger_end(&other);
    assert_false(space_fast_load(&memory.space, buffer, stranger.base, PAGE));
}

/* The memory outlives its program, and the pid is that of another one. */
static void test_exec_beside_a_relative(void **state)
{
    struct memory later;

    (void)state;
    stranger_exec_related(&stranger);
    assert_false(space_fast_load(&memory.space, buffer, stranger.base, PAGE));
    assert_false(space_fast_load(&memory.space, buffer, memory.space.mark_at, PAGE));
    assert_int_equal(memory_load(buffer, &memory, 0, SIZE), TS_OK);
    assert_int_equal(buffer[SIZE - 1], 'p');
    /* a worker that gets the descriptor only now */
    assert_int_equal(memory_adopt(&later, fcntl(memory.space.fd, F_DUPFD_CLOEXEC, 0), stranger.base,
                                  SIZE, text, sizeof(text)),
                     TS_OK);
    assert_true(later.space.pidfd < 0);
    memory_release(&later);
}

/* Who may do less than we is read through the descriptor alone. */
static void test_fast_not_for_lesser_ones(void **state)
{
    static const enum stranger_loss losses[] = {STRANGER_NAMESPACE, STRANGER_CAPABILITY,
                                                STRANGER_UID};
    size_t count = geteuid() == 0 ? sizeof(losses) / sizeof(losses[0]) : 1;
    unsigned before = process_fd_count(getpid());

    (void)state;
    for (size_t i = 0; i < count; i++) {
        struct stranger lesser;
        struct memory its;

        stranger_start(&lesser, SIZE, 'l');
        stranger_lose(&lesser, losses[i]);
        assert_int_equal(memory_attach(&its, lesser.pid, lesser.base, SIZE, text, sizeof(text)),
                         TS_OK);
        assert_true(its.space.pidfd < 0);
        assert_int_equal(memory_load(buffer, &its, 0, SIZE), TS_OK);
        assert_int_equal(buffer[SIZE - 1], 'l');
        memory_release(&its);
        stranger_end(&lesser);
        assert_int_equal(process_fd_count(getpid()), before);
    }
}

/* A worker of the same host gets the descriptor, at any time: it never opens the next image. */
static void test_adopt(void **state)
{
    struct memory other;
    int pipe_fds[2];

    (void)state;
    assert_int_equal(memory_adopt(&other, fcntl(memory.space.fd, F_DUPFD_CLOEXEC, 0), stranger.base,
                                  SIZE, text, sizeof(text)),
                     TS_OK);
    assert_int_equal(memory_load(buffer, &other, SIZE - 1, 1), TS_OK);
    assert_int_equal(buffer[0], 'p');
    assert_true(space_fast_load(&other.space, buffer, stranger.base, SIZE));
    memory_release(&other);
    stranger_exec(&stranger);
    assert_int_equal(memory_adopt(&other, fcntl(memory.space.fd, F_DUPFD_CLOEXEC, 0), stranger.base,
                                  SIZE, text, sizeof(text)),
                     TS_ERR_GONE);
    assert_int_equal(pipe(pipe_fds), 0);
    assert_int_equal(memory_adopt(&other, pipe_fds[0], stranger.base, 16, text, sizeof(text)),
                     TS_ERR_INVALID);
    assert_non_null(strstr(text, "no address space"));
    close(pipe_fds[1]);
}

static void test_exit(void **state)
{
    struct memory other;
    pid_t pid = stranger.pid;

    (void)state;
    stranger_end(&stranger);
    assert_int_equal(memory_load(buffer, &memory, 0, 1), TS_ERR_GONE);
    assert_int_equal(memory_attach(&other, pid, stranger.base, 16, text, sizeof(text)),
                     TS_ERR_GONE);
}

static void test_between_two_processes(void **state)
{
    struct stranger second;
    struct memory to;

    (void)state;
    stranger_start(&second, SIZE, '-');
    assert_int_equal(memory_attach(&to, second.pid, second.base, SIZE, text, sizeof(text)), TS_OK);
    assert_int_equal(memory_copy(&to, 1, &memory, 0, SIZE - 2), TS_OK);
    assert_int_equal(memory_load(buffer, &to, 0, SIZE), TS_OK);
    assert_int_equal(buffer[0], '-');
    assert_int_equal(buffer[1], 'p');
    assert_int_equal(buffer[SIZE - 2], 'p');
    assert_int_equal(buffer[SIZE - 1], '-');
    assert_null(memchr(buffer + 1, '-', SIZE - 2));
    stranger_unmap(&stranger, SIZE - PAGE, PAGE); /* behind what one stop in between holds */
    assert_int_equal(memory_copy(&to, 0, &memory, 0, SIZE), TS_ERR_FAULT);
    stranger_end(&second);
    assert_int_equal(memory_copy(&to, 0, &memory, 0, PAGE), TS_ERR_GONE);
    memory_release(&to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_load_and_store, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ranges_that_cannot_be, setup, teardown),
        cmocka_unit_test_setup_teardown(test_partly_unmapped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_alive_without_its_first_page, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fast, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fast_not_for_a_fork, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exec_beside_a_relative, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fast_not_for_lesser_ones, setup, teardown),
        cmocka_unit_test_setup_teardown(test_adopt, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_between_two_processes, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
