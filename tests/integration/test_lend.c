/* A lent channel: tesup_device.cuh, run by the CPU here, does with a real worker what a kernel
 * would do; then the library goes on where it stopped. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>
#include <tesup.h>

#include "client/include/tesup_device.cuh"
#include "tests/harness/daemon.h"
#include "tests/harness/party.h"
#include "tests/harness/wait.h"

#define HALF   65536u
#define ROUNDS 3000u /* the rings wrap many times */

static struct daemon server;
static struct party party;
static struct party_region region;
static tesup_remote_t self;
static struct tesup_device device;
static uint8_t message[700];

static int set_up(void **state)
{
    (void)state;
    daemon_start(&server, "lend", "");
    party_attach(&party, &server, "lend");
    assert_true(party_region_create(&party, PARTY_MEMORY_ALLOC, 2 * HALF,
                                    TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE, &region));
    self = party_open(&party, tesup_segment_name(party.session));
    return 0;
}

static int tear_down(void **state)
{
    party_region_free(&party, &region);
    party_detach(&party);
    daemon_stop(&server);
    return daemon_test_teardown(state);
}

static void lend_to_device(void)
{
    struct tesup_lent lent;

    party_check(tesup_channel_lend(party.channel, &lent), "lend");
    assert_int_equal(lent.size % 4096, 0);
    assert_int_equal(tesup_device_open(&device, lent.base), TESUP_DEVICE_OK);
}

static struct tesup_device_request request_make(uint32_t round, char *name)
{
    struct tesup_device_request request = {
        .op = round % 3 == 2 ? TESUP_DEVICE_READ : TESUP_DEVICE_WRITE,
        .cookie = round,
        .length = 1 + round % 4000,
        .local_offset = round % 50,
        .remote_offset = HALF + round % 33,
        .local_region = region.handle,
        .remote_region = region.handle,
        .remote = self,
        .name = name,
        .name_len = (uint32_t)sprintf(name, "round-%u", round),
        .msg = message,
        .msg_len = round % 700,
    };

    return request;
}

/* Until `step` says something else than AGAIN; the worker is woken, as a host thread would. */
#define DEVICE_UNTIL(step)                                          \
    do {                                                            \
        struct wait wait = wait_begin(#step, WAIT_MS);              \
        int rc_;                                                    \
                                                                    \
        while ((rc_ = (step)) == TESUP_DEVICE_AGAIN) {              \
            party_check(tesup_channel_wake(party.channel), "wake"); \
            wait_step(&wait);                                       \
        }                                                           \
        assert_int_equal(rc_, TESUP_DEVICE_OK);                     \
    } while (0)

static void round_trip(uint32_t round)
{
    char name[32];
    struct tesup_device_request request = request_make(round, name);
    struct tesup_device_notification note = {0};
    struct tesup_device_cqe completion;

    DEVICE_UNTIL(tesup_device_post(&device, &request));
    party_check(tesup_channel_wake(party.channel), "wake");
    DEVICE_UNTIL(tesup_device_peek(&device, &note));
    assert_int_equal(note.header.name_len, request.name_len);
    assert_memory_equal(note.name, name, request.name_len);
    assert_int_equal(note.header.msg_len, request.msg_len);
    assert_memory_equal(note.msg, message, request.msg_len);
    tesup_device_release(&device, &note);
    DEVICE_UNTIL(tesup_device_poll(&device, &completion));
    assert_int_equal(completion.cookie, round);
    assert_int_equal(completion.status, TESUP_OK);
    assert_int_equal(completion.bytes, request.length);
    assert_memory_equal(region.bytes + request.local_offset, region.bytes + request.remote_offset,
                        request.length);
}

static void requests_of_a_device_are_served(void **state)
{
    (void)state;
    party_fill(region.bytes, HALF, 4);
    party_fill(message, sizeof(message), 5);
    lend_to_device();
    for (uint32_t round = 0; round < ROUNDS; round++)
        round_trip(round);
    party_check(tesup_channel_reclaim(party.channel), "reclaim");
    assert_int_equal(party_do(party.channel, &(struct tesup_request){.op = TESUP_OP_NOP}).status,
                     TESUP_OK);
}

/* Many in flight: every slot is used, AGAIN when none is left. */
static void a_device_fills_all_slots(void **state)
{
    struct tesup_device_cqe completion;
    struct tesup_device_notification note = {0};
    struct tesup_device_request request;
    uint32_t posted = 0, taken = 0;
    char name[32];

    (void)state;
    lend_to_device();
    while (taken < 2 * device.slots) {
        int rc;

        request = request_make(posted, name);
        rc = posted < 2 * device.slots ? tesup_device_post(&device, &request) : TESUP_DEVICE_AGAIN;
        if (rc == TESUP_DEVICE_OK) {
            posted++;
            continue;
        }
        assert_int_equal(rc, TESUP_DEVICE_AGAIN);
        party_check(tesup_channel_wake(party.channel), "wake");
        DEVICE_UNTIL(tesup_device_peek(&device, &note));
        tesup_device_release(&device, &note);
        DEVICE_UNTIL(tesup_device_poll(&device, &completion));
        assert_int_equal(completion.status, TESUP_OK);
        taken++;
    }
    party_check(tesup_channel_reclaim(party.channel), "reclaim");
}

static void a_lent_channel_refuses_the_library(void **state)
{
    struct tesup_completion completion;
    struct tesup_lent lent;
    struct tesup_device_cqe cqe;
    struct tesup_device_request request = {
        .op = TESUP_DEVICE_WRITE,
        .length = 8,
        .local_region = region.handle,
        .remote_region = region.handle,
        .remote = self,
    };

    (void)state;
    party_expect(tesup_channel_wake(party.channel), TESUP_ERR_INVALID);
    party_expect(tesup_channel_reclaim(party.channel), TESUP_ERR_INVALID);
    lend_to_device();
    party_expect(tesup_channel_lend(party.channel, &lent), TESUP_ERR_INVALID);
    party_expect(tesup_poll(party.channel, &completion, 1), TESUP_ERR_INVALID);
    assert_non_null(strstr(tesup_last_error(), "tesup_channel_reclaim"));
    assert_int_equal(tesup_device_post(&device, &request), TESUP_DEVICE_OK);
    party_expect(tesup_channel_reclaim(party.channel), TESUP_ERR_INVALID); /* still in flight */
    party_check(tesup_channel_wake(party.channel), "wake");
    DEVICE_UNTIL(tesup_device_poll(&device, &cqe));
    party_check(tesup_channel_reclaim(party.channel), "reclaim");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(requests_of_a_device_are_served, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_device_fills_all_slots, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lent_channel_refuses_the_library, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, daemon_group_setup, daemon_group_teardown);
}
