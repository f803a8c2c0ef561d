/* Which device, which port, and which of its GIDs: best first, and a wish is an order. */
#include "tests/harness/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "shm/err.h"
#include "tests/harness/worker/fake_verbs.h"
#include "worker/fabric/verbs/nic.h"

static struct fake_device *device;
static struct worker worker;
static struct verbs_nic nic;
static char text[PROTO_TEXT_MAX];

static int setup(void **state)
{
    (void)state;
    fake_reset();
    device = fake_device_add("fake0");
    worker.config.rdma.gid_index = PROTO_GID_AUTO;
    nic = (struct verbs_nic){.worker = &worker};
    text[0] = '\0';
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    verbs_device_close(&nic);
    return 0;
}

static int open_device(const char *name)
{
    return verbs_device_open(&nic, name, text, sizeof(text));
}

static void expect_said(const char *part)
{
    if (strstr(text, part) == NULL)
        print_error("'%s' is not in '%s'\n", part, text);
    assert_non_null(strstr(text, part));
}

static void expect_gid(uint32_t place, const char *shown)
{
    char gid[96];

    assert_true(place < nic.gid_count);
    verbs_gid_format(&nic.gid[place], gid, sizeof(gid));
    assert_string_equal(gid, shown);
}

static void gids_of_all_kinds(void)
{
    fake_gid_set(device, 0, IBV_GID_TYPE_ROCE_V1, "fe80::1");
    fake_gid_set(device, 1, IBV_GID_TYPE_ROCE_V2, "fe80::1");
    fake_gid_set(device, 2, IBV_GID_TYPE_ROCE_V1, "10.0.0.1");
    fake_gid_set(device, 3, IBV_GID_TYPE_ROCE_V2, "2001:db8::1");
    fake_gid_set(device, 4, IBV_GID_TYPE_ROCE_V2, "10.0.0.1");
    fake_gid_set(device, 5, IBV_GID_TYPE_ROCE_V1, "2001:db8::1");
}

/* ---- the device and its port ---- */

static void test_opens(void **state)
{
    (void)state;
    assert_int_equal(open_device("fake0"), TS_OK);
    assert_string_equal(nic.name, "fake0 port 1");
    assert_int_equal(nic.port, 1);
    assert_non_null(nic.pd);
    assert_int_equal(nic.attr.max_qp, device->attr.max_qp);
}

static void test_unknown_device(void **state)
{
    (void)state;
    fake_device_add("fake1");
    assert_int_equal(open_device("fake"), TS_ERR_UNSUPPORTED);
    assert_string_equal(text, "no RDMA device fake; there are: fake0 fake1");
    assert_null(nic.device);
}

static void test_no_device_at_all(void **state)
{
    (void)state;
    fake_reset();
    assert_int_equal(open_device("mlx5_0"), TS_ERR_UNSUPPORTED);
    expect_said("no RDMA device mlx5_0; there is none (ibv_devices");
    device = fake_device_add("fake0");
}

static void test_no_right_to_open(void **state)
{
    (void)state;
    fake_fail(device, FAKE_OPEN, 0, 1, EACCES);
    assert_int_equal(open_device("fake0"), TS_ERR_UNSUPPORTED);
    expect_said("cannot open RDMA device fake0: Permission denied (access to /dev/infiniband");
}

static void test_port_by_number(void **state)
{
    (void)state;
    assert_int_equal(open_device("fake0:2"), TS_ERR_UNSUPPORTED);
    expect_said("this port is not there or not active");
    assert_int_equal(open_device("fake0:3"), TS_ERR_UNSUPPORTED);
    device->port[1].state = IBV_PORT_ACTIVE;
    fake_gid_set(device, 2, IBV_GID_TYPE_ROCE_V2, "10.0.1.1");
    device->gid[2].port_num = 2;
    assert_int_equal(open_device("fake0:2"), TS_OK);
    assert_int_equal(nic.port, 2);
    assert_int_equal(nic.gid_count, 1);
    expect_gid(0, "2: 10.0.1.1 (RoCE v2)");
}

/* Without a wish it is the first port that is active. */
static void test_port_that_is_active(void **state)
{
    (void)state;
    device->port[0].state = IBV_PORT_DOWN;
    assert_int_equal(open_device("fake0"), TS_ERR_UNSUPPORTED);
    expect_said("no port is active (ibv_devinfo, ip link)");
    device->port[1].state = IBV_PORT_ACTIVE;
    device->gid[1].port_num = 2;
    assert_int_equal(open_device("fake0"), TS_OK);
    assert_int_equal(nic.port, 2);
}

/* Nothing stays open behind an error. */
static void test_failures_on_the_way(void **state)
{
    (void)state;
    fake_fail(device, FAKE_QUERY_DEVICE, 0, 1, EIO);
    assert_int_not_equal(open_device("fake0"), TS_OK);
    expect_said("cannot query RDMA device fake0");
    fake_fail(device, FAKE_ALLOC_PD, 0, 1, ENOMEM);
    assert_int_equal(open_device("fake0"), TS_ERR_SYSTEM);
    expect_said("fake0 port 1: no protection domain: Cannot allocate memory");
    assert_null(nic.device);
    fake_reset(); /* aborts if it were open */
    device = fake_device_add("fake0");
}

/* ---- GIDs ---- */

static void test_order_of_gids(void **state)
{
    (void)state;
    gids_of_all_kinds();
    assert_int_equal(open_device("fake0"), TS_OK);
    assert_int_equal(nic.gid_count, 6);
    expect_gid(0, "4: 10.0.0.1 (RoCE v2)");
    expect_gid(1, "3: 2001:db8::1 (RoCE v2)");
    expect_gid(2, "1: fe80::1 (RoCE v2)");
    expect_gid(3, "2: 10.0.0.1 (RoCE v1)");
    expect_gid(4, "5: 2001:db8::1 (RoCE v1)");
    expect_gid(5, "0: fe80::1 (RoCE v1)");
}

/* More than can be offered: the best are, and equals in the table's order. */
static void test_too_many_gids(void **state)
{
    char address[32];

    (void)state;
    for (uint32_t i = 0; i < 12; i++) {
        snprintf(address, sizeof(address), i == 11 ? "10.0.0.9" : "2001:db8::%x", i);
        fake_gid_set(device, i, IBV_GID_TYPE_ROCE_V2, address);
    }
    assert_int_equal(open_device("fake0"), TS_OK);
    assert_int_equal(nic.gid_count, HANDSHAKE_GIDS);
    expect_gid(0, "11: 10.0.0.9 (RoCE v2)");
    for (uint32_t i = 1; i < HANDSHAKE_GIDS; i++)
        assert_int_equal(nic.gid[i].index, i - 1);
}

static void test_infiniband_keeps_its_order(void **state)
{
    (void)state;
    fake_gid_set(device, 0, IBV_GID_TYPE_IB, "fe80::5");
    fake_gid_set(device, 1, IBV_GID_TYPE_IB, "2001:db8::5");
    assert_int_equal(open_device("fake0"), TS_OK);
    expect_gid(0, "0: fe80::5 (InfiniBand)");
    expect_gid(1, "1: 2001:db8::5 (InfiniBand)");
}

static void test_gid_by_index(void **state)
{
    (void)state;
    gids_of_all_kinds();
    worker.config.rdma.gid_index = 2;
    assert_int_equal(open_device("fake0"), TS_OK);
    assert_int_equal(nic.gid_count, 1);
    expect_gid(0, "2: 10.0.0.1 (RoCE v1)");
}

static void test_gid_by_an_index_that_is_not_there(void **state)
{
    (void)state;
    worker.config.rdma.gid_index = 9;
    assert_int_equal(open_device("fake0"), TS_ERR_UNSUPPORTED);
    assert_string_equal(text, "fake0 port 1 has no GID 9 (gid_index, MC_GID_INDEX); it has "
                              "0: fe80::1 (RoCE v2) 1: 10.0.0.1 (RoCE v2)");
}

/* A table that is longer than the sentence ends it, and nothing else. */
static void test_missing_gid_with_a_long_table(void **state)
{
    char address[48];

    (void)state;
    for (uint32_t i = 0; i < FAKE_GIDS; i++) {
        snprintf(address, sizeof(address), "2001:db8:1111:2222:3333:4444:5555:%x", i + 1);
        fake_gid_set(device, i, IBV_GID_TYPE_ROCE_V2, address);
    }
    worker.config.rdma.gid_index = 99;
    assert_int_equal(open_device("fake0"), TS_ERR_UNSUPPORTED);
    assert_int_equal(strlen(text), sizeof(text) - 1);
}

static void test_no_gid(void **state)
{
    (void)state;
    device->gid_count = 0;
    assert_int_equal(open_device("fake0"), TS_ERR_UNSUPPORTED);
    assert_string_equal(text, "fake0 port 1 has no usable GID: give its interface an address");
}

/* ---- two sides ---- */

static void offer_add(struct handshake_verbs *offer, uint32_t type, const char *address)
{
    struct fake_device *other = fake_device_add("other");

    fake_gid_set(other, 0, type, address);
    memcpy(offer->gid[offer->gid_count], other->gid[0].gid.raw, 16);
    offer->gid_type[offer->gid_count++] = (uint8_t)type;
    other->gid_count = 0;
}

/* Of one type and one family; ours decides the order. */
static void test_pairs(void **state)
{
    struct handshake_verbs offer = {.offered = true};
    uint32_t own = 99, theirs = 99;

    (void)state;
    gids_of_all_kinds();
    assert_int_equal(open_device("fake0"), TS_OK);
    offer_add(&offer, IBV_GID_TYPE_ROCE_V1, "10.0.0.2");
    offer_add(&offer, IBV_GID_TYPE_ROCE_V2, "fe80::2");
    offer_add(&offer, IBV_GID_TYPE_ROCE_V2, "2001:db8::2");
    assert_true(verbs_gid_match(&nic, &offer, 0, &own, &theirs));
    expect_gid(own, "3: 2001:db8::1 (RoCE v2)");
    assert_int_equal(theirs, 2);
    assert_true(verbs_gid_match(&nic, &offer, 1, &own, &theirs));
    expect_gid(own, "1: fe80::1 (RoCE v2)");
    assert_int_equal(theirs, 1);
    assert_true(verbs_gid_match(&nic, &offer, 2, &own, &theirs));
    expect_gid(own, "2: 10.0.0.1 (RoCE v1)");
    assert_int_equal(theirs, 0);
    assert_false(verbs_gid_match(&nic, &offer, 3, &own, &theirs));
}

static void test_no_pair(void **state)
{
    struct handshake_verbs offer = {.offered = true};
    uint32_t own, theirs;

    (void)state;
    assert_int_equal(open_device("fake0"), TS_OK); /* RoCE v2: IPv4 and link-local */
    offer_add(&offer, IBV_GID_TYPE_ROCE_V1, "10.0.0.2");
    offer_add(&offer, IBV_GID_TYPE_ROCE_V2, "2001:db8::2");
    assert_false(verbs_gid_match(&nic, &offer, 0, &own, &theirs));
}

static void test_mtu(void **state)
{
    (void)state;
    assert_int_equal(verbs_mtu_bytes(IBV_MTU_256), 256);
    assert_int_equal(verbs_mtu_bytes(IBV_MTU_4096), 4096);
    for (enum ibv_mtu mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++)
        assert_int_equal(verbs_mtu(verbs_mtu_bytes(mtu)), mtu);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_opens),
        TEST(test_unknown_device),
        TEST(test_no_device_at_all),
        TEST(test_no_right_to_open),
        TEST(test_port_by_number),
        TEST(test_port_that_is_active),
        TEST(test_failures_on_the_way),
        TEST(test_order_of_gids),
        TEST(test_too_many_gids),
        TEST(test_infiniband_keeps_its_order),
        TEST(test_gid_by_index),
        TEST(test_gid_by_an_index_that_is_not_there),
        TEST(test_missing_gid_with_a_long_table),
        TEST(test_no_gid),
        TEST(test_pairs),
        TEST(test_no_pair),
        TEST(test_mtu),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
