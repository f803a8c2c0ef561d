/* Any memory of the process: parts of pages, neighbours, thousands, reserved, read-only, freed. */
#include "tests/compat/agent.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/harness/party.h"
#include "tests/harness/site.h"
#include "tests/harness/wait.h"

#define MANY     2000
#define QUICK_MS 5000
#define RESERVED (UINT64_C(100) << 30)
#define PAGE     4096u

struct ends { /* two engines of one process, at two supervisors */
    struct agent left, right;
    int target;
};

static void ends_begin(struct ends *ends, const struct site *site, size_t size)
{
    agent_begin(&ends->left, site->left, size);
    agent_begin(&ends->right, site->right, size);
    ends->target = agent_open(&ends->left, ends->right.name);
}

static void ends_end(struct ends *ends)
{
    agent_end(&ends->left);
    agent_end(&ends->right);
}

static uint64_t address(const void *bytes)
{
    return (uint64_t)(uintptr_t)bytes;
}

static int move(const struct ends *ends, int opcode, void *here, const void *there, uint64_t length)
{
    struct agent mover = ends->left;

    mover.bytes = here;
    return agent_do(&mover, opcode, ends->target, address(there), length, 1, NULL);
}

static uint8_t *pages(size_t length, int protection)
{
    uint8_t *bytes =
        mmap(NULL, length, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    assert_ptr_not_equal(bytes, MAP_FAILED);
    return bytes;
}

static void add(const struct agent *agent, void *bytes, size_t length)
{
    assert_int_equal(registerLocalMemory(agent->engine, bytes, length, "*", 1), 0);
}

static void drop(const struct agent *agent, void *bytes)
{
    assert_int_equal(unregisterLocalMemory(agent->engine, bytes), 0);
}

/* Regions whose ends are not those of pages, on both sides at other places, cut a request. */
static void neighbours_are_one(const struct site *site)
{
    static const size_t here[] = {1000, 1, 7095, 20000}, there[] = {5000, 9000, 14096};
    uint8_t *from = pages(32768, PROT_READ | PROT_WRITE);
    uint8_t *to = pages(32768, PROT_READ | PROT_WRITE);
    struct ends ends;
    size_t at = 3;

    ends_begin(&ends, site, PAGE);
    for (size_t i = 0; i < 4; at += here[i++])
        add(&ends.left, from + at, here[i]);
    at = 3;
    for (size_t i = 0; i < 3; at += there[i++])
        add(&ends.right, to + at, there[i]);
    party_fill(from + 3, 28096, 1);
    assert_int_equal(move(&ends, OPCODE_WRITE, from + 3, to + 3, 28096), STATUS_COMPLETED);
    party_verify(to + 3, 28096, 1, "WRITE over the borders of regions");
    memset(from, 0, 32768);
    assert_int_equal(move(&ends, OPCODE_READ, from + 500, to + 500, 27000), STATUS_COMPLETED);
    assert_memory_equal(from + 500, to + 500, 27000);
    /* One byte too many on either side: nothing is written. */
    memset(from, 0xee, 32768);
    assert_int_equal(move(&ends, OPCODE_WRITE, from + 3, to + 4, 28096), STATUS_FAILED);
    assert_int_equal(move(&ends, OPCODE_WRITE, from + 4, to + 3, 28096), STATUS_FAILED);
    party_verify(to + 3, 28096, 1, "a request that was refused");
    ends_end(&ends);
    munmap(from, 32768);
    munmap(to, 32768);
}

static void test_neighbours(void **state)
{
    (void)state;
    for (int i = 0; i < SITE_COUNT; i++)
        neighbours_are_one(&sites[i]);
}

/* A failing entry harms no other entry of its batch, and there is no notification. */
static void test_outside(void **state)
{
    struct ends ends;
    struct transfer_request entries[3];
    struct transfer_status status;
    batch_id_t batch;
    char text[] = "never";

    (void)state;
    ends_begin(&ends, &sites[SITE_TCP], 3 * PAGE);
    party_fill(ends.left.bytes, 3 * PAGE, 5);
    for (size_t i = 0; i < 3; i++)
        entries[i] =
            (struct transfer_request){OPCODE_WRITE, ends.left.bytes + i * PAGE, ends.target,
                                      address(ends.right.bytes + i * PAGE), PAGE};
    entries[1].target_offset = 64;
    batch = allocateBatchID(ends.left.engine, 3);
    assert_int_equal(
        submitTransferWithNotify(ends.left.engine, batch, entries, 3, (notify_msg_t){text, text}),
        0);
    assert_int_equal(agent_finish(&ends.left, batch, 3, 0), STATUS_FAILED);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(getTransferStatus(ends.left.engine, batch, i, &status), 0);
        assert_int_equal(status.status, i == 1 ? STATUS_FAILED : STATUS_COMPLETED);
    }
    assert_int_equal(freeBatchID(ends.left.engine, batch), 0);
    assert_memory_equal(ends.left.bytes, ends.right.bytes, PAGE);
    /* A later batch does not send the notification of the failed one. */
    assert_int_equal(agent_do(&ends.left, OPCODE_WRITE, ends.target, address(ends.right.bytes),
                              PAGE, 1, "second"),
                     STATUS_COMPLETED);
    agent_expect_note(&ends.right, ends.left.name, "second");
    agent_expect_silence(&ends.right);
    entries[0].length = UINT64_C(1) << 63;
    batch = allocateBatchID(ends.left.engine, 1);
    assert_int_equal(submitTransfer(ends.left.engine, batch, entries, 1), 0);
    assert_int_equal(agent_finish(&ends.left, batch, 1, 0), STATUS_FAILED);
    ends_end(&ends);
}

/* What was registered after openSegment is found, too. */
static void test_many(void **state)
{
    size_t length = MANY * PAGE;
    uint8_t *from = pages(length, PROT_READ | PROT_WRITE);
    uint8_t *to = pages(length, PROT_READ | PROT_WRITE);
    struct ends ends;
    uint64_t begin;

    (void)state;
    ends_begin(&ends, &sites[SITE_LOCAL], PAGE);
    begin = wait_now_ms();
    for (size_t i = 0; i < MANY; i++)
        add(&ends.right, to + i * PAGE, PAGE);
    add(&ends.left, from, length);
    party_fill(from, length, 9);
    assert_int_equal(move(&ends, OPCODE_WRITE, from, to, length), STATUS_COMPLETED);
    assert_true(TEST_SANITIZED || wait_now_ms() - begin < QUICK_MS); /* no search per pair */
    party_verify(to, length, 9, "a request over 2,000 regions");
    for (size_t i = 0; i < MANY; i++)
        drop(&ends.right, to + (MANY - 1 - i) * PAGE);
    assert_int_equal(move(&ends, OPCODE_WRITE, from, to, PAGE), STATUS_FAILED);
    ends_end(&ends);
    munmap(from, length);
    munmap(to, length);
}

static void test_reserved(void **state)
{
    uint8_t *space = pages(RESERVED, PROT_NONE);
    uint8_t *page = space + RESERVED / 2;
    struct ends ends;

    (void)state;
    ends_begin(&ends, &sites[SITE_TCP], PAGE);
    add(&ends.right, space, RESERVED);
    assert_int_equal(mprotect(page, PAGE, PROT_READ | PROT_WRITE), 0);
    memset(ends.left.bytes, 0x5a, PAGE);
    assert_int_equal(move(&ends, OPCODE_WRITE, ends.left.bytes, page, PAGE), STATUS_COMPLETED);
    party_verify_byte(page, PAGE, 0x5a, "a page of reserved space");
    drop(&ends.right, space);
    ends_end(&ends);
    munmap(space, RESERVED);
}

static void test_read_only(void **state)
{
    uint8_t *bytes = pages(PAGE, PROT_READ | PROT_WRITE);
    struct ends ends;

    (void)state;
    memset(bytes, 0x11, PAGE);
    assert_int_equal(mprotect(bytes, PAGE, PROT_READ), 0);
    ends_begin(&ends, &sites[SITE_TCP], PAGE);
    add(&ends.right, bytes, PAGE);
    assert_int_equal(move(&ends, OPCODE_READ, ends.left.bytes, bytes, PAGE), STATUS_COMPLETED);
    party_verify_byte(ends.left.bytes, PAGE, 0x11, "read-only memory");
    memset(ends.left.bytes, 0x22, PAGE);
    assert_int_equal(move(&ends, OPCODE_WRITE, ends.left.bytes, bytes, PAGE), STATUS_FAILED);
    party_verify_byte(bytes, PAGE, 0x11, "read-only memory");
    drop(&ends.right, bytes);
    add(&ends.left, bytes, PAGE); /* as the place of a READ it is refused, too */
    assert_int_equal(move(&ends, OPCODE_READ, bytes, ends.right.bytes, PAGE), STATUS_FAILED);
    drop(&ends.left, bytes);
    ends_end(&ends);
    munmap(bytes, PAGE);
}

/* Not offered to others: local use only. */
static void test_not_accessible(void **state)
{
    uint8_t *bytes = pages(PAGE, PROT_READ | PROT_WRITE);
    struct ends ends;

    (void)state;
    ends_begin(&ends, &sites[SITE_TCP], PAGE);
    assert_int_equal(registerLocalMemory(ends.right.engine, bytes, PAGE, "cpu:0", 0), 0);
    assert_int_equal(move(&ends, OPCODE_WRITE, ends.left.bytes, bytes, PAGE), STATUS_FAILED);
    drop(&ends.right, bytes);
    ends_end(&ends);
    munmap(bytes, PAGE);
}

/* The program frees memory that is registered: the transfer fails, and nothing else. */
static void freed_memory_fails(const struct site *site)
{
    uint8_t *bytes = pages(MIB, PROT_READ | PROT_WRITE);
    struct ends ends;

    ends_begin(&ends, site, MIB);
    add(&ends.right, bytes, MIB);
    assert_int_equal(move(&ends, OPCODE_WRITE, ends.left.bytes, bytes, MIB), STATUS_COMPLETED);
    munmap(bytes, MIB);
    assert_int_equal(move(&ends, OPCODE_WRITE, ends.left.bytes, bytes, MIB), STATUS_FAILED);
    assert_int_equal(move(&ends, OPCODE_READ, ends.left.bytes, bytes, MIB), STATUS_FAILED);
    assert_int_equal(move(&ends, OPCODE_WRITE, ends.left.bytes, ends.right.bytes, MIB),
                     STATUS_COMPLETED);
    drop(&ends.right, bytes);
    ends_end(&ends);
}

static void test_freed(void **state)
{
    (void)state;
    for (int i = 0; i < SITE_COUNT; i++)
        freed_memory_fails(&sites[i]);
}

/* After unregisterLocalMemory no byte lands, however many were on their way. */
static void test_unregister_in_flight(void **state)
{
    size_t length = TEST_SANITIZED ? 4 * MIB : 64 * MIB;
    struct ends ends;
    batch_id_t batch;
    int status;

    (void)state;
    ends_begin(&ends, &sites[SITE_TCP], length);
    memset(ends.left.bytes, 0x33, length);
    batch = agent_submit(&ends.left, OPCODE_WRITE, ends.target, address(ends.right.bytes), length,
                         64, "late");
    drop(&ends.right, ends.right.bytes);
    memset(ends.right.bytes, 0x44, length);
    status = agent_finish(&ends.left, batch, 64, length);
    assert_int_equal(freeBatchID(ends.left.engine, batch), 0);
    party_verify_byte(ends.right.bytes, length, 0x44, "memory that is not registered any more");
    if (status == STATUS_COMPLETED)
        agent_expect_note(&ends.right, ends.left.name, "late");
    add(&ends.right, ends.right.bytes, length);
    /* Of our own side: what is in flight ends, then the memory is ours. */
    batch = agent_submit(&ends.left, OPCODE_READ, ends.target, address(ends.right.bytes), length,
                         64, NULL);
    drop(&ends.left, ends.left.bytes);
    memset(ends.left.bytes, 0x55, length);
    (void)agent_finish(&ends.left, batch, 64, length);
    party_verify_byte(ends.left.bytes, length, 0x55, "memory that is not registered any more");
    add(&ends.left, ends.left.bytes, length);
    ends_end(&ends);
}

/* A batch in flight cannot be freed. */
static void test_busy_batch(void **state)
{
    size_t length = TEST_SANITIZED ? 4 * MIB : 64 * MIB;
    struct ends ends;
    batch_id_t batch;
    int code;

    (void)state;
    ends_begin(&ends, &sites[SITE_TCP], length);
    batch = agent_submit(&ends.left, OPCODE_WRITE, ends.target, address(ends.right.bytes), length,
                         1, NULL);
    code = freeBatchID(ends.left.engine, batch);
    assert_int_equal(code, TRANSFER_ENGINE_BATCH_BUSY);
    assert_int_equal(agent_finish(&ends.left, batch, 1, length), STATUS_COMPLETED);
    assert_int_equal(freeBatchID(ends.left.engine, batch), 0);
    ends_end(&ends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_neighbours), cmocka_unit_test(test_outside),
        cmocka_unit_test(test_many),       cmocka_unit_test(test_reserved),
        cmocka_unit_test(test_read_only),  cmocka_unit_test(test_not_accessible),
        cmocka_unit_test(test_freed),      cmocka_unit_test(test_unregister_in_flight),
        cmocka_unit_test(test_busy_batch),
    };

    return cmocka_run_group_tests_name("memory", tests, site_group_setup, site_group_teardown);
}
