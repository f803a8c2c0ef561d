/* A peer that breaks the protocol loses its link, and nobody else notices. */
#include "tests/harness/test.h"

#include <string.h>

#include "shm/err.h"
#include "tests/harness/worker/stage.h"

#define UNKNOWN (JOB_HANDLE(0) * 9)

static struct stage stage;
static struct peer liar;

static int setup(void **state)
{
    (void)state;
    stage_begin(&stage);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stage_end(&stage);
    return 0;
}

/* A READ or WRITE of 100 bytes is on its way to the liar: its handle goes into the frame.  Or he
 * has opened our segment. */
enum in_flight { NOTHING, READING, WRITING, OPENED };

struct lie {
    const char *what;
    enum in_flight in_flight;
    struct frame frame;
};

static const struct lie lies[] = {
    {"no type", NOTHING, {.type = FRAME_NONE}},
    {"a type that is not there", NOTHING, {.type = FRAME_TYPE_COUNT}},
    {"a type of another fabric", NOTHING, {.type = FRAME_EXPORT}},
    {"a length that is none", NOTHING, {.type = FRAME_NOTIFY, .length = UINT32_MAX}},
    {"a payload where none belongs", NOTHING, {.type = FRAME_BYE, .length = 1}},
    {"a status that is none", NOTHING, {.type = FRAME_RESULT, .status = -999}},
    {"a NOTIFY for a segment that was not opened",
     NOTHING,
     {.type = FRAME_NOTIFY, .open = UNKNOWN}},
    {"a READ of one", NOTHING, {.type = FRAME_READ, .open = UNKNOWN, .value = 8}},
    {"a WRITE to one",
     NOTHING,
     {.type = FRAME_WRITE, .open = UNKNOWN, .request = PEER_HANDLE(0), .length = 8}},
    {"a WRITE without a handle", NOTHING, {.type = FRAME_WRITE, .open = UNKNOWN, .length = 8}},
    {"a CLOSE of one", NOTHING, {.type = FRAME_CLOSE, .open = UNKNOWN}},
    {"a READ of nothing", OPENED, {.type = FRAME_READ, .region = JOB_HANDLE(0), .value = 0}},
    {"an OPENED that nobody asked for", NOTHING, {.type = FRAME_OPENED, .request = UNKNOWN}},
    {"CREDIT for nobody", NOTHING, {.type = FRAME_CREDIT, .request = UNKNOWN}},
    {"GONE for nobody", NOTHING, {.type = FRAME_GONE, .request = UNKNOWN}},
    {"RESULT for nobody", NOTHING, {.type = FRAME_RESULT, .request = UNKNOWN}},
    {"DATA for nobody", NOTHING, {.type = FRAME_DATA, .request = UNKNOWN, .length = 8}},
    {"DATA for a WRITE", WRITING, {.type = FRAME_DATA, .length = 8}},
    {"DATA beyond the end", READING, {.type = FRAME_DATA, .length = 101}},
    {"DATA for another place", READING, {.type = FRAME_DATA, .offset = 1, .length = 8}},
    {"a last slice before the end",
     READING,
     {.type = FRAME_DATA, .flags = FRAME_FLAG_LAST, .length = 8}},
    {"a READ that is well without DATA", READING, {.type = FRAME_RESULT, .value = 100}},
    {"a WRITE of fewer bytes", WRITING, {.type = FRAME_RESULT, .value = 99}},
    {"a WRITE of more bytes",
     WRITING,
     {.type = FRAME_RESULT, .status = TS_ERR_CANCELLED, .value = 101}},
};

static uint32_t transfer_begin(enum in_flight in_flight, uint64_t *ticket)
{
    const struct sqe sqe = {.op = in_flight == READING ? SQE_READ : SQE_WRITE,
                            .length = 100,
                            .local_region = JOB_HANDLE(0),
                            .remote_region = 5,
                            .remote = JOB_HANDLE(1)};
    struct frame opened = {.type = FRAME_OPENED, .open = 1};
    const struct remote *remote;

    remote = job_open(&stage.job, 1, liar.endpoint, "lies", 200);
    opened.request = peer_expect(&liar, FRAME_OPEN)->request;
    peer_send(&liar, &opened, NULL);
    assert_int_equal(remote->state, REMOTE_OPEN);
    *ticket = job_submit(&stage.job.main, &sqe, NULL);
    return peer_expect(&liar, in_flight == READING ? FRAME_READ : FRAME_WRITE)->request;
}

static uint32_t liar_opens(void)
{
    const struct frame open = {.type = FRAME_OPEN, .length = sizeof(struct frame_open)};
    const struct frame_open ask = {
        .segment = STAGE_SEGMENT, .sender = "127.0.0.1:1/liar", .uid = JOB_UID};

    peer_send(&liar, &open, &ask);
    return peer_expect(&liar, FRAME_OPENED)->open;
}

static void lie_tell(const struct lie *lie)
{
    static const uint8_t payload[PEER_PAYLOAD] = {0};
    struct frame frame = lie->frame;
    uint64_t before = host_stat(&stage.host.worker.stats->peer_protocol), ticket = 0;

    peer_connect(&liar, &stage.host);
    if (lie->in_flight == OPENED)
        frame.open = liar_opens();
    else if (lie->in_flight != NOTHING)
        frame.request = transfer_begin(lie->in_flight, &ticket);
    if (frame.length > 0 && frame.length < sizeof(payload))
        peer_send(&liar, &frame, payload);
    else
        peer_send(&liar, &frame, NULL);
    host_turns(2);
    if (host_stat(&stage.host.worker.stats->peer_protocol) != before + 1)
        fail_msg("%s was believed", lie->what);
    if (lie->in_flight == READING || lie->in_flight == WRITING) {
        assert_int_equal(job_completion(&stage.job.main, ticket).status, TS_ERR_UNCERTAIN);
        assert_int_equal(remote_close(stage.job.session, JOB_HANDLE(1)), TS_OK);
    }
    peer_leave(&liar);
}

static void test_lies(void **state)
{
    const struct stage_sender honest = stage_sender(&stage, 1, JOB_UID);
    const struct frame read = {
        .type = FRAME_READ, .open = honest.open, .region = JOB_HANDLE(0), .value = 8};

    (void)state;
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        lie_tell(&lies[i]);
        peer_send(&stage.peer, &read, NULL);
        assert_int_equal(peer_expect(&stage.peer, FRAME_DATA)->length, 8);
    }
    assert_int_equal(stage.peer.endpoint->state, ENDPOINT_READY);
    assert_int_equal(stage.host.kill_count, 0);
}

/* Credit without end would let a sender's counter wrap. */
static void test_too_much_credit(void **state)
{
    const struct remote *remote = stage_open(&stage, 0, "there", UINT64_C(1) << 32);
    struct frame credit = {
        .type = FRAME_CREDIT, .request = remote->wire, .value = UINT64_C(1) << 32};

    (void)state;
    peer_send(&stage.peer, &credit, NULL);
    assert_int_equal(host_stat(&stage.host.worker.stats->peer_protocol), 0);
    credit.value = 1;
    peer_send(&stage.peer, &credit, NULL); /* now there is more than any sender can use */
    host_until(host_stat(&stage.host.worker.stats->peer_protocol) == 1);
}

/* Half a frame, then silence for ever: nothing is lost, and nothing goes on. */
static void test_half_a_frame(void **state)
{
    const struct stage_sender sender = stage_sender(&stage, 1, JOB_UID);
    const struct frame write = {.type = FRAME_WRITE,
                                .flags = FRAME_FLAG_LAST,
                                .open = sender.open,
                                .request = PEER_HANDLE(0),
                                .region = JOB_HANDLE(0),
                                .length = 100};

    (void)state;
    peer_send(&stage.peer, &write, NULL);
    assert_true(peer_is_quiet(&stage.peer));
    assert_int_equal(job_region_of(&stage.job, 0)->references, 1);
    assert_int_equal(region_delete(stage.job.session, JOB_HANDLE(0), 42), TS_OK);
    host_turns(1);
    assert_int_equal(host_answer(&stage.host, 42)->status, TS_OK); /* it does not wait for him */
    peer_leave(&stage.peer);
    host_until(stage.host.worker.endpoint_count == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lies, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_much_credit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_half_a_frame, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
