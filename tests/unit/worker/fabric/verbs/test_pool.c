/* Pinned buffers: made a chunk at a time, never more than the limit, and 1,000 endpoints stay below
 * 64 MiB. */
#include "tests/unit/worker/fabric/verbs/verbs_fixture.h"

#define ENDPOINTS  1000u
#define PINNED_MAX (64u * 1024u * 1024u)

static struct host host;
static struct fake_device *device;
static struct verbs_pool pool;

static int setup_host(void **state)
{
    struct proto_worker_config config;

    (void)state;
    fake_reset();
    device = fake_device_add("fake0");
    device->attr.max_cqe = 4194303; /* of a ConnectX */
    config = host_config_verbs("a", "fake0");
    config.endpoint_max = ENDPOINTS + 2;
    host_start(&host, &config);
    return 0;
}

static int teardown_host(void **state)
{
    (void)state;
    host_end_endpoints(&host);
    host_stop(&host);
    return 0;
}

static void test_chunks(void **state)
{
    struct verbs_buffer *buffers[2 * VERBS_POOL_CHUNK];
    unsigned mrs = device->mrs;

    (void)state;
    assert_int_equal(verbs_pool_init(&pool, nic_of(&host)->pd, 2 * VERBS_POOL_CHUNK), TS_OK);
    assert_int_equal(device->mrs, mrs); /* nothing before it is needed */
    for (uint32_t i = 0; i < 2 * VERBS_POOL_CHUNK; i++) {
        buffers[i] = verbs_pool_take(&pool);
        assert_non_null(buffers[i]);
        assert_ptr_equal(verbs_pool_at(&pool, buffers[i]->index), buffers[i]);
        memset(buffers[i]->bytes, (int)i, VERBS_BUFFER_SIZE);
        assert_int_equal(device->mrs, mrs + 1 + i / VERBS_POOL_CHUNK);
    }
    assert_null(verbs_pool_take(&pool));
    assert_int_equal(verbs_pool_grow(&pool), TS_ERR_LIMIT);
    assert_null(verbs_pool_at(&pool, 2 * VERBS_POOL_CHUNK));
    for (uint32_t i = 0; i < 2 * VERBS_POOL_CHUNK; i++) /* each its own */
        for (uint32_t at = 0; at < VERBS_BUFFER_SIZE; at += 512)
            assert_int_equal(buffers[i]->bytes[at], (uint8_t)i);
    verbs_pool_give(&pool, buffers[5]);
    assert_ptr_equal(verbs_pool_take(&pool), buffers[5]);
    verbs_pool_fini(&pool);
    assert_int_equal(device->mrs, mrs);
}

static void test_registration_fails(void **state)
{
    (void)state;
    assert_int_equal(verbs_pool_init(&pool, nic_of(&host)->pd, VERBS_POOL_CHUNK), TS_OK);
    fake_fail(device, FAKE_REG_MR, 0, 1, ENOMEM);
    assert_null(verbs_pool_take(&pool));
    assert_int_equal(pool.total, 0);
    assert_non_null(verbs_pool_take(&pool)); /* later it may work */
    verbs_pool_fini(&pool);
}

static struct verbs_link *link_add(unsigned index)
{
    char name[32], text[PROTO_TEXT_MAX] = "";
    struct endpoint *endpoint;

    snprintf(name, sizeof(name), "peer%u", index);
    endpoint = host_endpoint(&host, name, (uint8_t)index, HOST_NOTIFY_MAX);
    endpoint->offer = verbs_link_prepare(endpoint, true, text, sizeof(text));
    host_require(endpoint->offer != NULL, text);
    return verbs_of(endpoint->offer);
}

/* All that can be pinned for notifications, whatever happens, is pinned here. */
static void test_thousand_endpoints(void **state)
{
    struct verbs_nic *nic = nic_of(&host);
    struct verbs_buffer *taken = NULL, *buffer;
    uint32_t promised = 0, generous = 0;

    (void)state;
    for (unsigned i = 0; i < ENDPOINTS; i++) {
        struct verbs_link *link = link_add(i);

        assert_non_null(link->notify);
        promised += link->stream.window;
        generous += link->stream.window == 64;
        assert_true(link->stream.window >= 6);
    }
    while ((buffer = verbs_pool_take(&nic->send)) != NULL) {
        buffer->next = taken;
        taken = buffer;
    }
    assert_int_equal(generous, 32);
    assert_int_equal(nic->window_reserved, promised);
    assert_true(nic->receive.total >= promised); /* so a SEND finds a buffer */
    assert_int_equal(device->srq_posted, nic->receive.total);
    print_message("%u endpoints: %llu bytes pinned\n", ENDPOINTS,
                  (unsigned long long)device->pinned);
    assert_true(device->pinned <= PINNED_MAX);
    assert_int_equal(device->pinned,
                     (uint64_t)(nic->receive.total + nic->send.total) * VERBS_BUFFER_SIZE);
    while (taken != NULL) {
        buffer = taken;
        taken = buffer->next;
        verbs_pool_give(&nic->send, buffer);
    }
}

/* What a memory limit refuses is not charged: trying again costs nothing. */
static void test_receive_buffers_refused(void **state)
{
    struct verbs_nic *nic = nic_of(&host);
    char text[PROTO_TEXT_MAX] = "";

    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        fake_fail(device, FAKE_REG_MR, 0, 1, ENOMEM);
        assert_int_equal(verbs_window_reserve(nic, text, sizeof(text)), 0);
        assert_string_equal(text, "fake0 port 1: no more receive buffers: Cannot allocate memory "
                                  "(memlock: LimitMEMLOCK=infinity)");
    }
    assert_int_equal(nic->notify_cq.charged, 0);
    assert_int_equal(nic->window_reserved, 0);
    assert_int_equal(verbs_window_reserve(nic, text, sizeof(text)), 64);
    verbs_window_release(nic, 64);
}

/* A buffer that the queue does not take is not lost, and what was posted before it is used. */
static void test_receive_post_refused(void **state)
{
    struct verbs_nic *nic = nic_of(&host);
    char text[PROTO_TEXT_MAX] = "";

    (void)state;
    fake_fail(device, FAKE_POST_RECEIVE, 10, 1, ENOMEM);
    assert_int_equal(verbs_window_reserve(nic, text, sizeof(text)), 0);
    assert_string_equal(text, "fake0 port 1: cannot post a receive buffer: Cannot allocate memory");
    assert_int_equal(device->srq_posted, 10);
    assert_int_equal(verbs_window_reserve(nic, text, sizeof(text)), 64);
    assert_int_equal(device->srq_posted, 64);
    assert_int_equal(nic->notify_cq.charged, 64);
    verbs_window_release(nic, 64);
}

static void test_all_windows_promised(void **state)
{
    struct verbs_nic *nic = nic_of(&host);
    char text[PROTO_TEXT_MAX] = "";
    uint32_t window, sum = 0;

    (void)state;
    while ((window = verbs_window_reserve(nic, text, sizeof(text))) > 0)
        sum += window;
    assert_string_equal(text, "fake0 port 1: all 8192 receive buffers are promised to other peers");
    assert_true(sum <= VERBS_RECEIVE_MAX && sum > VERBS_RECEIVE_MAX - 6);
    verbs_window_release(nic, 6);
    assert_int_equal(verbs_window_reserve(nic, text, sizeof(text)), 6);
    verbs_window_release(nic, sum);
}

#define TEST_HOST(name) cmocka_unit_test_setup_teardown(name, setup_host, teardown_host)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_HOST(test_chunks),
        TEST_HOST(test_registration_fails),
        TEST_HOST(test_thousand_endpoints),
        TEST_HOST(test_receive_buffers_refused),
        TEST_HOST(test_receive_post_refused),
        TEST_HOST(test_all_windows_promised),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
