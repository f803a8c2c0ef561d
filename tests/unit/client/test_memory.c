/* Regions: what the supervisor is told, what is refused before it is, and how they end. */
#include "tests/unit/client/attached_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/harness/wait.h"

static void test_alloc(void **state)
{
    const struct proto_region *told = &fake.last[WIRE_REGION_ADD].body.region;
    tesup_region_t region = 0;
    void *address = NULL;
    uint8_t *bytes;

    (void)state;
    assert_int_equal(tesup_mem_alloc(session, 10000, TESUP_ACCESS_REMOTE_WRITE, &address, &region),
                     TESUP_OK);
    assert_int_equal(region, 1u << 14);
    assert_int_equal((uintptr_t)address % 4096, 0);
    assert_int_equal(told->kind, REGION_KIND_SHARED);
    assert_int_equal(told->access, REGION_ACCESS_WRITE);
    assert_int_equal(told->base, (uintptr_t)address);
    assert_int_equal(told->offset, 0);
    assert_int_equal(told->length, 10000);
    assert_int_equal(fake.shared_size, 12288);
    bytes = address;
    for (int i = 0; i < 12288; i++)
        assert_int_equal(bytes[i], 0);
    memset(address, 7, 12288);
    assert_int_equal(tesup_mem_unregister(session, region), TESUP_ERR_INVALID);
    assert_sentence("tesup_mem_free");
    assert_int_equal(tesup_mem_free(session, region), TESUP_OK);
    assert_int_equal(fake.last[WIRE_REGION_DEL].body.handle.handle, region);
    assert_int_equal(tesup_mem_free(session, region), TESUP_ERR_GONE);
}

static void test_alloc_nonsense(void **state)
{
    tesup_region_t region;
    void *address;

    (void)state;
    assert_int_equal(tesup_mem_alloc(session, 0, 0, &address, &region), TESUP_ERR_INVALID);
    assert_int_equal(tesup_mem_alloc(session, 1, 4, &address, &region), TESUP_ERR_INVALID);
    assert_int_equal(tesup_mem_alloc(session, 1, 0, NULL, &region), TESUP_ERR_INVALID);
    assert_int_equal(tesup_mem_alloc(session, 1, 0, &address, NULL), TESUP_ERR_INVALID);
    assert_int_equal(tesup_mem_alloc(session, SIZE_MAX, 0, &address, &region), TESUP_ERR_INVALID);
    assert_int_equal(fake_seen(&fake, WIRE_REGION_ADD), 0);
}

static void test_alloc_refused(void **state)
{
    tesup_region_t region = 0;
    void *address = NULL;

    (void)state;
    fake_set(refuse[WIRE_REGION_ADD], TESUP_ERR_LIMIT);
    assert_int_equal(tesup_mem_alloc(session, 1, 0, &address, &region), TESUP_ERR_LIMIT);
    assert_sentence("the fake refuses -10");
    assert_null(address);
    assert_int_equal(region, 0);
}

/* SIGXFSZ would end the process: the limit is named instead. */
static void test_file_size_limit_is_named(void **state)
{
    struct rlimit before, small;
    tesup_region_t region;
    void *address;
    int rc;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){.rlim_cur = 8192, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    rc = tesup_mem_alloc(session, 10000, 0, &address, &region);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(rc, TESUP_ERR_LIMIT);
    assert_sentence("RLIMIT_FSIZE");
    assert_sentence("12288");
    assert_sentence("8192");
    assert_sentence("ulimit -f 12");
}

static void test_register_fd(void **state)
{
    const struct proto_region *told = &fake.last[WIRE_REGION_ADD].body.region;
    tesup_region_t region = 0;
    int fd = memfd_create("test", MFD_CLOEXEC);
    char link[64];
    int again, pipes[2];

    (void)state;
    assert_int_equal(ftruncate(fd, 8192), 0);
    assert_int_equal(tesup_mem_register_fd(session, fd, 4096, 4096, (void *)0x5000, 3, &region),
                     TESUP_OK);
    assert_int_equal(told->offset, 4096);
    assert_int_equal(told->length, 4096);
    assert_int_equal(told->base, 0x5000);
    assert_int_equal(told->access, 3);
    assert_int_equal(fake.shared_size, 8192);
    assert_int_equal(tesup_mem_free(session, region), TESUP_ERR_INVALID);
    assert_int_equal(tesup_mem_unregister(session, region), TESUP_OK);

    assert_int_equal(tesup_mem_register_fd(session, fd, 4096, 4097, NULL, 0, &region),
                     TESUP_ERR_INVALID);
    assert_sentence("8192");
    assert_int_equal(tesup_mem_register_fd(session, fd, UINT64_MAX, 2, NULL, 0, &region),
                     TESUP_ERR_INVALID);
    assert_int_equal(tesup_mem_register_fd(session, -1, 0, 1, NULL, 0, &region), TESUP_ERR_SYSTEM);
    assert_sentence("Bad file descriptor");
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    again = open(link, O_RDONLY | O_CLOEXEC);
    assert_true(again >= 0);
    assert_int_equal(
        tesup_mem_register_fd(session, again, 0, 1, NULL, TESUP_ACCESS_REMOTE_WRITE, &region),
        TESUP_ERR_DENIED);
    assert_sentence("O_RDWR");
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(tesup_mem_register_fd(session, pipes[0], 0, 1, NULL, 0, &region),
                     TESUP_ERR_UNSUPPORTED);
    close(pipes[0]);
    close(pipes[1]);
    close(again);
    close(fd);
}

static void test_register_private(void **state)
{
    static uint8_t memory[100];
    const struct wire_message *told = &fake.last[WIRE_REGION_ADD];
    tesup_region_t region = 0;

    (void)state;
    assert_int_equal(
        tesup_mem_register(session, memory, sizeof(memory), TESUP_ACCESS_REMOTE_READ, &region),
        TESUP_OK);
    assert_int_equal(told->body.region.kind, REGION_KIND_PRIVATE);
    assert_int_equal(told->body.region.base, (uintptr_t)memory);
    assert_int_equal(told->body.region.length, sizeof(memory));
    assert_int_equal(told->fd_count, 0);
    assert_int_equal(tesup_mem_register(session, NULL, 1, 0, &region), TESUP_ERR_INVALID);
    assert_int_equal(tesup_mem_register(session, memory, UINT64_MAX, 0, &region),
                     TESUP_ERR_INVALID);
    fake_set(refuse[WIRE_REGION_ADD], TESUP_ERR_UNSUPPORTED);
    assert_int_equal(tesup_mem_register(session, memory, 1, 0, &region), TESUP_ERR_UNSUPPORTED);
    assert_int_equal(fake_seen(&fake, WIRE_REGION_DEL), 0);
}

/* Detach says good-bye only when every region is drained. */
static void test_detach_drains_regions(void **state)
{
    tesup_region_t regions[3];
    void *address;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(tesup_mem_alloc(session, 4096, 0, &address, &regions[i]), TESUP_OK);
    assert_int_equal(tesup_mem_free(session, regions[1]), TESUP_OK);
    tesup_detach(session);
    assert_int_equal(fake_seen(&fake, WIRE_REGION_DEL), 3);
    assert_int_equal(fake_seen(&fake, WIRE_BYE), 1);
    session = NULL;
}

static void test_unregister_may_time_out_and_be_tried_again(void **state)
{
    static uint8_t memory[8];
    struct tesup_options options = {.socket = fake.path, .timeout_ms = 50};
    struct tesup_session *hasty;
    tesup_region_t region;

    (void)state;
    assert_int_equal(tesup_attach(&options, &hasty), TESUP_OK);
    assert_int_equal(tesup_mem_register(hasty, memory, sizeof(memory), 0, &region), TESUP_OK);
    fake_set(mute[WIRE_REGION_DEL], true);
    assert_int_equal(tesup_mem_unregister(hasty, region), TESUP_ERR_TIMEOUT);
    fake_set(mute[WIRE_REGION_DEL], false);
    fake_set(refuse[WIRE_REGION_DEL], TESUP_ERR_GONE); /* it ended in the meantime */
    assert_int_equal(tesup_mem_unregister(hasty, region), TESUP_OK);
    assert_int_equal(tesup_mem_unregister(hasty, region), TESUP_ERR_GONE);
    tesup_detach(hasty);
}

/* A registration that was answered too late is undone: nobody knows its handle. */
static void test_late_answer_is_undone(void **state)
{
    static uint8_t memory[8];
    struct tesup_options options = {.socket = fake.path, .timeout_ms = 50};
    struct tesup_session *hasty;
    struct wait wait = wait_begin("the region's end", WAIT_MS);
    struct wire_message answer;
    tesup_region_t region;

    (void)state;
    assert_int_equal(tesup_attach(&options, &hasty), TESUP_OK);
    fake_set(mute[WIRE_REGION_ADD], true);
    assert_int_equal(tesup_mem_register(hasty, memory, sizeof(memory), 0, &region),
                     TESUP_ERR_TIMEOUT);
    fake_set(mute[WIRE_REGION_ADD], false);
    wire_message_init(&answer, WIRE_REPLY);
    answer.header.id = fake.muted_id;
    answer.body.reply.handle = 0x4711;
    assert_int_equal(wire_send(fake.clients[1], &answer), TS_OK);
    assert_int_equal(tesup_arm(tesup_channel_main(hasty)), TESUP_OK); /* takes what lies there */
    while (fake_seen(&fake, WIRE_REGION_DEL) == 0)
        wait_step(&wait);
    assert_int_equal(fake_seen(&fake, WIRE_REGION_DEL), 1);
    assert_int_equal(fake.last[WIRE_REGION_DEL].body.handle.handle, 0x4711);
    tesup_detach(hasty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ATTACHED_TEST(test_alloc),
        ATTACHED_TEST(test_alloc_nonsense),
        ATTACHED_TEST(test_alloc_refused),
        ATTACHED_TEST(test_file_size_limit_is_named),
        ATTACHED_TEST(test_register_fd),
        ATTACHED_TEST(test_register_private),
        ATTACHED_TEST(test_detach_drains_regions),
        ATTACHED_TEST(test_unregister_may_time_out_and_be_tried_again),
        ATTACHED_TEST(test_late_answer_is_undone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
