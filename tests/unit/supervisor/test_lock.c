/* The lock: one supervisor per name, nothing left of the one before, a directory that is ours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/process.h"
#include "supervisor/command/locate.h"
#include "supervisor/lock.h"
#include "tests/harness/wait.h"

#define RACERS 8

static char base[] = "/tmp/tesup-lock-XXXXXX";
static char directory[PATH_MAX], file[PATH_MAX], text[512];

static int base_open(void **state)
{
    (void)state;
    if (mkdtemp(base) == NULL)
        return -1;
    snprintf(directory, sizeof(directory), "%s/run/tesup", base);
    snprintf(file, sizeof(file), "%s/run/tesup/default.lock", base);
    return 0;
}

static int base_close(void **state)
{
    char run[PATH_MAX];

    (void)state;
    snprintf(run, sizeof(run), "%s/run", base);
    return rmdir(run) + rmdir(base);
}

static int take(struct lock *lock)
{
    return lock_take(lock, directory, file, "default", false, text, sizeof(text));
}

static void it_comes_and_goes_with_its_directory(void **state)
{
    struct lock lock;
    struct stat st;

    (void)state;
    assert_int_equal(take(&lock), 0);
    assert_int_equal(stat(directory, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    lock_release(&lock);
    assert_int_equal(access(directory, F_OK), -1);
}

static void a_second_one_is_told_who_is_there(void **state)
{
    struct lock first, second;
    char pid[32];

    (void)state;
    assert_int_equal(take(&first), 0);
    assert_int_equal(lock_write(&first, 7, text, sizeof(text)), 0);
    assert_int_equal(take(&second), -1);
    snprintf(pid, sizeof(pid), "(pid %d)", (int)getpid());
    assert_non_null(strstr(text, "named default runs already"));
    assert_non_null(strstr(text, pid));
    lock_release(&second); /* holds nothing: must not remove the first one's file */
    assert_int_equal(access(file, F_OK), 0);
    lock_release(&first);
}

static void a_dead_ones_file_is_taken_over(void **state)
{
    struct lock lock;
    char line[64] = "";
    FILE *stale;
    struct located found;

    (void)state;
    assert_int_equal(take(&lock), 0);
    lock.made_directory = false;
    lock_release(&lock);
    stale = fopen(file, "w");
    assert_non_null(stale);
    fputs("999999999 123456789012345 12345 and much more than that\n", stale);
    fclose(stale);
    assert_int_equal(take(&lock), 0);
    assert_int_equal(lock_write(&lock, 9, text, sizeof(text)), 0);
    assert_true(pread(lock.fd, line, sizeof(line) - 1, 0) > 0);
    assert_int_equal(locate_line_parse(line, &found), 0); /* nothing is left behind the new line */
    assert_int_equal(found.pid, getpid());
    assert_int_equal(found.start_time, process_start_time(getpid()));
    assert_int_equal(found.counters_fd, 9);
    lock.made_directory = true;
    lock_release(&lock);
}

static void a_directory_of_everybody_is_refused(void **state)
{
    struct lock lock;

    (void)state;
    assert_int_equal(mkdir(directory, 0700), 0);
    assert_int_equal(chmod(directory, 0777), 0);
    assert_int_equal(take(&lock), -1);
    assert_non_null(strstr(text, "--runtime-dir"));
    assert_int_equal(chmod(directory, 0700), 0);
    assert_int_equal(lock_take(&lock, directory, file, "default", true, text, sizeof(text)), 0);
    lock_release(&lock);
    assert_int_equal(rmdir(directory), 0); /* it was there before, so it stayed */
    assert_int_equal(symlink("/etc", directory), 0);
    assert_int_equal(take(&lock), -1);
    assert_int_equal(unlink(directory), 0);
}

/* Each holds it while others try; two at once would see each other's mark. */
static void racer(int mark)
{
    uint64_t until = wait_now_ms() + WAIT_MS;
    struct lock lock;
    char other;
    int held = 0;

    while (held < 5 && wait_now_ms() < until) {
        if (take(&lock) < 0) {
            sched_yield();
            continue;
        }
        held++;
        if (pread(mark, &other, 1, 0) != 1 || other != 'f' || pwrite(mark, "h", 1, 0) != 1)
            _exit(1);
        for (int i = 0; i < RACERS; i++)
            sched_yield();
        if (pwrite(mark, "f", 1, 0) != 1)
            _exit(2);
        lock_release(&lock);
    }
    _exit(held == 5 ? 0 : 3);
}

static void never_two_at_once(void **state)
{
    FILE *mark = tmpfile();
    int status;

    (void)state;
    assert_non_null(mark);
    assert_int_equal(pwrite(fileno(mark), "f", 1, 0), 1);
    for (int i = 0; i < RACERS; i++) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0)
            racer(fileno(mark));
    }
    for (int i = 0; i < RACERS; i++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    fclose(mark);
    assert_int_equal(access(file, F_OK), -1);
    rmdir(directory); /* stays when the last one was not its maker */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_comes_and_goes_with_its_directory),
        cmocka_unit_test(a_second_one_is_told_who_is_there),
        cmocka_unit_test(a_dead_ones_file_is_taken_over),
        cmocka_unit_test(a_directory_of_everybody_is_refused),
        cmocka_unit_test(never_two_at_once),
    };

    return cmocka_run_group_tests(tests, base_open, base_close);
}
