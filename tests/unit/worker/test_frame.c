/* Which frame headers may arrive at all: type, length, status, and the name of a notification. */
#include "tests/harness/test.h"

#include "shm/err.h"
#include "worker/frame.h"

static const struct {
    enum frame_type type;
    uint32_t min, max;
} lengths[] = {
    {FRAME_OPEN, sizeof(struct frame_open), sizeof(struct frame_open)},
    {FRAME_OPENED, 0, PROTO_TEXT_MAX},
    {FRAME_CLOSE, 0, 0},
    {FRAME_GONE, 0, 0},
    {FRAME_NOTIFY, 0, FRAME_SMALL_MAX},
    {FRAME_CREDIT, 0, 0},
    {FRAME_BYE, 0, 0},
    {FRAME_WRITE, 1, FRAME_SLICE_MAX},
    {FRAME_READ, 0, 0},
    {FRAME_DATA, 1, FRAME_SLICE_MAX},
    {FRAME_RESULT, 0, 0},
    {FRAME_CANCEL, 0, 0},
    {FRAME_EXPORT, 0, 0},
    {FRAME_EXPORTED, 0, sizeof(struct frame_keys) + FRAME_KEYS_MAX * sizeof(uint32_t)},
    {FRAME_REVOKE, 0, 0},
    {FRAME_REVOKED, 0, 0},
    {FRAME_READY, 0, 0},
    {FRAME_BROKEN, 0, 0},
    {FRAME_RENEW, 0, 0},
    {FRAME_RENEWED, 0, 0},
};

static int check(enum frame_type type, uint32_t length)
{
    const struct frame frame = {.type = (uint8_t)type, .length = length};

    return frame_check(&frame);
}

static void test_length_by_type(void **state)
{
    (void)state;
    assert_int_equal(sizeof(lengths) / sizeof(lengths[0]), FRAME_TYPE_COUNT - 1);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        enum frame_type type = lengths[i].type;

        assert_int_equal(check(type, lengths[i].min), TS_OK);
        assert_int_equal(check(type, lengths[i].max), TS_OK);
        assert_int_equal(check(type, lengths[i].max + 1), TS_ERR_PROTOCOL);
        assert_int_equal(check(type, UINT32_MAX), TS_ERR_PROTOCOL);
        if (lengths[i].min > 0)
            assert_int_equal(check(type, lengths[i].min - 1), TS_ERR_PROTOCOL);
    }
}

static void test_type(void **state)
{
    (void)state;
    assert_int_equal(check(FRAME_NONE, 0), TS_ERR_PROTOCOL);
    assert_int_equal(check(FRAME_TYPE_COUNT, 0), TS_ERR_PROTOCOL);
    assert_int_equal(check((enum frame_type)UINT8_MAX, 0), TS_ERR_PROTOCOL);
}

/* A status that is no code of ours would reach a job as one. */
static void test_status(void **state)
{
    struct frame frame = {.type = FRAME_RESULT};

    (void)state;
    for (int status = INT16_MIN; status <= INT16_MAX; status++) {
        frame.status = (int16_t)status;
        assert_int_equal(frame_check(&frame),
                         status >= TS_ERR_LAST && status <= TS_AGAIN ? TS_OK : TS_ERR_PROTOCOL);
    }
}

static void test_name_within_the_payload(void **state)
{
    struct frame frame = {.type = FRAME_NOTIFY, .length = 10, .region = 10};

    (void)state;
    assert_int_equal(frame_check(&frame), TS_OK);
    frame.region = 11;
    assert_int_equal(frame_check(&frame), TS_ERR_PROTOCOL);
    frame.type = FRAME_WRITE; /* there it is a handle */
    assert_int_equal(frame_check(&frame), TS_OK);
}

static void test_only_slices_go_to_memory(void **state)
{
    (void)state;
    for (int type = 1; type < FRAME_TYPE_COUNT; type++) {
        const struct frame frame = {.type = (uint8_t)type};

        assert_int_equal(frame_is_bulk(&frame), type == FRAME_WRITE || type == FRAME_DATA);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_length_by_type),
        cmocka_unit_test(test_type),
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_name_within_the_payload),
        cmocka_unit_test(test_only_slices_go_to_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
