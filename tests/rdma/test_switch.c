/* MC_RDMA_NOTIFY_ENABLED and MC_RDMA_NOTIFY_OOB_FALLBACK on either side: notifications go natively,
 * by TCP, or are refused before anything is sent, and `tesup status` says which and why.  Data goes
 * by RDMA in each case. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/status.h"
#include "tests/rdma/rdma_fixture.h"

#define LARGE 65000u

struct setting {
    const char *native, *fallback;
};

static void daemon_set(unsigned side, const struct setting *setting)
{
    setenv("MC_RDMA_NOTIFY_ENABLED", setting->native, 1);
    setenv("MC_RDMA_NOTIFY_OOB_FALLBACK", setting->fallback, 1);
    rdma_start(&rdma_daemon[side], side == RDMA_LEFT ? "left" : "right", side, "");
    unsetenv("MC_RDMA_NOTIFY_ENABLED");
    unsetenv("MC_RDMA_NOTIFY_OOB_FALLBACK");
}

static void note_expect(const struct party *party, uint32_t name_len, uint8_t fill)
{
    struct tesup_notification note = party_next(party->channel);

    assert_int_equal(note.name_len, name_len);
    party_verify_byte(note.name, name_len, fill, "notification");
    party_check(tesup_notify_release(party->channel), "release");
}

/* Alone and bound, small and large; or all of them refused, and none of them arrives. */
static void notes_expect(const struct party *from, const struct party *to, int expected)
{
    static uint8_t bytes[MIB];
    struct tesup_request request = {.op = TESUP_OP_NOTIFY,
                                    .remote = party_open(from, tesup_segment_name(to->session)),
                                    .name = bytes};
    static const uint32_t lengths[] = {3, LARGE, 3};

    for (uint8_t i = 0; i < 3; i++) {
        memset(bytes, i + 1, lengths[i]);
        request.name_len = lengths[i];
        party_expect(party_do(from->channel, &request).status, expected);
        if (expected == TESUP_OK)
            note_expect(to, lengths[i], i + 1);
    }
    if (expected == TESUP_OK && tesup_notify_max(from->session) >= MIB &&
        tesup_notify_max(to->session) >= MIB) {
        memset(bytes, 9, MIB);
        request.name_len = MIB;
        party_expect(party_do(from->channel, &request).status, TESUP_OK);
        note_expect(to, MIB, 9);
    }
    party_expect_silence(to->channel, 20);
}

/* A WRITE with a notification is refused as a whole, before a byte moves. */
static void bound_expect(struct ends *ends, uint64_t seed, uint64_t length, int expected)
{
    struct tesup_request request = ends_request(ends, TESUP_OP_WRITE, length, "bound");

    party_fill(ends->local.bytes, length, seed);
    memset(ends->remote.bytes, 0, length);
    party_submit(ends->left.channel, &request);
    if (expected == TESUP_OK) {
        struct tesup_notification note = party_next(ends->right.channel);

        assert_true(party_name_is(&note, "bound"));
        party_verify(ends->remote.bytes, length, seed, "at the notification");
        party_check(tesup_notify_release(ends->right.channel), "release");
    }
    party_expect(party_complete(ends->left.channel).status, expected);
    if (expected != TESUP_OK)
        party_verify_byte(ends->remote.bytes, length, 0, "a refused WRITE");
}

static void status_expect(const struct daemon *daemon, const char *notify)
{
    struct counters_segment *counters = endpoints_open(daemon);
    struct rdma_endpoint endpoint = rdma_endpoint(counters);

    assert_string_equal(endpoint.state, "ready");
    assert_string_equal(endpoint.fabric, "verbs");
    assert_string_equal(endpoint.notify, notify);
    counters_unmap(counters);
}

struct view {
    struct setting setting;
    int outcome;        /* of what it sends */
    const char *notify; /* in its status */
};

/* Left connects; which side does makes no difference to what follows. */
static void views_expect(const struct view *left, const struct view *right)
{
    struct ends ends;
    struct tesup_request bare;

    daemon_set(RDMA_LEFT, &left->setting);
    daemon_set(RDMA_RIGHT, &right->setting);
    ends_begin(&ends, MIB);
    bare = ends_request(&ends, TESUP_OP_WRITE, MIB, NULL);
    party_fill(ends.local.bytes, MIB, 8);
    party_check(party_do(ends.left.channel, &bare).status, "a WRITE alone");
    party_verify(ends.remote.bytes, MIB, 8, "a WRITE alone");
    status_expect(rdma_site.left, left->notify);
    status_expect(rdma_site.right, right->notify);
    notes_expect(&ends.left, &ends.right, left->outcome);
    notes_expect(&ends.right, &ends.left, right->outcome);
    bound_expect(&ends, 1, 4096, left->outcome);
    bound_expect(&ends, 2, MIB, left->outcome);
    ends_end(&ends);
    daemon_stop(&rdma_daemon[RDMA_LEFT]);
    daemon_stop(&rdma_daemon[RDMA_RIGHT]);
}

#define NATIVE  "native"
#define OFF     "tcp (native is off)"
#define REFUSED "refused (no notification QP there)"
#define TCP     "tcp (no notification QP there)"

static void native_by_default(void **state)
{
    const struct view view = {{"1", "0"}, TESUP_OK, NATIVE};

    (void)state;
    views_expect(&view, &view);
}

static void off_means_tcp_whatever_the_fallback_says(void **state)
{
    const struct view strict = {{"0", "0"}, TESUP_OK, OFF}, lax = {{"0", "1"}, TESUP_OK, OFF};

    (void)state;
    views_expect(&strict, &lax);
}

static void peer_without_is_refused(void **state)
{
    const struct view on = {{"1", "0"}, TESUP_ERR_UNSUPPORTED, REFUSED};
    const struct view off = {{"0", "0"}, TESUP_OK, OFF};

    (void)state;
    views_expect(&on, &off);
    views_expect(&off, &on);
}

/* Also what is too long for the native way. */
static void peer_without_is_reached_by_tcp_when_allowed(void **state)
{
    const struct view on = {{"1", "1"}, TESUP_OK, TCP}, off = {{"0", "1"}, TESUP_OK, OFF};

    (void)state;
    views_expect(&on, &off);
    views_expect(&off, &on);
}

static void long_ones_need_the_fallback(void **state)
{
    const struct view view = {{"1", "1"}, TESUP_OK, NATIVE};

    (void)state;
    views_expect(&view, &view);
}

#define ON(test) cmocka_unit_test_teardown(test, rdma_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON(native_by_default),           ON(off_means_tcp_whatever_the_fallback_says),
        ON(peer_without_is_refused),     ON(peer_without_is_reached_by_tcp_when_allowed),
        ON(long_ones_need_the_fallback),
    };

    return cmocka_run_group_tests(tests, rdma_vm_setup, rdma_vm_teardown);
}
