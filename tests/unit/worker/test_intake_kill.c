/* A session that is killed in the middle of a batch: what was accepted before and never started
 * goes with it, and the worker goes on. */
#include "tests/harness/test.h"

#include "tests/harness/worker/job.h"

#define SLOTS 16u

static struct host host;
static struct job job;

static int group_setup(void **state)
{
    const struct proto_worker_config config = host_config("here");

    (void)state;
    host_start(&host, &config);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    host_stop(&host);
    return 0;
}

static void attach(void)
{
    const struct job_shape shape = {.handle = 1, .segment = "here", .slots = SLOTS};

    job_attach(&job, &host, &shape);
}

static void detach(void)
{
    job_detach(&job);
    host_turns(2);
    assert_int_equal(host_stat(&host.worker.stats->in_flight), 0);
    assert_int_equal(host_stat(&host.worker.stats->channels), 0);
    assert_false(host.worker.stop);
}

/* As a library would not do it: any descriptors, in any slots. */
static void submit(const struct sqe *sqes, uint32_t count)
{
    struct channel_header *header = job.main.map.header;
    struct sqe *ring = channel_bytes(&job.main.map, &job.main.map.sq);
    uint64_t tail = atomic_peek(&header->sq_words.tail);

    for (uint32_t i = 0; i < count; i++)
        ring[(tail + i) & (SLOTS - 1)] = sqes[i];
    atomic_publish(&header->sq_words.tail, tail + count);
    host_turns(1);
}

/* `bad` at each place of a batch, in a session that is new and in one that was at work. */
static void bad_try(const struct sqe *bad)
{
    for (uint32_t before = 0; before < SLOTS - 1; before++) {
        struct sqe batch[SLOTS] = {0};
        const struct sqe work = {.op = SQE_NOP, .slot = (uint16_t)(before / 2)};

        attach();
        if (before % 2 == 1)
            submit(&work, 1);
        for (uint32_t slot = 0; slot < before; slot++)
            batch[slot] = (struct sqe){.op = SQE_NOP, .slot = (uint16_t)slot};
        batch[before] = *bad;
        submit(batch, before + 1);
        assert_true(job.session->killed);
        assert_true(job.main.channel->in_flight <= before + 1);
        detach();
    }
}

static void test_unknown_op(void **state)
{
    const struct sqe bad = {.op = SQE_OP_COUNT, .slot = 15};

    (void)state;
    bad_try(&bad);
}

static void test_unknown_flag(void **state)
{
    const struct sqe bad = {.op = SQE_WRITE, .flags = 0x80, .slot = 15};

    (void)state;
    bad_try(&bad);
}

static void test_slot_out_of_range(void **state)
{
    const struct sqe bad = {.op = SQE_NOP, .slot = SLOTS};

    (void)state;
    bad_try(&bad);
}

static void test_forged_record(void **state)
{
    const struct sqe bad = {
        .op = SQE_NOTIFY, .flags = SQE_FLAG_NOTIFY, .slot = 15, .notify_pos = 8, .notify_len = 64};

    (void)state;
    bad_try(&bad);
}

static void test_slot_in_use(void **state)
{
    struct sqe batch[SLOTS] = {0};

    (void)state;
    for (uint16_t count = 2; count < SLOTS; count++) {
        attach();
        for (uint16_t i = 0; i < count; i++)
            batch[i] = (struct sqe){.op = SQE_NOP, .slot = i};
        batch[count - 1].slot = (uint16_t)(count / 2 - 1);
        submit(batch, count);
        assert_true(job.session->killed);
        detach();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown_op),        cmocka_unit_test(test_unknown_flag),
        cmocka_unit_test(test_slot_out_of_range), cmocka_unit_test(test_forged_record),
        cmocka_unit_test(test_slot_in_use),
    };

    return cmocka_run_group_tests_name("killed in the middle of a batch", tests, group_setup,
                                       group_teardown);
}
