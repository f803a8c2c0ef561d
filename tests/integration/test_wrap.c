/* All ring counters start just below their wrap-around, and thousands of requests cross it. */
#include "tests/harness/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/party.h"
#include "tests/harness/wait.h"

#define COUNT   3000u
#define SLOTS   16u
#define BLOCK   4096u
#define MESSAGE 700u /* a few hundred of them fill a byte ring */

struct wrap {
    struct daemon left_daemon, right_daemon;
    struct party left, right;
    struct party_region local, target;
    tesup_remote_t remote;
    uint32_t sent, done, seen;
};

static void wrap_send(struct wrap *wrap)
{
    uint8_t message[MESSAGE];
    uint32_t slot = wrap->sent % SLOTS;
    struct tesup_request request = {.op = wrap->sent % 3 ? TESUP_OP_WRITE : TESUP_OP_NOTIFY,
                                    .cookie = wrap->sent,
                                    .remote = wrap->remote,
                                    .local_region = wrap->local.handle,
                                    .local_offset = slot * BLOCK,
                                    .remote_region = wrap->target.handle,
                                    .remote_offset = slot * BLOCK,
                                    .length = BLOCK,
                                    .name = &wrap->sent,
                                    .name_len = sizeof(wrap->sent),
                                    .msg = message,
                                    .msg_len = 1 + wrap->sent % MESSAGE};

    party_fill(message, sizeof(message), wrap->sent);
    party_fill(wrap->local.bytes + slot * BLOCK, BLOCK, wrap->sent);
    party_submit(wrap->left.channel, &request);
    wrap->sent++;
}

static void wrap_hear(struct wrap *wrap)
{
    struct tesup_notification note;

    while (tesup_notify_peek(wrap->right.channel, &note) == TESUP_OK) {
        assert_int_equal(note.name_len, sizeof(wrap->seen));
        assert_memory_equal(note.name, &wrap->seen, sizeof(wrap->seen));
        assert_int_equal(note.msg_len, 1 + wrap->seen % MESSAGE);
        party_verify(note.msg, note.msg_len, wrap->seen, "message");
        if (wrap->seen % 3)
            party_verify(wrap->target.bytes + wrap->seen % SLOTS * BLOCK, BLOCK, wrap->seen,
                         "block");
        party_check(tesup_notify_release(wrap->right.channel), "release");
        wrap->seen++;
    }
}

static void wrap_reap(struct wrap *wrap)
{
    struct tesup_completion done[SLOTS];
    int count = tesup_poll(wrap->left.channel, done, SLOTS);

    assert_true(count >= 0);
    for (int i = 0; i < count; i++) {
        party_check(done[i].status, "request");
        wrap->done++;
    }
}

static void wrap_begin(struct wrap *wrap, const char *fabric, uint64_t start)
{
    char config[128];
    char options[DAEMON_PATH + 64];

    memset(wrap, 0, sizeof(*wrap));
    snprintf(config, sizeof(config), "[shm]\ncounter_start = %" PRIu64 "\nslots = %u\n", start,
             SLOTS);
    snprintf(options, sizeof(options), "--fabric %s %s", fabric, daemon_config(config));
    daemon_start(&wrap->left_daemon, "left", options);
    daemon_start(&wrap->right_daemon, "right", options);
    party_attach(&wrap->left, &wrap->left_daemon, NULL);
    party_attach(&wrap->right, &wrap->right_daemon, NULL);
    party_region_create(&wrap->left, PARTY_MEMORY_ALLOC, SLOTS * BLOCK, TESUP_ACCESS_LOCAL,
                        &wrap->local);
    party_region_create(&wrap->right, PARTY_MEMORY_ALLOC, SLOTS * BLOCK, TESUP_ACCESS_REMOTE_WRITE,
                        &wrap->target);
    wrap->remote = party_open(&wrap->left, tesup_segment_name(wrap->right.session));
}

static void wrap_run(const char *fabric, uint64_t start)
{
    struct wrap wrap;
    struct wait wait;

    wrap_begin(&wrap, fabric, start);
    wait = wait_begin("the next notification across the wrap", WAIT_MS);
    while (wrap.seen < COUNT || wrap.done < COUNT) {
        bool moved = false;
        while (wrap.sent < COUNT && wrap.sent - wrap.done < SLOTS &&
               wrap.sent - wrap.seen < SLOTS) {
            wrap_send(&wrap);
            moved = true;
        }
        wrap_hear(&wrap);
        wrap_reap(&wrap);
        if (moved)
            wait = wait_begin(wait.what, WAIT_MS);
        else
            wait_step(&wait);
    }
    party_detach(&wrap.left);
    party_detach(&wrap.right);
    daemon_stop(&wrap.left_daemon);
    daemon_stop(&wrap.right_daemon);
}

/* Slot rings cross at the 1000th request; the byte rings, which count bytes, in the middle. */
static void slot_rings_wrap(void **state)
{
    (void)state;
    wrap_run("tcp", UINT64_MAX - 1000);
    wrap_run("auto", UINT64_MAX - 1000);
}

static void byte_rings_wrap(void **state)
{
    (void)state;
    wrap_run("tcp", UINT64_MAX - 500 * UINT64_C(1024) + 1);
    wrap_run("auto", UINT64_MAX - 500 * UINT64_C(1024) + 1);
}

static void counters_at_the_last_value(void **state)
{
    (void)state;
    wrap_run("tcp", UINT64_MAX);
    wrap_run("auto", UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(slot_rings_wrap, daemon_test_teardown),
        cmocka_unit_test_teardown(byte_rings_wrap, daemon_test_teardown),
        cmocka_unit_test_teardown(counters_at_the_last_value, daemon_test_teardown),
    };

    return cmocka_run_group_tests(tests, daemon_group_setup, daemon_group_teardown);
}
