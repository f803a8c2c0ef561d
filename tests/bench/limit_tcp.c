#include "tests/bench/bench.h"

#include <sys/socket.h>
#include <unistd.h>

#include "tests/bench/limits.h"
#include "tests/bench/loopback.h"

#define MESSAGE_MAX (64u * 1024u)

struct side {
    int socket[2];
    size_t forth, back;
    unsigned rounds, there;
};

static uint8_t message[MESSAGE_MAX];

static void other_side(void *argument)
{
    const struct side *side = argument;

    place_pin(0, side->there);
    for (unsigned i = 0; i < side->rounds; i++) {
        loopback_receive(side->socket[1], message, side->forth);
        loopback_send(side->socket[1], message, side->back);
    }
}

double limit_tcp_ns(unsigned here, unsigned there, size_t forth, size_t back)
{
    struct side side = {
        .forth = forth, .back = back, .rounds = bench_quick ? 200 : 4000, .there = there};
    struct series times = {.count = 0};
    struct job job;
    double median;

    assert_true(forth <= MESSAGE_MAX && back <= MESSAGE_MAX);
    loopback_open(side.socket);
    place_pin(0, here);
    job_start(&job, "other side of the connection", other_side, &side);
    for (unsigned i = 0; i < side.rounds; i++) {
        uint64_t began = clock_now();

        loopback_send(side.socket[0], message, forth);
        loopback_receive(side.socket[0], message, back);
        series_add(&times, (double)(clock_now() - began));
    }
    job_expect_success(&job, WAIT_MS);
    loopback_close(side.socket);
    median = series_median(&times);
    series_free(&times);
    return median;
}
