/* A peer that knows the key and has real queue pairs, and then breaks the protocol: its endpoint
 * ends with a counter, jobs that work at the same time do not notice, and nothing is left of it. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

#include "shm/err.h"
#include "tests/harness/rawverbs.h"
#include "tests/harness/status.h"
#include "tests/rdma/rdma_fixture.h"

static struct ends ends; /* jobs that work on, between left and right */
static struct rawverbs raw;
static pid_t worker;

static void bystanders_work(void)
{
    struct tesup_request request = ends_request(&ends, TESUP_OP_WRITE, 4096, "bystander");
    struct tesup_notification note;

    party_check(party_do(ends.left.channel, &request).status, "a bystander's WRITE");
    note = party_next(ends.right.channel);
    assert_true(party_name_is(&note, "bystander"));
    party_check(tesup_notify_release(ends.right.channel), "release");
}

static int group_setup(void **state)
{
    if (rdma_group_setup(state) < 0)
        return -1;
    ends_begin(&ends, MIB);
    bystanders_work();
    worker = status_worker_ready(rdma_site.left, 0);
    return 0;
}

static int group_teardown(void **state)
{
    ends_end(&ends);
    return rdma_group_teardown(state);
}

static const char *victim(void)
{
    return strchr(tesup_segment_name(ends.left.session), '/') + 1;
}

static void link_open(void)
{
    rawverbs_open(&raw, rdma_site.left);
    rawverbs_shake(&raw, victim());
}

/* The endpoint is gone with all that it had; the worker and its other endpoint are not. */
static void link_expect_end(const char *what)
{
    struct wait wait;

    (void)rawpeer_expect_hangup(&raw.peer, WAIT_MS);
    rawverbs_close(&raw);
    for (wait = wait_begin(what, WAIT_MS); rdma_objects(worker).qps != 2;)
        wait_step(&wait);
    assert_int_equal(status_worker_ready(rdma_site.left, 0), worker);
    bystanders_work();
}

static void ready_say(void)
{
    const struct frame ready = {.type = FRAME_READY};
    struct verbs_packet packet = rawverbs_packet(&raw, sizeof(ready));

    assert_int_equal(rawverbs_send(&raw, &packet, sizeof(packet), &ready, sizeof(ready)),
                     IBV_WC_SUCCESS);
}

/* ---- packets ---- */

static void spoil_nothing(struct verbs_packet *packet, struct frame *frame)
{
    (void)packet;
    frame->type = FRAME_READY;
}

static void spoil_length(struct verbs_packet *packet, struct frame *frame)
{
    spoil_nothing(packet, frame);
    packet->length++;
}

static void spoil_sequence(struct verbs_packet *packet, struct frame *frame)
{
    spoil_nothing(packet, frame);
    packet->sequence += 5;
}

static void spoil_credits(struct verbs_packet *packet, struct frame *frame)
{
    spoil_nothing(packet, frame);
    packet->credits = UINT16_MAX;
}

static void spoil_type(struct verbs_packet *packet, struct frame *frame)
{
    (void)packet;
    frame->type = 200;
}

static void spoil_bulk(struct verbs_packet *packet, struct frame *frame)
{
    (void)packet;
    *frame = (struct frame){.type = FRAME_WRITE, .length = 64};
}

static void spoil_payload(struct verbs_packet *packet, struct frame *frame)
{
    (void)packet;
    *frame = (struct frame){.type = FRAME_NOTIFY, .length = UINT32_MAX};
}

static void spoil_open(struct verbs_packet *packet, struct frame *frame)
{
    (void)packet;
    *frame = (struct frame){.type = FRAME_NOTIFY, .open = 0x7fff0001};
}

static void spoil_export(struct verbs_packet *packet, struct frame *frame)
{
    (void)packet;
    *frame = (struct frame){.type = FRAME_EXPORT, .open = 12345, .region = 7, .value = 64};
}

static void spoil_exported(struct verbs_packet *packet, struct frame *frame)
{
    (void)packet;
    *frame = (struct frame){.type = FRAME_EXPORTED, .request = 99};
}

static void spoil_revoked(struct verbs_packet *packet, struct frame *frame)
{
    (void)packet;
    *frame = (struct frame){.type = FRAME_REVOKED, .request = 99};
}

static void spoil_revoke(struct verbs_packet *packet, struct frame *frame)
{
    (void)packet;
    *frame = (struct frame){.type = FRAME_REVOKE, .request = 99};
}

static const struct {
    const char *what;
    void (*spoil)(struct verbs_packet *packet, struct frame *frame);
} spoils[] = {
    {"a length beyond the packet", spoil_length},
    {"a sequence number that was not next", spoil_sequence},
    {"credit for buffers that there are not", spoil_credits},
    {"a frame of no type", spoil_type},
    {"a frame of another fabric", spoil_bulk},
    {"a payload of 4 GiB", spoil_payload},
    {"a notification to a segment that was not opened", spoil_open},
    {"keys asked for by a segment that was not opened", spoil_export},
    {"keys that nobody asked for", spoil_exported},
    {"a revocation that nobody asked for", spoil_revoked},
    {"a revocation of what was not given", spoil_revoke},
};

static void spoilt_packets_end_the_endpoint(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(spoils) / sizeof(spoils[0]); i++) {
        uint64_t before = status_worker_count(rdma_site.left, "peer_protocol");
        struct frame frame = {.type = FRAME_NONE};
        struct verbs_packet packet;

        link_open();
        ready_say();
        packet = rawverbs_packet(&raw, sizeof(frame));
        spoils[i].spoil(&packet, &frame);
        (void)rawverbs_send(&raw, &packet, sizeof(packet), &frame, sizeof(frame));
        link_expect_end(spoils[i].what);
        if (status_worker_count(rdma_site.left, "peer_protocol") != before + 1)
            fail_msg("%s: not counted as a broken protocol", spoils[i].what);
    }
}

static void short_and_long_ones_too(void **state)
{
    static const uint8_t bytes[5000];

    (void)state;
    link_open();
    (void)rawverbs_send(&raw, bytes, 4, NULL, 0);
    link_expect_end("a packet of 4 bytes");
    link_open();
    ready_say();
    (void)rawverbs_send(&raw, bytes, sizeof(bytes), NULL, 0); /* into a buffer of 4,096 */
    link_expect_end("a packet that fits into no buffer");
}

/* Of an earlier connection: dropped and counted, and the endpoint lives. */
static void late_packets_are_dropped(void **state)
{
    uint64_t before = status_worker_count(rdma_site.left, "stale_completions");
    const struct frame frame = {.type = 200};
    struct verbs_packet packet;

    (void)state;
    link_open();
    ready_say();
    packet = rawverbs_packet(&raw, sizeof(frame));
    raw.sequence--; /* it is none of this connection */
    packet.generation++;
    assert_int_equal(rawverbs_send(&raw, &packet, sizeof(packet), &frame, sizeof(frame)),
                     IBV_WC_SUCCESS);
    status_worker_wait(rdma_site.left, "stale_completions", before + 1);
    ready_say();
    assert_int_equal(rdma_objects(worker).qps, 4);
    rawverbs_close(&raw);
    for (struct wait wait = wait_begin("its end", WAIT_MS); rdma_objects(worker).qps != 2;)
        wait_step(&wait);
    bystanders_work();
}

/* ---- keys ---- */

/* Keys that were never given: the device refuses, and no byte changes. */
static void guessed_keys_reach_nothing(void **state)
{
    (void)state;
    memset(ends.local.bytes, 0x11, 4096);
    for (uint32_t rkey = 1; rkey < 4096; rkey = rkey * 3 + 7) {
        link_open();
        ready_say();
        assert_int_not_equal(rawverbs_write(&raw, (uintptr_t)ends.local.bytes, rkey),
                             IBV_WC_SUCCESS);
        rawverbs_close(&raw);
        party_verify_byte(ends.local.bytes, 4096, 0x11, "memory that was not exported");
    }
    for (struct wait wait = wait_begin("their end", WAIT_MS); rdma_objects(worker).qps != 2;)
        wait_step(&wait);
    bystanders_work();
}

/* ---- offers ---- */

static void offer_nothing(struct handshake_verbs *verbs)
{
    verbs->offered = false;
}

static void offer_no_gid(struct handshake_verbs *verbs)
{
    verbs->gid_count = 0;
}

static void offer_zero_gid(struct handshake_verbs *verbs)
{
    memset(verbs->gid, 0, sizeof(verbs->gid));
}

static void offer_gid_type(struct handshake_verbs *verbs)
{
    verbs->gid_type[0] = 0xff;
}

static void offer_mtu_0(struct handshake_verbs *verbs)
{
    verbs->mtu = 0;
}

static void offer_mtu_odd(struct handshake_verbs *verbs)
{
    verbs->mtu = 1500;
}

static void offer_mtu_huge(struct handshake_verbs *verbs)
{
    verbs->mtu = UINT32_MAX;
}

static void offer_numbers(struct handshake_verbs *verbs)
{
    verbs->notify_qp = verbs->data_qp[0] = UINT32_MAX;
}

/* Of 24 bits, as they must be, and nobody's. */
static void offer_others(struct handshake_verbs *verbs)
{
    verbs->notify_qp = verbs->data_qp[0] = 0xfffff0;
    verbs->window = UINT16_MAX;
    verbs->reads = 0;
}

static void offer_no_data(struct handshake_verbs *verbs)
{
    verbs->data_qps = 0;
}

static void offer_window(struct handshake_verbs *verbs)
{
    verbs->window = UINT32_MAX;
}

static void offer_reads(struct handshake_verbs *verbs)
{
    verbs->reads = UINT32_MAX;
}

typedef void offer_function(struct handshake_verbs *verbs);

/* Refused at the first word. */
static void nonsense_is_refused(void **state)
{
    static offer_function *const offers[] = {offer_no_gid,   offer_mtu_0,   offer_mtu_odd,
                                             offer_mtu_huge, offer_numbers, offer_no_data,
                                             offer_window,   offer_reads};

    (void)state;
    for (size_t i = 0; i < sizeof(offers) / sizeof(offers[0]); i++) {
        rawverbs_open(&raw, rdma_site.left);
        offers[i](&raw.peer.verbs);
        rawpeer_hello_refused(&raw.peer, victim());
        rawverbs_close(&raw);
    }
    assert_int_equal(status_worker_ready(rdma_site.left, 0), worker);
    bystanders_work();
}

/* Well-formed, and leads nowhere: the worker tries or refuses, and is done with it in time. */
static void offers_that_lead_nowhere(void **state)
{
    static offer_function *const offers[] = {offer_nothing, offer_zero_gid, offer_gid_type,
                                             offer_others};
    struct wait wait;

    (void)state;
    for (size_t i = 0; i < sizeof(offers) / sizeof(offers[0]); i++) {
        rawverbs_open(&raw, rdma_site.left);
        offers[i](&raw.peer.verbs);
        (void)rawpeer_ask(&raw.peer, victim());
        bystanders_work();
        (void)rawpeer_expect_hangup(&raw.peer, WAIT_MS);
        rawverbs_close(&raw);
    }
    for (wait = wait_begin("their end", WAIT_MS); rdma_objects(worker).qps != 2;)
        wait_step(&wait);
    assert_int_equal(status_worker_ready(rdma_site.left, 0), worker);
    bystanders_work();
}

/* Whoever says nothing after the handshake is not waited for. */
static void silence_ends_too(void **state)
{
    (void)state;
    link_open();
    link_expect_end("a peer that never speaks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spoilt_packets_end_the_endpoint),
        cmocka_unit_test(short_and_long_ones_too),
        cmocka_unit_test(late_packets_are_dropped),
        cmocka_unit_test(guessed_keys_reach_nothing),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(offers_that_lead_nowhere),
        cmocka_unit_test(silence_ends_too),
    };

    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
