/* Copies that are late: notifications wait for their bytes, transfers are cancelled and regions
 * unregistered in the midst of them, and more are asked for than there are chunks. */
#include "tests/harness/test.h"

#include <stdlib.h>
#include <string.h>

#include "tests/harness/gpu.h"
#include "tests/harness/site.h"
#include "tests/harness/standin.h"
#include "tests/harness/status.h"
#include "tests/harness/wait.h"

#define MIB        (UINT64_C(1) << 20)
#define BLOCKS     24u
#define BLOCK      (UINT64_C(300) * 1024 + 13)
#define SIZE       (BLOCKS * BLOCK)
#define READ_WRITE (TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE)

/* GPU memory at both ends of a site. */
struct ends {
    struct party left, right;
    cuda_pointer here, there;
    tesup_region_t local, target;
    tesup_remote_t remote;
};

static void ends_begin(struct ends *ends, const struct site *site, uint64_t size)
{
    party_attach(&ends->left, site->left, NULL);
    party_attach(&ends->right, site->right, NULL);
    ends->here = gpu_alloc(size);
    ends->there = gpu_alloc(size);
    ends->local = gpu_register(&ends->left, ends->here, size, READ_WRITE);
    ends->target = gpu_register(&ends->right, ends->there, size, READ_WRITE);
    ends->remote = party_open(&ends->left, tesup_segment_name(ends->right.session));
}

static void ends_end(struct ends *ends)
{
    party_detach(&ends->left);
    party_detach(&ends->right);
    gpu_free(ends->here);
    gpu_free(ends->there);
}

static struct tesup_request block_request(const struct ends *ends, uint32_t op, uint64_t block)
{
    return (struct tesup_request){.op = op,
                                  .cookie = block,
                                  .remote = ends->remote,
                                  .local_region = ends->local,
                                  .local_offset = block * BLOCK,
                                  .remote_region = ends->target,
                                  .remote_offset = block * BLOCK,
                                  .length = BLOCK};
}

/* Many WRITEs with a notification each: whenever one is seen, its block is there. */
static void notifications_wait_for_bytes(const struct site *site)
{
    struct ends ends;

    ends_begin(&ends, site, SIZE);
    for (uint64_t block = 0; block < BLOCKS; block++)
        gpu_fill(ends.here + block * BLOCK, BLOCK, block);
    gpu_set(ends.there, SIZE, 0);
    for (uint64_t block = 0; block < BLOCKS; block++) {
        struct tesup_request request = block_request(&ends, TESUP_OP_WRITE, block);

        request.msg = &block;
        request.msg_len = sizeof(block);
        party_submit(ends.left.channel, &request);
    }
    for (uint64_t i = 0; i < BLOCKS; i++) {
        struct tesup_notification note = party_next(ends.right.channel);
        uint64_t block;

        assert_int_equal(note.status, TESUP_OK);
        memcpy(&block, note.msg, sizeof(block));
        party_check(tesup_notify_release(ends.right.channel), "release");
        gpu_verify(ends.there + block * BLOCK, BLOCK, block, "announced");
    }
    for (uint64_t i = 0; i < BLOCKS; i++)
        party_check(party_complete(ends.left.channel).status, "WRITE");
    /* READs: what has ended is there. */
    gpu_set(ends.here, SIZE, 0);
    for (uint64_t block = 0; block < BLOCKS; block++) {
        struct tesup_request request = block_request(&ends, TESUP_OP_READ, block);

        party_submit(ends.left.channel, &request);
    }
    for (uint64_t i = 0; i < BLOCKS; i++) {
        struct tesup_completion done = party_complete(ends.left.channel);

        party_check(done.status, "READ");
        gpu_verify(ends.here + done.cookie * BLOCK, BLOCK, done.cookie, "read");
    }
    ends_end(&ends);
}

/* What was cancelled ends, cancelled or not; what comes behind it is not touched by it. */
static void cancelled_in_the_midst(const struct site *site)
{
    struct ends ends;

    ends_begin(&ends, site, SIZE);
    gpu_fill(ends.here, SIZE, 1);
    for (int round = 0; round < 6; round++) {
        struct tesup_request request =
            block_request(&ends, round % 2 == 0 ? TESUP_OP_WRITE : TESUP_OP_READ, 0);
        struct tesup_completion done;
        uint64_t ticket;

        request.length = SIZE;
        ticket = party_submit(ends.left.channel, &request);
        wait_sleep_ms((unsigned)round);
        (void)tesup_cancel(ends.left.channel, ticket); /* it may be over */
        done = party_complete(ends.left.channel);
        if (done.status != TESUP_OK)
            party_expect(done.status, TESUP_ERR_CANCELLED);
        gpu_set(ends.there, SIZE, 0x5a); /* no byte lands any more */
        gpu_fill(ends.here, BLOCK, 9);
        request = block_request(&ends, TESUP_OP_WRITE, 0);
        party_check(party_do(ends.left.channel, &request).status, "the next one");
        gpu_verify(ends.there, BLOCK, 9, "the next one");
        gpu_verify_byte(ends.there + BLOCK, SIZE - BLOCK, 0x5a, "behind the next one");
    }
    ends_end(&ends);
}

/* On return of tesup_mem_unregister no byte can land, and CUDA lets the memory be freed (the
 * stand-in aborts if somebody has it open). */
static void unregistered_in_the_midst(const struct site *site, bool target)
{
    for (unsigned round = 0; round < 4; round++) {
        const struct party *owner;
        struct tesup_request request;
        struct tesup_completion done;
        struct ends ends;

        ends_begin(&ends, site, SIZE);
        owner = target ? &ends.right : &ends.left;
        request = block_request(&ends, round % 2 == 0 ? TESUP_OP_WRITE : TESUP_OP_READ, 0);
        request.length = SIZE;
        party_submit(ends.left.channel, &request);
        wait_sleep_ms(round);
        party_check(tesup_mem_unregister(owner->session, target ? ends.target : ends.local),
                    "unregister");
        gpu_free(target ? ends.there : ends.here);
        done = party_complete(ends.left.channel);
        if (done.status != TESUP_OK)
            party_expect(done.status, TESUP_ERR_GONE);
        if (target)
            ends.there = gpu_alloc(SIZE);
        else
            ends.here = gpu_alloc(SIZE);
        ends_end(&ends);
    }
}

#define FOR_EACH_SITE(name, body)                   \
    static void name(void **state)                  \
    {                                               \
        (void)state;                                \
        for (unsigned i = 0; i < SITE_COUNT; i++) { \
            const struct site *site = &sites[i];    \
                                                    \
            body;                                   \
        }                                           \
    }
FOR_EACH_SITE(notifications, notifications_wait_for_bytes(site))
FOR_EACH_SITE(cancelled, cancelled_in_the_midst(site))
FOR_EACH_SITE(source_unregistered, unregistered_in_the_midst(site, false))
FOR_EACH_SITE(target_unregistered, unregistered_in_the_midst(site, true))

static int group_setup(void **state)
{
    gpu_counters_begin();
    setenv("STANDIN_CUDA_DELAY_US", "1500", 1);
    if (site_group_setup(state) < 0)
        return -1;
    setenv("STANDIN_CUDA_DELAY_US", "0", 1);
    gpu_begin();
    return 0;
}

static int group_teardown(void **state)
{
    int rc;

    gpu_end();
    rc = site_group_teardown(state);
    gpu_counters_expect_clean();
    gpu_counters_end();
    return rc;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notifications),
        cmocka_unit_test(cancelled),
        cmocka_unit_test(source_unregistered),
        cmocka_unit_test(target_unregistered),
    };

    (void)argc;
    standin_use(argv);
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
