#include "tests/bench/bench.h"

#include "tests/bench/bulk.h"
#include "tests/bench/limits.h"
#include "tests/bench/loopback.h"

struct side {
    int socket[2];
    unsigned rounds, there;
};

static void other_side(void *argument)
{
    const struct side *side = argument;
    uint8_t *bytes = bulk_map();

    place_pin(0, side->there);
    for (unsigned i = 0; i < side->rounds; i++) {
        loopback_receive(side->socket[1], bytes, bulk_bytes());
        loopback_send(side->socket[1], "!", 1);
    }
    bulk_unmap(bytes);
}

double limit_stream_gbs(unsigned here, unsigned there)
{
    struct side side = {.rounds = bulk_rounds() + 1, .there = there};
    struct series rates = {.count = 0};
    uint8_t *bytes = bulk_map();
    struct job job;
    double median;
    char done;

    loopback_open(side.socket);
    place_pin(0, here);
    job_start(&job, "receiver of the stream", other_side, &side);
    for (unsigned i = 0; i < side.rounds; i++) {
        uint64_t began = clock_now();

        loopback_send(side.socket[0], bytes, bulk_bytes());
        loopback_receive(side.socket[0], &done, 1);
        if (i > 0) /* the first one warms up */
            series_add(&rates, bulk_gbs(clock_now() - began));
    }
    job_expect_success(&job, WAIT_MS);
    loopback_close(side.socket);
    bulk_unmap(bytes);
    median = series_median(&rates);
    series_free(&rates);
    return median;
}
