/* Regions: what a session may register, and how they end: no new user from the first moment, the
 * answer when the last one is done. */
#include "tests/harness/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/segment.h"
#include "tests/harness/process.h"
#include "tests/harness/worker/stage.h"

static struct stage stage;
static struct session *session;
static char text[PROTO_TEXT_MAX];
static uint8_t own[4096];

static int begin(bool untrusted)
{
    const struct job_shape shape = {.handle = 1, .segment = STAGE_SEGMENT, .untrusted = untrusted};

    stage_begin_with(&stage, &shape);
    session = stage.job.session;
    text[0] = '\0';
    return 0;
}

static int setup(void **state)
{
    (void)state;
    return begin(false);
}

static int setup_untrusted(void **state)
{
    (void)state;
    return begin(true);
}

static int teardown(void **state)
{
    (void)state;
    stage_end(&stage);
    return 0;
}

static uint64_t regions(void)
{
    return host_stat(&stage.host.worker.stats->regions);
}

static int add(uint32_t kind, uint32_t access, uint64_t length, int fd)
{
    const struct proto_region ask = {.handle = JOB_HANDLE(1),
                                     .kind = kind,
                                     .access = access,
                                     .base = (uintptr_t)own,
                                     .length = length};

    return region_add(session, &ask, fd, text, sizeof(text));
}

static int read_only(int fd)
{
    char path[64];
    int again;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    again = open(path, O_RDONLY | O_CLOEXEC);
    close(fd);
    return again;
}

/* Each refusal says why, keeps no descriptor, and takes no handle. */
static void test_refused(void **state)
{
    unsigned before = process_fd_count(getpid());

    (void)state;
    assert_int_equal(add(REGION_KIND_SHARED, REGION_ACCESS_MASK, 4096, -1), TS_ERR_INVALID);
    assert_string_not_equal(text, "");
    assert_int_equal(add(REGION_KIND_SHARED, REGION_ACCESS_MASK, 4096, segment_create("s", 4095)),
                     TS_ERR_INVALID);
    assert_non_null(strstr(text, "the file has 4095 bytes"));
    assert_int_equal(
        add(REGION_KIND_SHARED, REGION_ACCESS_WRITE, 4096, read_only(segment_create("s", 4096))),
        TS_ERR_DENIED);
    assert_non_null(strstr(text, "open for writing"));
    assert_int_equal(add(REGION_KIND_PRIVATE, REGION_ACCESS_MASK, 0, -1), TS_ERR_INVALID);
    assert_int_equal(process_fd_count(getpid()), before);
    assert_int_equal(regions(), 1); /* the stage's own */
    assert_int_equal(
        add(REGION_KIND_SHARED, REGION_ACCESS_READ, 4096, read_only(segment_create("s", 4096))),
        TS_OK);
}

static void test_taken_handle(void **state)
{
    unsigned before;

    (void)state;
    assert_int_equal(add(REGION_KIND_PRIVATE, REGION_ACCESS_MASK, 4096, -1), TS_OK);
    before = process_fd_count(getpid());
    assert_int_equal(add(REGION_KIND_SHARED, REGION_ACCESS_MASK, 4096, segment_create("s", 4096)),
                     TS_ERR_EXISTS);
    assert_int_equal(process_fd_count(getpid()), before);
    assert_null(job_region_of(&stage.job, 1)->memory.map); /* still the private one */
    assert_int_equal(regions(), 2);
}

static void test_private_needs_trust(void **state)
{
    (void)state;
    assert_int_equal(add(REGION_KIND_PRIVATE, REGION_ACCESS_MASK, 4096, -1), TS_ERR_UNSUPPORTED);
    assert_non_null(strstr(text, "tesup_mem_alloc"));
    assert_int_equal(add(REGION_KIND_SHARED, REGION_ACCESS_MASK, 4096, segment_create("s", 4096)),
                     TS_OK);
}

/* The pid is in use again by another process: its memory was never meant. */
static void test_private_of_another_life_of_the_pid(void **state)
{
    (void)state;
    session->start_time++;
    assert_int_equal(add(REGION_KIND_PRIVATE, REGION_ACCESS_MASK, 4096, -1), TS_ERR_GONE);
}

static void test_delete(void **state)
{
    struct region *region;
    void *mapping;

    (void)state;
    assert_int_equal(add(REGION_KIND_SHARED, REGION_ACCESS_MASK, 4096, segment_create("s", 4096)),
                     TS_OK);
    mapping = job_region_of(&stage.job, 1)->memory.mapping;
    assert_int_equal(region_delete(session, JOB_HANDLE(1), 42), TS_OK);
    host_turns(1);
    assert_int_equal(host_answer(&stage.host, 42)->status, TS_OK);
    assert_int_equal(host_answer(&stage.host, 42)->handle, JOB_HANDLE(1));
    assert_int_equal(regions(), 1);
    assert_int_equal(msync(mapping, 4096, MS_ASYNC), -1); /* not mapped any more */
    assert_int_equal(region_delete(session, JOB_HANDLE(1), 43), TS_ERR_GONE);
    assert_int_equal(region_delete(session, JOB_HANDLE(2), 44), TS_ERR_NOT_FOUND);
    assert_int_equal(region_use_local(session, JOB_HANDLE(1), 0, 1, false, &region), TS_ERR_GONE);
    assert_null(host_answer(&stage.host, 43)); /* region_delete's caller says no itself */
}

/* Whoever uses it may finish; nobody new may begin; the job is told when the last one is done. */
static void test_revoke_drains_then_frees(void **state)
{
    struct region *region, *more = NULL;
    uint64_t offset = 0;

    (void)state;
    assert_int_equal(add(REGION_KIND_SHARED, REGION_ACCESS_MASK, 4096, segment_create("s", 4096)),
                     TS_OK);
    assert_int_equal(region_use_local(session, JOB_HANDLE(1), 0, 1, false, &region), TS_OK);
    assert_int_equal(region_use_remote(session, JOB_HANDLE(1), false, &offset, 1, true, &more),
                     TS_OK);
    assert_ptr_equal(more, region);
    assert_int_equal(region_delete(session, JOB_HANDLE(1), 42), TS_OK);
    assert_true(region->revoked);
    assert_int_equal(region_use_local(session, JOB_HANDLE(1), 0, 1, false, &more), TS_ERR_GONE);
    assert_int_equal(region_use_remote(session, JOB_HANDLE(1), false, &offset, 1, true, &more),
                     TS_ERR_GONE);
    host_turns(2);
    assert_null(host_answer(&stage.host, 42));
    assert_int_equal(regions(), 2);
    memset(region->memory.map, 'x', 4096); /* still mapped */
    region_release(region);
    host_turns(1);
    assert_null(host_answer(&stage.host, 42));
    region_release(region);
    host_turns(1);
    assert_int_equal(host_answer(&stage.host, 42)->status, TS_OK);
    assert_int_equal(regions(), 1);
}

/* A READ by the peer that is being answered ends, and what was chosen for the socket already is the
 * last of it. */
static void test_revoke_under_a_peers_read(void **state)
{
    const struct stage_sender sender = stage_sender(&stage, 1, JOB_UID);
    struct frame read = {.type = FRAME_READ,
                         .open = sender.open,
                         .request = 9,
                         .region = JOB_HANDLE(0),
                         .value = STAGE_MEMORY};
    struct region *region = job_region_of(&stage.job, 0);

    (void)state;
    peer_send(&stage.peer, &read, NULL);
    assert_true(region->references > 0);
    assert_int_equal(region_delete(session, JOB_HANDLE(0), 42), TS_OK);
    do
        host_until(peer_take(&stage.peer));
    while (stage.peer.frame.type == FRAME_DATA);
    assert_int_equal(stage.peer.frame.type, FRAME_RESULT);
    assert_int_equal(stage.peer.frame.status, TS_ERR_GONE);
    host_turns(1);
    assert_int_equal(host_answer(&stage.host, 42)->status, TS_OK);
    peer_send(&stage.peer, &read, NULL);
    assert_int_equal(peer_expect(&stage.peer, FRAME_RESULT)->status, TS_ERR_GONE);
}

/* The session takes its regions along, also while something is being moved. */
static void test_session_ends(void **state)
{
    const struct job_shape again = {.handle = 2, .segment = "next"};
    struct region *region;

    (void)state;
    assert_int_equal(region_use_local(session, JOB_HANDLE(0), 0, 1, true, &region), TS_OK);
    job_detach(&stage.job);
    assert_int_equal(regions(), 1);
    assert_null(region->session);
    region_release(region);
    assert_int_equal(regions(), 0);
    job_attach(&stage.job, &stage.host, &again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_taken_handle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_private_needs_trust, setup_untrusted, teardown),
        cmocka_unit_test_setup_teardown(test_private_of_another_life_of_the_pid, setup, teardown),
        cmocka_unit_test_setup_teardown(test_delete, setup, teardown),
        cmocka_unit_test_setup_teardown(test_revoke_drains_then_frees, setup, teardown),
        cmocka_unit_test_setup_teardown(test_revoke_under_a_peers_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_session_ends, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
