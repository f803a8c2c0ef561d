/* Limits of the system and of the configuration: who reaches one is told its name and the remedy;
 * nobody dies of it, nobody spins, and the others go on. */
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include "shm/atomics.h"
#include "tests/harness/load.h"
#include "tests/harness/process.h"
#include "tests/harness/status.h"
#include "tests/harness/wait.h"

#define MIB          (UINT64_C(1) << 20)
#define ATTACHES_MAX 100
#define IDLE_MS      1000u
#define IDLE_CPU_MS  150u /* of it: more is spinning */

static int test_teardown(void **state)
{
    job_kill_all();
    return daemon_test_teardown(state);
}

static void error_expect(int code, int expected, const char *part)
{
    party_expect(code, expected);
    if (!strstr(tesup_last_error(), part))
        fail_msg("'%s' is not in: %s", part, tesup_last_error());
}

/* The soft limit only: it can be raised again without any right. */
static void limit_set(pid_t pid, int resource, rlim_t value)
{
    struct rlimit limit;

    assert_int_equal(prlimit(pid, (__rlimit_resource_t)resource, NULL, &limit), 0);
    limit.rlim_cur = value < limit.rlim_max ? value : limit.rlim_max;
    assert_int_equal(prlimit(pid, (__rlimit_resource_t)resource, &limit, NULL), 0);
}

static int attach(const struct daemon *daemon, struct tesup_session **session)
{
    const struct tesup_options options = {.socket = daemon->socket, .timeout_ms = 3000};

    return tesup_attach(&options, session);
}

/* ---- files ---- */

/* User and system time: fields 14 and 15 of /proc/PID/stat. */
static uint64_t cpu_ms(pid_t pid)
{
    char path[32], line[512];
    char *at;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    fclose(file);
    at = strrchr(line, ')'); /* ends field 2 */
    for (int field = 2; field < 14; field++) {
        at = strchr(at + 1, ' ');
        assert_non_null(at);
    }
    uint64_t ticks = strtoul(at, &at, 10);
    ticks += strtoul(at, &at, 10);
    return ticks * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
}

static void expect_no_spin(pid_t pid)
{
    uint64_t before = cpu_ms(pid);

    wait_sleep_ms(IDLE_MS);
    assert_true(cpu_ms(pid) - before < IDLE_CPU_MS);
}

/* Attaches until it is refused; how often it went well. */
static int attach_until_refused(const struct daemon *daemon, struct tesup_session **sessions,
                                int expected, const char *part)
{
    int count = 0, code;

    while (count < ATTACHES_MAX && (code = attach(daemon, &sessions[count])) == TESUP_OK)
        count++;
    assert_true(count < ATTACHES_MAX);
    error_expect(code, expected, part);
    return count;
}

static void sessions_end(struct tesup_session **sessions, int count)
{
    while (count > 0)
        tesup_detach(sessions[--count]);
}

/* A session that was there before works as if nothing was wrong. */
static void session_expect_alive(struct tesup_session *session)
{
    const struct tesup_request nop = {.op = TESUP_OP_NOP};

    party_check(party_do(tesup_channel_main(session), &nop).status, "NOP");
}

static void test_files_of_the_supervisor(void **state)
{
    struct tesup_session *sessions[ATTACHES_MAX];
    struct daemon daemon;
    size_t open;
    int count;

    (void)state;
    daemon_start(&daemon, "files", "--fabric tcp");
    status_worker_ready(&daemon, 0);
    party_check(attach(&daemon, &sessions[0]), "attach");
    open = status_descriptors(daemon.pid);
    for (rlim_t more = 1; more < 8; more++) { /* every step of an attach is short of one once */
        limit_set(daemon.pid, RLIMIT_NOFILE, open + more);
        count = attach_until_refused(&daemon, sessions + 1, TESUP_ERR_LIMIT, "RLIMIT_NOFILE");
        expect_no_spin(daemon.pid);
        session_expect_alive(sessions[0]);
        sessions_end(sessions + 1, count);
        wait_sleep_ms(200);
    }
    limit_set(daemon.pid, RLIMIT_NOFILE, 1024);
    party_check(attach(&daemon, &sessions[1]), "attach with room");
    sessions_end(sessions, 2);
    daemon_stop(&daemon);
}

static void test_files_of_the_worker(void **state)
{
    struct tesup_session *sessions[ATTACHES_MAX];
    struct daemon daemon;
    size_t open;
    pid_t worker;

    (void)state;
    daemon_start(&daemon, "files", "--fabric tcp");
    worker = status_worker_ready(&daemon, 0);
    party_check(attach(&daemon, &sessions[0]), "attach");
    open = status_descriptors(worker);
    for (rlim_t more = 0; more < 5; more++) {
        int count;

        limit_set(worker, RLIMIT_NOFILE, open + more);
        count = attach_until_refused(&daemon, sessions + 1, TESUP_ERR_LIMIT, "RLIMIT_NOFILE");
        session_expect_alive(sessions[0]);
        sessions_end(sessions + 1, count);
    }
    assert_int_equal(status_worker_ready(&daemon, 0), worker);
    sessions_end(sessions, 1);
    daemon_stop(&daemon);
}

/* Descriptors that a region needs in supervisor and worker. */
static void test_files_for_a_region(void **state)
{
    struct tesup_session *session;
    struct daemon daemon;
    tesup_region_t region;
    void *address;
    pid_t worker, pids[2];

    (void)state;
    daemon_start(&daemon, "files", "--fabric tcp");
    worker = status_worker_ready(&daemon, 0);
    pids[0] = daemon.pid;
    pids[1] = worker;
    party_check(attach(&daemon, &session), "attach");
    for (int i = 0; i < 2; i++) {
        limit_set(pids[i], RLIMIT_NOFILE, status_descriptors(pids[i]));
        int count = 0, code;

        /* Numbers below the limit may be free. */
        while ((code = tesup_mem_alloc(session, MIB, 0, &address, &region)) == TESUP_OK)
            assert_true(++count < ATTACHES_MAX);
        error_expect(code, TESUP_ERR_LIMIT, "RLIMIT_NOFILE");
        session_expect_alive(session);
        limit_set(pids[i], RLIMIT_NOFILE, 1024);
        party_check(tesup_mem_alloc(session, MIB, 0, &address, &region), "memory");
    }
    assert_int_equal(status_worker_ready(&daemon, 0), worker);
    tesup_detach(session);
    daemon_stop(&daemon);
}

/* ---- file size: memfds count ---- */

static void small_files_run(void *argument)
{
    const struct daemon *daemon = argument;
    struct tesup_session *session;
    tesup_region_t region;
    void *address;

    limit_set(0, RLIMIT_FSIZE, MIB);
    party_check(attach(daemon, &session), "attach");
    party_check(tesup_mem_alloc(session, MIB, 0, &address, &region), "1 MiB");
    error_expect(tesup_mem_alloc(session, 8 * MIB, 0, &address, &region), TESUP_ERR_LIMIT,
                 "RLIMIT_FSIZE");
    session_expect_alive(session);
    tesup_detach(session);
}

static void test_file_size(void **state)
{
    struct tesup_session *session;
    struct daemon daemon;
    struct job job;

    (void)state;
    daemon_start(&daemon, "small", "--fabric tcp");
    status_worker_ready(&daemon, 0);
    job_start(&job, "job with small files", small_files_run, &daemon);
    job_expect_success(&job, WAIT_MS);
    limit_set(daemon.pid, RLIMIT_FSIZE, 65536);
    error_expect(attach(&daemon, &session), TESUP_ERR_LIMIT, "RLIMIT_FSIZE");
    limit_set(daemon.pid, RLIMIT_FSIZE, 64 * MIB);
    party_check(attach(&daemon, &session), "attach with room");
    tesup_detach(session);
    daemon_stop(&daemon);
}

/* ---- locked memory: what does not lock needs none ---- */

static void test_locked_memory(void **state)
{
    struct daemon left, right;
    struct load *load;

    (void)state;
    daemon_start(&left, "left", "--fabric tcp");
    daemon_start(&right, "right", "--fabric tcp");
    limit_set(left.pid, RLIMIT_MEMLOCK, 65536);
    limit_set(status_worker_ready(&left, 0), RLIMIT_MEMLOCK, 65536);
    limit_set(right.pid, RLIMIT_MEMLOCK, 65536);
    limit_set(status_worker_ready(&right, 0), RLIMIT_MEMLOCK, 65536);
    load = load_start(&left, &right, 2, PARTY_MEMORY_ALLOC);
    for (unsigned i = 0; i < 2; i++)
        limit_set(load->source_job[i].pid, RLIMIT_MEMLOCK, 65536);
    load_expect_progress(load);
    load_stop_clean(load);
    daemon_stop(&left);
    daemon_stop(&right);
}

/* ---- address space ---- */

static void small_space_run(void *argument)
{
    const struct daemon *daemon = argument;
    struct tesup_session *session;
    tesup_region_t region;
    void *address;

    party_check(attach(daemon, &session), "attach");
    limit_set(0, RLIMIT_AS, process_space(getpid()) + 32 * MIB);
    error_expect(tesup_mem_alloc(session, 256 * MIB, 0, &address, &region), TESUP_ERR_NO_MEMORY,
                 "RLIMIT_AS");
    party_check(tesup_mem_alloc(session, MIB, 0, &address, &region), "1 MiB");
    session_expect_alive(session);
    tesup_detach(session);
}

static void test_address_space(void **state)
{
    struct tesup_session *session;
    struct daemon daemon;
    tesup_region_t region;
    struct job job;
    void *address;
    pid_t worker;

    (void)state;
    if (TEST_SANITIZED)
        skip(); /* a sanitizer needs all of it */
    daemon_start(&daemon, "space", "--fabric tcp");
    worker = status_worker_ready(&daemon, 0);
    job_start(&job, "job with little space", small_space_run, &daemon);
    job_expect_success(&job, WAIT_MS);
    party_check(attach(&daemon, &session), "attach");
    limit_set(worker, RLIMIT_AS, process_space(worker) + 32 * MIB);
    error_expect(tesup_mem_alloc(session, 256 * MIB, 0, &address, &region), TESUP_ERR_NO_MEMORY,
                 "RLIMIT_AS");
    party_check(tesup_mem_alloc(session, MIB, 0, &address, &region), "1 MiB");
    session_expect_alive(session);
    tesup_detach(session);
    assert_int_equal(status_worker_ready(&daemon, 0), worker);
    daemon_stop(&daemon);
}

/* ---- limits of the configuration ---- */

static void test_sessions(void **state)
{
    struct tesup_session *sessions[ATTACHES_MAX];
    struct daemon daemon;
    int count;

    (void)state;
    daemon_start(&daemon, "few", "--sessions-max 3");
    count = attach_until_refused(&daemon, sessions, TESUP_ERR_LIMIT, "limits.sessions_max");
    assert_int_equal(count, 3);
    tesup_detach(sessions[2]);
    party_check(attach(&daemon, &sessions[2]), "attach in the place of another");
    sessions_end(sessions, 3);
    daemon_stop(&daemon);
    daemon_start(&daemon, "few", "--sessions-per-uid 2");
    count = attach_until_refused(&daemon, sessions, TESUP_ERR_LIMIT, "limits.sessions_per_uid");
    assert_int_equal(count, 2);
    sessions_end(sessions, 2);
    daemon_stop(&daemon);
}

static void test_channels_and_regions(void **state)
{
    struct tesup_channel *channel;
    struct tesup_session *session;
    tesup_region_t region;
    struct daemon daemon;
    void *address;

    (void)state;
    daemon_start(&daemon, "few", "--channels-per-session 3 --regions-per-session 2");
    party_check(attach(&daemon, &session), "attach");
    for (int i = 0; i < 2; i++) { /* the main channel counts */
        party_check(tesup_channel_open(session, &channel), "channel");
        party_check(tesup_mem_alloc(session, 4096, 0, &address, &region), "region");
    }
    error_expect(tesup_channel_open(session, &channel), TESUP_ERR_LIMIT,
                 "limits.channels_per_session");
    error_expect(tesup_mem_alloc(session, 4096, 0, &address, &region), TESUP_ERR_LIMIT,
                 "limits.regions_per_session");
    session_expect_alive(session);
    tesup_detach(session);
    daemon_stop(&daemon);
}

/* ---- /dev/shm ---- */

/* A private mount of one page, which is full.  Only in this process and its children. */
static bool shm_fill(void)
{
    char bytes[4096] = {1};
    int fd;

    if (unshare(CLONE_NEWNS) < 0)
        return false; /* not root */
    assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    assert_int_equal(mount("tiny", "/dev/shm", "tmpfs", 0, "size=4096"), 0);
    fd = open("/dev/shm/full", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
    assert_int_equal(write(fd, bytes, 1), -1);
    assert_int_equal(errno, ENOSPC);
    close(fd);
    return true;
}

/* A file that has no pages and gets none: whoever touches it gets SIGBUS, so nobody may. */
static void target_without_pages(const struct daemon *daemon, const struct daemon *other)
{
    int fd = open("/dev/shm/sparse", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct party source, target;
    struct party_region local;
    tesup_region_t region;
    struct tesup_request request = {.length = MIB};

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)MIB), 0);
    party_attach(&target, daemon, NULL);
    party_attach(&source, other, NULL);
    party_check(tesup_mem_register_fd(target.session, fd, 0, MIB, NULL,
                                      TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE,
                                      &region),
                "register");
    party_region_create(&source, PARTY_MEMORY_ALLOC, MIB, TESUP_ACCESS_LOCAL, &local);
    request.remote = party_open(&source, tesup_segment_name(target.session));
    request.local_region = local.handle;
    request.remote_region = region;
    request.op = TESUP_OP_WRITE;
    party_expect(party_do(source.channel, &request).status, TESUP_ERR_FAULT);
    request.op = TESUP_OP_READ; /* holes read as zeros, or not at all */
    int status = party_do(source.channel, &request).status;
    assert_true(status == TESUP_OK || status == TESUP_ERR_FAULT);
    party_detach(&source);
    party_detach(&target);
    close(fd);
    unlink("/dev/shm/sparse");
}

static void test_full_shm(void **state)
{
    const char *const fabrics[] = {"--fabric tcp", "--fabric auto"};
    struct daemon left, right;

    (void)state;
    if (!shm_fill())
        skip();
    for (size_t i = 0; i < 2; i++) {
        struct load *load;
        pid_t worker;

        daemon_start(&left, "left", fabrics[i]);
        daemon_start(&right, "right", fabrics[i]);
        worker = status_worker_ready(&right, 0);
        load = load_start(&left, &right, 2, PARTY_MEMORY_ALLOC);
        target_without_pages(&right, &left);
        target_without_pages(&right, &right);
        load_expect_progress(load);
        load_stop_clean(load);
        assert_int_equal(status_worker_ready(&right, 0), worker);
        daemon_stop(&left);
        daemon_stop(&right);
    }
}

#define TEST(test) cmocka_unit_test_teardown(test, test_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_files_of_the_supervisor),
        TEST(test_files_of_the_worker),
        TEST(test_files_for_a_region),
        TEST(test_file_size),
        TEST(test_locked_memory),
        TEST(test_address_space),
        TEST(test_sessions),
        TEST(test_channels_and_regions),
        TEST(test_full_shm), /* last: /dev/shm stays full for this process */
    };

    return cmocka_run_group_tests_name("limits", tests, daemon_group_setup, daemon_group_teardown);
}
