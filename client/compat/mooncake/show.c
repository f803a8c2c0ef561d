/* What an engine tells about itself: load and links. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/compat/mooncake/engine.h"

#define LOAD_NAME  "tesup"
#define LOAD_DECAY 0.5 /* weight of what was before, per look */

/* One "NIC": the worker. Workers' NICs are in `tesup status`. */
static void load_fill(struct engine *engine, nic_load_stat_t *stat)
{
    uint64_t now = clock_now();
    double seconds = (double)(now - engine->load_at) / (double)CLOCK_NS_PER_S;

    if (seconds > 0) {
        double bps = (double)engine->done_bytes * 8 / seconds;

        engine->load_bps = LOAD_DECAY * engine->load_bps + (1 - LOAD_DECAY) * bps;
        engine->done_bytes = 0;
        engine->load_at = now;
    }
    memset(stat, 0, sizeof(*stat));
    snprintf(stat->device_name, sizeof(stat->device_name), LOAD_NAME);
    stat->inflight_bytes = engine->in_flight_bytes;
    stat->ewma_bandwidth_bps = engine->load_bps;
}

int getNicLoadStats(transfer_engine_t handle, nic_load_stat_t *stats, size_t *count)
{
    struct engine *engine;
    int code = slot_enter(handle, __func__, &engine);

    if (code != 0)
        return code;
    if (count == NULL || (stats == NULL && *count > 0))
        code =
            refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, __func__, "there is no place for the answer");
    else if (*count > 0)
        load_fill(engine, &stats[0]);
    if (code == 0)
        *count = 1;
    slot_leave(engine);
    return code;
}

struct sheet { /* text that is cut off where the buffer ends */
    char *text;
    size_t size, length;
};

static void sheet_add(struct sheet *sheet, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void sheet_add(struct sheet *sheet, const char *format, ...)
{
    va_list arguments;
    int length;

    if (sheet->length + 1 >= sheet->size)
        return;
    va_start(arguments, format);
    length = vsnprintf(sheet->text + sheet->length, sheet->size - sheet->length, format, arguments);
    va_end(arguments);
    if (length > 0)
        sheet->length += (size_t)length;
}

/* Names are of IP:PORT, HOST:PORT or HOST:PORT/SEGMENT, so nothing has to be escaped once they are
 * open. */
static void links_write(const struct engine *engine, struct sheet *sheet, bool json)
{
    const char *comma = "";

    sheet_add(sheet,
              json ? "{\"engine\": \"%s\", \"segment\": \"%s\", \"links\": [" : "engine %s is %s\n",
              engine->label, tesup_segment_name(engine->session));
    for (size_t i = 0; i < engine->peer_count; i++) {
        const struct peer *peer = engine->peers[i];

        if (!peer->open)
            continue;
        if (json)
            sheet_add(sheet,
                      "%s{\"id\": %zu, \"name\": \"%s\", \"segment\": \"%s\", \"ranges\": %zu}",
                      comma, i, peer->name, peer->segment, peer->range_count);
        else
            sheet_add(sheet, "%zu %s is %s, %zu ranges\n", i, peer->name, peer->segment,
                      peer->range_count);
        comma = ", ";
    }
    if (json)
        sheet_add(sheet, "]}");
}

int showLinks(transfer_engine_t handle, char *buf_out, size_t buf_len, int json)
{
    struct engine *engine;
    struct sheet sheet = {.text = buf_out, .size = buf_len};
    int code = slot_enter(handle, __func__, &engine);

    if (code != 0)
        return code_negative(code);
    if (buf_out == NULL || buf_len == 0) {
        code = refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, __func__, "there is no buffer");
    } else {
        buf_out[0] = '\0';
        links_write(engine, &sheet, json != 0);
    }
    slot_leave(engine);
    return code_negative(code);
}
