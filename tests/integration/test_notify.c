/* Notifications: their bytes, their limit, and what becomes of those bound to a transfer. */
#include "tests/harness/test.h"

#include <stdlib.h>
#include <string.h>

#include "tests/harness/party.h"
#include "tests/harness/site.h"
#include "tests/harness/wait.h"

#define READ_WRITE (TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE)
#define MIB        (UINT64_C(1) << 20)
#define BLOCK      (MIB + 24)
#define BULK       (64 * MIB)

struct pair {
    struct party left, right;
    tesup_remote_t remote; /* right, for left */
};

static void pair_begin(struct pair *pair, const struct site *site)
{
    party_attach(&pair->left, site->left, NULL);
    party_attach(&pair->right, site->right, NULL);
    pair->remote = party_open(&pair->left, tesup_segment_name(pair->right.session));
}

static void pair_end(struct pair *pair)
{
    party_detach(&pair->left);
    party_detach(&pair->right);
}

/* ---- any bytes of any length ---- */

static void bytes_expect_arrival(struct party *from, struct party *to, tesup_remote_t remote,
                                 const uint8_t *name, uint32_t name_len, uint32_t msg_len)
{
    struct tesup_request request = {.op = TESUP_OP_NOTIFY,
                                    .cookie = name_len,
                                    .remote = remote,
                                    .name = name,
                                    .name_len = name_len,
                                    .msg = name + name_len,
                                    .msg_len = msg_len};
    struct tesup_completion done = party_do(from->channel, &request);
    const char *sender = tesup_segment_name(from->session);

    party_check(done.status, "notification");
    assert_int_equal(done.cookie, name_len);
    struct tesup_notification next = party_next(to->channel);
    assert_int_equal(next.kind, TESUP_NOTIFICATION_MESSAGE);
    assert_int_equal(next.status, TESUP_OK);
    assert_int_equal(next.name_len, name_len);
    assert_int_equal(next.msg_len, msg_len);
    assert_memory_equal(next.name, name, name_len);
    assert_memory_equal(next.msg, name + name_len, msg_len);
    assert_int_equal(next.from_len, strlen(sender));
    assert_memory_equal(next.from, sender, next.from_len);
    party_check(tesup_notify_release(to->channel), "release");
}

static void too_long_expect(struct party *from, tesup_remote_t remote, uint32_t name_len,
                            uint32_t msg_len)
{
    uint8_t *bytes = calloc(1, (size_t)name_len + msg_len);
    struct tesup_request request = {.op = TESUP_OP_NOTIFY,
                                    .remote = remote,
                                    .name = bytes,
                                    .name_len = name_len,
                                    .msg = bytes + name_len,
                                    .msg_len = msg_len};
    uint32_t accepted = 7;

    party_expect(tesup_submit(from->channel, &request, 1, NULL, &accepted), TESUP_ERR_TOO_LONG);
    assert_int_equal(accepted, 0);
    free(bytes);
}

static void bytes_exchange(struct party *from, struct party *to, tesup_remote_t remote)
{
    static const uint32_t lengths[][2] = {{0, 0},
                                          {1, 0},
                                          {0, 1},
                                          {7, 9},
                                          {255, 4097},
                                          {TESUP_NOTIFY_MAX, 0},
                                          {0, TESUP_NOTIFY_MAX},
                                          {300, TESUP_NOTIFY_MAX - 300}};
    static const int fills[] = {0x00, 0xff, -1}; /* -1: every value in turn */
    static uint8_t bytes[TESUP_NOTIFY_MAX];

    for (size_t fill = 0; fill < 3; fill++) {
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = (uint8_t)(fills[fill] < 0 ? (int)(i % 256) : fills[fill]);
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
            bytes_expect_arrival(from, to, remote, bytes, lengths[i][0], lengths[i][1]);
    }
    too_long_expect(from, remote, 1, TESUP_NOTIFY_MAX);
    too_long_expect(from, remote, TESUP_NOTIFY_MAX, 1);
    too_long_expect(from, remote, TESUP_NOTIFY_MAX + 1, 0);
    bytes_expect_arrival(from, to, remote, bytes, 3, 5);
}

static void any_bytes_arrive_as_they_are(void **state)
{
    struct pair pair;

    (void)state;
    for (int i = 0; i < SITE_COUNT; i++) {
        pair_begin(&pair, &sites[i]);
        assert_int_equal(tesup_notify_max(pair.left.session), TESUP_NOTIFY_MAX);
        bytes_exchange(&pair.left, &pair.right, pair.remote);
        pair_end(&pair);
    }
}

static void to_oneself(void **state)
{
    struct party party;
    tesup_remote_t remote;

    (void)state;
    party_attach(&party, sites[SITE_TCP].left, NULL);
    remote = party_open(&party, tesup_segment_name(party.session));
    bytes_exchange(&party, &party, remote);
    party_detach(&party);
}

static void fallback_allows_a_mebibyte(void **state)
{
    static uint8_t bytes[MIB];
    struct daemon left, right;
    struct site site = {"fallback", &left, &right};
    const char *const fabrics[] = {"--fabric tcp", "--fabric auto"};
    struct pair pair;

    (void)state;
    party_fill(bytes, MIB, 9);
    setenv("MC_RDMA_NOTIFY_OOB_FALLBACK", "1", 1);
    for (int i = 0; i < 2; i++) {
        daemon_start(&left, "oob-left", fabrics[i]);
        daemon_start(&right, "oob-right", fabrics[i]);
        pair_begin(&pair, &site);
        assert_int_equal(tesup_notify_max(pair.left.session), MIB);
        bytes_expect_arrival(&pair.left, &pair.right, pair.remote, bytes, 1, TESUP_NOTIFY_MAX);
        bytes_expect_arrival(&pair.left, &pair.right, pair.remote, bytes, 4, MIB - 4);
        bytes_expect_arrival(&pair.left, &pair.right, pair.remote, bytes, MIB, 0);
        too_long_expect(&pair.left, pair.remote, 1, MIB);
        bytes_expect_arrival(&pair.left, &pair.right, pair.remote, bytes, 4, MIB - 4);
        pair_end(&pair);
        daemon_stop(&left);
        daemon_stop(&right);
    }
    unsetenv("MC_RDMA_NOTIFY_OOB_FALLBACK");
}

/* ---- bound to a transfer ---- */

struct bound {
    struct pair pair;
    struct party_region local, remote;
    struct tesup_request request; /* a WRITE of BLOCK bytes with the notification "bound" */
};

static void bound_begin(struct bound *bound, const struct site *site, uint64_t size)
{
    pair_begin(&bound->pair, site);
    party_region_create(&bound->pair.left, PARTY_MEMORY_ALLOC, size, TESUP_ACCESS_LOCAL,
                        &bound->local);
    party_region_create(&bound->pair.right, PARTY_MEMORY_ALLOC, size, READ_WRITE, &bound->remote);
    bound->request = (struct tesup_request){.op = TESUP_OP_WRITE,
                                            .cookie = 77,
                                            .remote = bound->pair.remote,
                                            .local_region = bound->local.handle,
                                            .remote_region = bound->remote.handle,
                                            .length = size,
                                            .name = "bound",
                                            .name_len = 5};
}

static void bound_expect_note(struct bound *bound, int status, uint64_t bytes)
{
    struct tesup_notification next = party_next(bound->pair.right.channel);

    assert_true(party_name_is(&next, "bound"));
    party_expect(next.status, status);
    assert_int_equal(next.bytes, bytes);
    party_check(tesup_notify_release(bound->pair.right.channel), "release");
}

static void write_is_there_before_its_note(void **state)
{
    struct bound bound;

    (void)state;
    for (int i = 0; i < SITE_COUNT; i++) {
        bound_begin(&bound, &sites[i], BLOCK);
        for (uint64_t seed = 0; seed < 50; seed++) {
            party_fill(bound.local.bytes, BLOCK, seed);
            party_submit(bound.pair.left.channel, &bound.request);
            bound_expect_note(&bound, TESUP_OK, BLOCK);
            party_verify(bound.remote.bytes, BLOCK, seed, "at the notification");
            struct tesup_completion done = party_complete(bound.pair.left.channel);
            party_check(done.status, "WRITE");
            assert_int_equal(done.bytes, BLOCK);
            assert_int_equal(done.cookie, 77);
        }
        pair_end(&bound.pair);
    }
}

/* The owner may use its memory again as soon as it sees the notification. */
static void read_is_over_before_its_note(void **state)
{
    struct bound bound;

    (void)state;
    for (int i = 0; i < SITE_COUNT; i++) {
        bound_begin(&bound, &sites[i], BLOCK);
        bound.request.op = TESUP_OP_READ;
        for (uint64_t seed = 0; seed < 50; seed++) {
            party_fill(bound.remote.bytes, BLOCK, seed);
            party_submit(bound.pair.left.channel, &bound.request);
            bound_expect_note(&bound, TESUP_OK, BLOCK);
            memset(bound.remote.bytes, 0xcc, BLOCK);
            party_check(party_complete(bound.pair.left.channel).status, "READ");
            party_verify(bound.local.bytes, BLOCK, seed, "what was read");
        }
        pair_end(&bound.pair);
    }
}

static void empty_transfer_brings_its_note(void **state)
{
    struct bound bound;

    (void)state;
    for (int i = 0; i < SITE_COUNT; i++) {
        bound_begin(&bound, &sites[i], 64);
        bound.request.length = 0;
        party_check(party_do(bound.pair.left.channel, &bound.request).status, "0 bytes");
        bound_expect_note(&bound, TESUP_OK, 0);
        pair_end(&bound.pair);
    }
}

/* Each request fails in another way; `flags` says whether its notification must arrive. */
static void failures_expect(struct bound *bound, uint32_t flags)
{
    struct party_region gone, locked;
    struct tesup_request request[5];
    static const int expected[5] = {TESUP_ERR_INVALID, TESUP_ERR_GONE, TESUP_ERR_DENIED,
                                    TESUP_ERR_INVALID, TESUP_ERR_GONE};

    party_region_create(&bound->pair.right, PARTY_MEMORY_ALLOC, 4096, READ_WRITE, &gone);
    party_region_free(&bound->pair.right, &gone);
    party_region_create(&bound->pair.right, PARTY_MEMORY_ALLOC, 4096, TESUP_ACCESS_LOCAL, &locked);
    for (int i = 0; i < 5; i++) {
        request[i] = bound->request;
        request[i].length = 4096;
        request[i].flags = flags;
    }
    request[0].remote_offset = BLOCK;
    request[1].remote_region = gone.handle;
    request[2].remote_region = locked.handle;
    request[3].local_offset = BLOCK;
    party_region_create(&bound->pair.left, PARTY_MEMORY_ALLOC, 4096, TESUP_ACCESS_LOCAL, &gone);
    party_region_free(&bound->pair.left, &gone);
    request[4].local_region = gone.handle;
    for (int i = 0; i < 5; i++) {
        struct tesup_completion done = party_do(bound->pair.left.channel, &request[i]);
        party_expect(done.status, expected[i]);
        assert_int_equal(done.bytes, 0);
        if ((flags & TESUP_NOTIFY_ALWAYS) != 0)
            bound_expect_note(bound, expected[i], 0);
    }
    party_expect_silence(bound->pair.right.channel, 50);
}

static void failed_transfer_brings_no_note(void **state)
{
    struct bound bound;

    (void)state;
    for (int i = 0; i < SITE_COUNT; i++) {
        bound_begin(&bound, &sites[i], BLOCK);
        failures_expect(&bound, 0);
        party_check(party_do(bound.pair.left.channel, &bound.request).status, "the next WRITE");
        bound_expect_note(&bound, TESUP_OK, BLOCK);
        pair_end(&bound.pair);
    }
}

static void always_brings_the_outcome(void **state)
{
    struct bound bound;

    (void)state;
    for (int i = 0; i < SITE_COUNT; i++) {
        bound_begin(&bound, &sites[i], BLOCK);
        failures_expect(&bound, TESUP_NOTIFY_ALWAYS);
        bound.request.flags = TESUP_NOTIFY_ALWAYS;
        party_check(party_do(bound.pair.left.channel, &bound.request).status, "the next WRITE");
        bound_expect_note(&bound, TESUP_OK, BLOCK);
        pair_end(&bound.pair);
    }
}

/* The second waits behind the first, so that both are there to be cancelled. */
static void always_tells_of_a_cancel(void **state)
{
    struct bound bound;
    struct tesup_completion done;

    (void)state;
    for (int i = 0; i < SITE_COUNT; i++) {
        bound_begin(&bound, &sites[i], BULK);
        bound.request.flags = TESUP_NOTIFY_ALWAYS;
        for (int round = 0; round < 2; round++) {
            uint64_t ticket = party_submit(bound.pair.left.channel, &bound.request);
            party_check(tesup_cancel(bound.pair.left.channel, ticket), "cancel");
            done = party_complete(bound.pair.left.channel);
            party_expect(done.status, TESUP_ERR_CANCELLED);
            bound_expect_note(&bound, TESUP_ERR_CANCELLED, done.bytes);
        }
        pair_end(&bound.pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_bytes_arrive_as_they_are),
        cmocka_unit_test(to_oneself),
        cmocka_unit_test(fallback_allows_a_mebibyte),
        cmocka_unit_test(write_is_there_before_its_note),
        cmocka_unit_test(read_is_over_before_its_note),
        cmocka_unit_test(empty_transfer_brings_its_note),
        cmocka_unit_test(failed_transfer_brings_no_note),
        cmocka_unit_test(always_brings_the_outcome),
        cmocka_unit_test(always_tells_of_a_cancel),
    };

    return cmocka_run_group_tests(tests, site_group_setup, site_group_teardown);
}
