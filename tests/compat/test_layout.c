/* The layouts as a program has them that was built against another header: written down here once
 * more, by hand, and compared with ours. */
#include "tests/harness/test.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <transfer_engine_c.h>

struct place {
    const char *name;
    size_t ours, known;
};

#define SIZE(type, bytes)                    \
    {                                        \
        "sizeof " #type, sizeof(type), bytes \
    }
#define PLACE(type, name, bytes)                     \
    {                                                \
#type "." #name, offsetof(type, name), bytes \
    }
#define VALUE(name, value)           \
    {                                \
#name, (size_t)(name), value \
    }

static const struct place places[] = {
    SIZE(segment_handle_t, 4),
    SIZE(segment_id_t, 4),
    SIZE(batch_id_t, 8),
    SIZE(transfer_engine_t, 8),
    SIZE(transport_t, 8),
    SIZE(struct transfer_request, 40),
    PLACE(struct transfer_request, opcode, 0),
    PLACE(struct transfer_request, source, 8),
    PLACE(struct transfer_request, target_id, 16),
    PLACE(struct transfer_request, target_offset, 24),
    PLACE(struct transfer_request, length, 32),
    SIZE(struct transfer_status, 16),
    PLACE(struct transfer_status, transferred_bytes, 8),
    SIZE(notify_msg_t, 16),
    PLACE(notify_msg_t, msg, 8),
    SIZE(buffer_entry_t, 16),
    PLACE(buffer_entry_t, length, 8),
    SIZE(struct segment_desc, 48),
    PLACE(struct segment_desc, desc_, 8),
    SIZE(nic_load_stat_t, 80),
    PLACE(nic_load_stat_t, inflight_bytes, 64),
    PLACE(nic_load_stat_t, ewma_bandwidth_bps, 72),
    VALUE(INVALID_BATCH, SIZE_MAX),
    VALUE(LOCAL_SEGMENT, 0),
    VALUE(OPCODE_READ, 0),
    VALUE(OPCODE_WRITE, 1),
    VALUE(STATUS_WAITING, 0),
    VALUE(STATUS_PENDING, 1),
    VALUE(STATUS_INVALID, 2),
    VALUE(STATUS_CANCELED, 3),
    VALUE(STATUS_COMPLETED, 4),
    VALUE(STATUS_TIMEOUT, 5),
    VALUE(STATUS_FAILED, 6),
};

static void test_places(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (places[i].ours != places[i].known)
            fail_msg("%s is %zu; programs count on %zu", places[i].name, places[i].ours,
                     places[i].known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_places)};

    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
