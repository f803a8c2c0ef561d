/* NOTIFY_ALWAYS when nobody knows the outcome: the peer's worker is killed in the middle of a
 * transfer.  The initiator gets one uncertain completion, and the target's job one notification
 * that says so, after its next worker has taken over. */
#include "tests/harness/test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/party.h"
#include "tests/harness/status.h"
#include "tests/harness/wait.h"

#define SIZE       (UINT64_C(96) << 20)
#define TRIES      50 /* until a transfer is met in its middle */
#define OLD        0x11
#define NEW        0xee
#define READ_WRITE (TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE)

struct scene {
    struct daemon left, right;
    struct party source, target;
    struct party_region local, remote;
    tesup_remote_t handle;
    uint64_t cookie;
};

static struct scene scene;

static int test_setup(void **state)
{
    const char *fabric = *state;
    char options[96];

    snprintf(options, sizeof(options), "--fabric %s --restart-max-deaths 1000", fabric);
    daemon_start(&scene.left, "left", options);
    daemon_start(&scene.right, "right", options);
    party_attach(&scene.source, &scene.left, NULL);
    party_attach(&scene.target, &scene.right, NULL);
    party_region_create(&scene.source, PARTY_MEMORY_ALLOC, SIZE, TESUP_ACCESS_LOCAL, &scene.local);
    party_region_create(&scene.target, PARTY_MEMORY_ALLOC, SIZE, READ_WRITE, &scene.remote);
    scene.handle = party_open(&scene.source, tesup_segment_name(scene.target.session));
    return 0;
}

static void scene_end(void)
{
    party_detach(&scene.source);
    party_detach(&scene.target);
    daemon_stop(&scene.left);
    daemon_stop(&scene.right);
}

static uint64_t transfer_submit(uint32_t op)
{
    uint64_t cookie = ++scene.cookie;
    const struct tesup_request request = {.op = op,
                                          .flags = TESUP_NOTIFY_ALWAYS,
                                          .cookie = cookie,
                                          .remote = scene.handle,
                                          .local_region = scene.local.handle,
                                          .remote_region = scene.remote.handle,
                                          .length = SIZE,
                                          .name = "always",
                                          .name_len = 6,
                                          .msg = &cookie,
                                          .msg_len = sizeof(cookie)};

    party_submit(scene.source.channel, &request);
    return cookie;
}

static void note_expect(uint64_t cookie, int status, uint64_t bytes)
{
    struct tesup_notification note = party_next(scene.target.channel);

    assert_true(party_name_is(&note, "always"));
    assert_int_equal(note.msg_len, sizeof(cookie));
    assert_memory_equal(note.msg, &cookie, sizeof(cookie));
    party_expect(note.status, status);
    assert_int_equal(note.bytes, bytes);
    party_check(tesup_notify_release(scene.target.channel), "release");
}

/* Where bytes arrive; filled with OLD, so that each that arrived is seen. */
static uint8_t *transfer_prepare(uint32_t op)
{
    uint8_t *to = op == TESUP_OP_READ ? scene.local.bytes : scene.remote.bytes;

    memset(op == TESUP_OP_READ ? scene.remote.bytes : scene.local.bytes, NEW, SIZE);
    memset(to, OLD, SIZE);
    return to;
}

static void outcome_expect(uint64_t cookie, int status, uint64_t bytes)
{
    struct tesup_completion done = party_complete(scene.source.channel);

    party_expect(done.status, status);
    assert_int_equal(done.cookie, cookie);
    note_expect(cookie, status, bytes);
}

/* Stops the initiating worker when the first byte is there.  True when that was in the middle: more
 * than any socket's buffer holds is still to come.  Else the transfer ends well. */
static bool transfer_stop(uint64_t cookie, const volatile uint8_t *to, pid_t worker)
{
    uint64_t until = wait_now_ms() + WAIT_MS;

    while (to[0] != NEW) /* as fast as we can: it lasts a moment only */
        if (wait_now_ms() > until)
            fail_msg("not one byte arrived");
    assert_int_equal(kill(worker, SIGSTOP), 0);
    if (to[SIZE / 2] == OLD)
        return true;
    assert_int_equal(kill(worker, SIGCONT), 0);
    outcome_expect(cookie, TESUP_OK, SIZE);
    return false;
}

/* A transfer that is in its middle, and whose initiating worker stands still. */
static uint64_t transfer_half(uint32_t op, pid_t worker)
{
    for (int i = 0; i < TRIES; i++) {
        const uint8_t *to = transfer_prepare(op);
        uint64_t cookie = transfer_submit(op);

        if (transfer_stop(cookie, to, worker))
            return cookie;
    }
    fail_msg("%d transfers were over before they could be stopped", TRIES);
    return 0;
}

static void peer_killed_try(uint32_t op)
{
    pid_t worker = status_worker_ready(&scene.left, 0);
    pid_t peer = status_worker_ready(&scene.right, 0);
    uint64_t cookie = transfer_half(op, worker);

    assert_int_equal(kill(peer, SIGKILL), 0);
    status_worker_ready(&scene.right, peer);
    assert_int_equal(kill(worker, SIGCONT), 0);
    outcome_expect(cookie, TESUP_ERR_UNCERTAIN, 0);
    /* Once each; and by the same handles everything goes on. */
    party_expect_silence(scene.target.channel, 50);
    party_expect_silence(scene.source.channel, 50);
    const uint8_t *to = transfer_prepare(op);
    outcome_expect(transfer_submit(op), TESUP_OK, SIZE);
    party_verify_byte(to, SIZE, NEW, "the next transfer");
    assert_int_equal(status_worker_ready(&scene.left, 0), worker);
}

static void test_write(void **state)
{
    (void)state;
    peer_killed_try(TESUP_OP_WRITE);
    scene_end();
}

static void test_read(void **state)
{
    (void)state;
    peer_killed_try(TESUP_OP_READ);
    scene_end();
}

/* The target's worker dies and comes back while many more wait behind: each tells its own outcome,
 * in their order. */
static void test_those_behind(void **state)
{
    uint64_t first, last = 0;
    pid_t worker = status_worker_ready(&scene.left, 0);
    pid_t peer = status_worker_ready(&scene.right, 0);

    (void)state;
    first = transfer_half(TESUP_OP_WRITE, worker);
    for (int i = 0; i < 3; i++) /* not taken by the worker before it goes on */
        last = transfer_submit(TESUP_OP_WRITE);
    assert_int_equal(kill(peer, SIGKILL), 0);
    status_worker_ready(&scene.right, peer);
    assert_int_equal(kill(worker, SIGCONT), 0);
    for (uint64_t cookie = first; cookie <= last; cookie++) {
        struct tesup_completion done = party_complete(scene.source.channel);

        if (done.status != TESUP_OK)
            party_expect(done.status, TESUP_ERR_UNCERTAIN);
        assert_int_equal(done.cookie, cookie);
        if (cookie == first)
            party_expect(done.status, TESUP_ERR_UNCERTAIN);
        note_expect(cookie, done.status, done.bytes);
    }
    scene_end();
}

#define ON(test, fabric)                                                                         \
    {                                                                                            \
#test " over " fabric, test, test_setup, daemon_test_teardown, (void *)(uintptr_t)fabric \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON(test_write, "tcp"), ON(test_write, "auto"),       ON(test_read, "tcp"),
        ON(test_read, "auto"), ON(test_those_behind, "tcp"), ON(test_those_behind, "auto"),
    };

    return cmocka_run_group_tests_name("uncertain outcomes", tests, daemon_group_setup,
                                       daemon_group_teardown);
}
