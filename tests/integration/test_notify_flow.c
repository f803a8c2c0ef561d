/* The flow of notifications: order, both directions at once, a receiver that does not drain, and a
 * sender that does not poll. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/party.h"
#include "tests/harness/site.h"
#include "tests/harness/wait.h"

#define READ_WRITE (TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE)
#define KIB        UINT64_C(1024)
#define MIB        (KIB * KIB)

/* The message of every notification here; padding follows it in long ones. */
struct stamp {
    uint32_t sender;
    uint32_t number;
    uint32_t length; /* of the bound WRITE, 0 without one */
    uint32_t slot;
};

static struct tesup_request stamp_request(tesup_remote_t remote, const struct stamp *stamp)
{
    return (struct tesup_request){.op = TESUP_OP_NOTIFY,
                                  .cookie = stamp->number,
                                  .remote = remote,
                                  .msg = stamp,
                                  .msg_len = sizeof(*stamp)};
}

/* Takes the next notification, if there is one, and copies its stamp. */
static bool stamp_take(struct tesup_channel *channel, struct stamp *stamp)
{
    struct tesup_notification note;
    int code = tesup_notify_peek(channel, &note);

    if (code == TESUP_AGAIN)
        return false;
    party_check(code, "notification");
    party_check(note.status, "bound transfer");
    assert_true(note.msg_len >= sizeof(*stamp));
    memcpy(stamp, note.msg, sizeof(*stamp));
    party_check(tesup_notify_release(channel), "release");
    return true;
}

/* ---- order ---- */

#define ORDER_COUNT    1200u
#define ORDER_SENDERS  2u /* channels of one session */
#define ORDER_SLOTS    8u
#define ORDER_SLOT     (512 * KIB)
#define ORDER_BIG_EACH 150u /* every so many one of 8 MiB, into a slot of its own */
#define ORDER_BIG      (8 * MIB)

struct order {
    struct party left, right;
    struct tesup_channel *channel[ORDER_SENDERS];
    tesup_remote_t remote;
    struct party_region local, target;
    uint32_t sent[ORDER_SENDERS], seen[ORDER_SENDERS], done[ORDER_SENDERS];
};

static uint64_t order_offset(uint32_t sender, uint32_t slot)
{
    return sender * (ORDER_SLOTS * ORDER_SLOT + ORDER_BIG) + slot * ORDER_SLOT;
}

static void order_begin(struct order *order, const struct site *site)
{
    uint64_t size = order_offset(ORDER_SENDERS, 0);

    memset(order, 0, sizeof(*order));
    party_attach(&order->left, site->left, NULL);
    party_attach(&order->right, site->right, NULL);
    party_region_create(&order->left, PARTY_MEMORY_ALLOC, size, TESUP_ACCESS_LOCAL, &order->local);
    party_region_create(&order->right, PARTY_MEMORY_ALLOC, size, READ_WRITE, &order->target);
    order->remote = party_open(&order->left, tesup_segment_name(order->right.session));
    order->channel[0] = order->left.channel;
    party_check(tesup_channel_open(order->left.session, &order->channel[1]), "channel");
}

/* By turns a note of its own, a small WRITE, a READ, a WRITE of up to 512 KiB; seldom 8 MiB. */
static void order_send(struct order *order, uint32_t sender)
{
    uint32_t number = order->sent[sender];
    bool big = number % ORDER_BIG_EACH == ORDER_BIG_EACH - 1;
    struct stamp stamp = {
        .sender = sender, .number = number, .slot = big ? ORDER_SLOTS : number % ORDER_SLOTS};
    struct tesup_request request = stamp_request(order->remote, &stamp);
    uint64_t offset = order_offset(sender, stamp.slot);

    request.local_region = order->local.handle;
    request.remote_region = order->target.handle;
    request.local_offset = request.remote_offset = offset;
    request.length = big               ? ORDER_BIG
                     : number % 4 == 1 ? 1 + number % 97
                                       : 1 + number * 431 % ORDER_SLOT;
    if (big || number % 4 != 0)
        request.op = number % 4 == 2 && !big ? TESUP_OP_READ : TESUP_OP_WRITE;
    if (request.op == TESUP_OP_WRITE) {
        stamp.length = (uint32_t)request.length;
        party_fill(order->local.bytes + offset, request.length, number);
    }
    party_submit(order->channel[sender], &request);
    order->sent[sender]++;
}

static void order_hear(struct order *order)
{
    struct stamp stamp;

    while (stamp_take(order->right.channel, &stamp)) {
        assert_true(stamp.sender < ORDER_SENDERS);
        if (stamp.number != order->seen[stamp.sender])
            fail_msg("channel %u: number %u came instead of %u", stamp.sender, stamp.number,
                     order->seen[stamp.sender]);
        party_verify(order->target.bytes + order_offset(stamp.sender, stamp.slot), stamp.length,
                     stamp.number, "the block of a notification");
        order->seen[stamp.sender]++;
    }
}

static void order_reap(struct order *order, uint32_t sender)
{
    struct tesup_completion done[32];
    int count = tesup_poll(order->channel[sender], done, 32);

    assert_true(count >= 0);
    for (int i = 0; i < count; i++)
        party_check(done[i].status, "request");
    order->done[sender] += (uint32_t)count;
}

static void order_run(const struct site *site)
{
    struct order order;
    struct wait wait = wait_begin("the next notification", WAIT_MS);

    order_begin(&order, site);
    while (order.seen[0] < ORDER_COUNT || order.seen[1] < ORDER_COUNT ||
           order.done[0] < ORDER_COUNT || order.done[1] < ORDER_COUNT) {
        bool moved = false;
        for (uint32_t i = 0; i < ORDER_SENDERS; i++) {
            /* A slot may be filled again when its block was seen and its request is over. */
            while (order.sent[i] < ORDER_COUNT && order.sent[i] - order.seen[i] < ORDER_SLOTS &&
                   order.sent[i] - order.done[i] < ORDER_SLOTS) {
                order_send(&order, i);
                moved = true;
            }
            order_reap(&order, i);
        }
        order_hear(&order);
        if (moved) /* how long all of it may take depends on the machine */
            wait = wait_begin(wait.what, WAIT_MS);
        else
            wait_step(&wait);
    }
    party_expect_silence(order.right.channel, 20);
    party_detach(&order.left);
    party_detach(&order.right);
}

static void order_per_channel_over_tcp(void **state)
{
    (void)state;
    order_run(&sites[SITE_TCP]);
}

static void order_per_channel_over_local(void **state)
{
    (void)state;
    order_run(&sites[SITE_LOCAL]);
}

static void order_per_channel_within_worker(void **state)
{
    (void)state;
    order_run(&sites[SITE_WORKER]);
}

/* ---- many at once ---- */

/* All of them, before anybody looks at a single one. */
static void burst_send(struct party *from, tesup_remote_t remote, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct stamp stamp = {.number = i};
        struct tesup_request request = stamp_request(remote, &stamp);
        uint32_t accepted;

        party_check(tesup_submit(from->channel, &request, 1, NULL, &accepted), "submit");
    }
}

static void burst_expect(struct party *to, uint32_t count)
{
    struct wait wait = wait_begin("all notifications", WAIT_MS);
    struct stamp stamp;

    for (uint32_t i = 0; i < count; i++) {
        while (!stamp_take(to->channel, &stamp))
            wait_step(&wait);
        assert_int_equal(stamp.number, i);
    }
}

static void burst_complete(struct party *from, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct tesup_completion done = party_complete(from->channel);
        party_check(done.status, "notification");
        assert_int_equal(done.cookie, i);
    }
}

static void to_oneself_128(void **state)
{
    struct party party;

    (void)state;
    for (int i = 0; i < 2; i++) {
        party_attach(&party, sites[i].left, NULL);
        tesup_remote_t self = party_open(&party, tesup_segment_name(party.session));
        burst_send(&party, self, 128);
        burst_expect(&party, 128);
        burst_complete(&party, 128);
        party_detach(&party);
    }
}

static void both_directions_256(void **state)
{
    struct party left, right;

    (void)state;
    for (int i = 0; i < SITE_COUNT; i++) {
        party_attach(&left, sites[i].left, NULL);
        party_attach(&right, sites[i].right, NULL);
        tesup_remote_t to_right = party_open(&left, tesup_segment_name(right.session));
        tesup_remote_t to_left = party_open(&right, tesup_segment_name(left.session));
        burst_send(&left, to_right, 256);
        burst_send(&right, to_left, 256);
        burst_expect(&left, 256);
        burst_expect(&right, 256);
        burst_complete(&left, 256);
        burst_complete(&right, 256);
        party_detach(&left);
        party_detach(&right);
    }
}

/* The library's side of the sender sleeps: the worker sends all the same. */
static void sender_that_does_not_poll(void **state)
{
    struct party left, right;
    struct party_region local, target;
    struct stamp stamp = {0};

    (void)state;
    for (int i = 0; i < SITE_COUNT; i++) {
        party_attach(&left, sites[i].left, NULL);
        party_attach(&right, sites[i].right, NULL);
        party_region_create(&left, PARTY_MEMORY_ALLOC, MIB, TESUP_ACCESS_LOCAL, &local);
        party_region_create(&right, PARTY_MEMORY_ALLOC, MIB, READ_WRITE, &target);
        struct tesup_request request =
            stamp_request(party_open(&left, tesup_segment_name(right.session)), &stamp);
        request.op = TESUP_OP_WRITE;
        request.local_region = local.handle;
        request.remote_region = target.handle;
        request.length = MIB;
        uint64_t begin = wait_now_ms();
        for (stamp.number = 0; stamp.number < 100; stamp.number++)
            party_submit(left.channel, &request);
        burst_expect(&right, 100);
        if (wait_now_ms() - begin > 5000)
            fail_msg("100 MiB took %llu ms without polling",
                     (unsigned long long)(wait_now_ms() - begin));
        for (uint32_t j = 0; j < 100; j++)
            party_check(party_complete(left.channel).status, "WRITE");
        party_detach(&left);
        party_detach(&right);
    }
}

/* ---- a receiver that does not drain ---- */

#define STALL_BYTES (16u * 1024u)
#define STALL_TRIES 2000u

struct stall {
    struct party sender, deaf, lively;
    tesup_remote_t to_deaf, to_lively;
    uint32_t submitted;            /* to the deaf one */
    uint32_t open;                 /* not completed yet */
    uint8_t accepted[STALL_TRIES]; /* by number: it was not refused */
    bool felt;                     /* TESUP_AGAIN from submit or in a completion */
};

static void stall_reap(struct stall *stall)
{
    struct tesup_completion done[32];
    int count = tesup_poll(stall->sender.channel, done, 32);

    assert_true(count >= 0);
    for (int i = 0; i < count; i++) {
        stall->open--;
        if (done[i].status == TESUP_AGAIN)
            stall->felt = true;
        else
            party_check(done[i].status, "notification to the one that does not drain");
        stall->accepted[done[i].cookie] = done[i].status == TESUP_OK;
    }
}

/* Pushes until the sender feels it. */
static void stall_push(struct stall *stall)
{
    static uint8_t message[STALL_BYTES];
    struct wait wait = wait_begin("TESUP_AGAIN for a receiver that does not drain", WAIT_MS);

    while (!stall->felt) {
        struct stamp stamp = {.number = stall->submitted};
        struct tesup_request request = stamp_request(stall->to_deaf, &stamp);
        uint32_t accepted;

        assert_true(stall->submitted < STALL_TRIES);
        memcpy(message, &stamp, sizeof(stamp));
        request.msg = message;
        request.msg_len = STALL_BYTES;
        int code = tesup_submit(stall->sender.channel, &request, 1, NULL, &accepted);
        stall_reap(stall);
        if (code == TESUP_AGAIN) {
            stall->felt = true;
            break;
        }
        party_check(code, "submit");
        stall->submitted++;
        stall->open++;
        if (stall->open > 8)
            wait_step(&wait);
    }
}

/* On the same channel, and from another session of the same worker. */
static void stall_expect_others_flow(struct stall *stall, const struct site *site)
{
    struct party other;

    party_attach(&other, site->left, NULL);
    tesup_remote_t to_lively = party_open(&other, tesup_segment_name(stall->lively.session));
    for (uint32_t i = 0; i < 200; i++) {
        struct stamp stamp = {.number = i};
        struct tesup_request request = stamp_request(to_lively, &stamp);
        party_submit(other.channel, &request);
        struct tesup_notification note = party_next(stall->lively.channel);
        assert_memory_equal(note.msg, &stamp, sizeof(stamp));
        party_check(tesup_notify_release(stall->lively.channel), "release");
        party_check(party_complete(other.channel).status, "notification");
    }
    party_detach(&other);
    for (uint32_t i = 0; i < 50; i++) {
        struct stamp stamp = {.number = i};
        struct tesup_request request = stamp_request(stall->to_lively, &stamp);
        uint32_t accepted;

        request.cookie = STALL_TRIES - 1;
        party_check(tesup_submit(stall->sender.channel, &request, 1, NULL, &accepted),
                    "submit to another segment");
        stall->open++;
        struct tesup_notification note = party_next(stall->lively.channel);
        assert_memory_equal(note.msg, &stamp, sizeof(stamp));
        party_check(tesup_notify_release(stall->lively.channel), "release");
        stall_reap(stall);
    }
}

/* Everything that was accepted, once and in order. */
static void stall_drain(struct stall *stall)
{
    struct wait wait = wait_begin("what the receiver let wait", WAIT_MS);
    uint8_t *seen = calloc(1, STALL_TRIES);
    uint32_t next = 0, quiet = 0;
    struct stamp stamp;

    while (stall->open > 0 || quiet < 50) {
        stall_reap(stall);
        if (!stamp_take(stall->deaf.channel, &stamp)) {
            quiet++;
            wait_step(&wait);
            continue;
        }
        quiet = 0;
        if (stamp.number < next)
            fail_msg("number %u came after %u", stamp.number, next - 1);
        seen[stamp.number] = 1;
        next = stamp.number + 1;
    }
    for (uint32_t i = 0; i < stall->submitted; i++)
        if (seen[i] != stall->accepted[i])
            fail_msg("number %u of %u: accepted %d, arrived %d", i, stall->submitted,
                     stall->accepted[i], seen[i]);
    free(seen);
}

static void stall_run(const struct site *site)
{
    struct stall stall = {0};

    party_attach(&stall.sender, site->left, NULL);
    party_attach(&stall.deaf, site->right, NULL);
    party_attach(&stall.lively, site->right, NULL);
    stall.to_deaf = party_open(&stall.sender, tesup_segment_name(stall.deaf.session));
    stall.to_lively = party_open(&stall.sender, tesup_segment_name(stall.lively.session));
    stall_push(&stall);
    assert_true(stall.submitted >= 4); /* a mailbox has room for some */
    stall_expect_others_flow(&stall, site);
    stall_drain(&stall);
    /* And then it goes on as if nothing had been. */
    struct stamp stamp = {.number = 1};
    struct tesup_request request = stamp_request(stall.to_deaf, &stamp);
    party_check(party_do(stall.sender.channel, &request).status, "afterwards");
    party_next(stall.deaf.channel);
    party_detach(&stall.sender);
    party_detach(&stall.deaf);
    party_detach(&stall.lively);
}

static void receiver_that_does_not_drain(void **state)
{
    (void)state;
    for (int i = 0; i < SITE_COUNT; i++)
        stall_run(&sites[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_per_channel_over_tcp),
        cmocka_unit_test(order_per_channel_over_local),
        cmocka_unit_test(order_per_channel_within_worker),
        cmocka_unit_test(to_oneself_128),
        cmocka_unit_test(both_directions_256),
        cmocka_unit_test(sender_that_does_not_poll),
        cmocka_unit_test(receiver_that_does_not_drain),
    };

    return cmocka_run_group_tests(tests, site_group_setup, site_group_teardown);
}
