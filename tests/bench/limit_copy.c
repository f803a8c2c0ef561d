#include "tests/bench/bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "tests/bench/bulk.h"
#include "tests/bench/limits.h"

double limit_memcpy_gbs(unsigned here)
{
    struct series rates = {.count = 0};
    uint8_t *from = bulk_map(), *to = bulk_map();
    double median;

    place_pin(0, here);
    for (unsigned i = 0; i < bulk_rounds() + 1; i++) {
        uint64_t began = clock_now();

        memcpy(to, from, bulk_bytes());
        __asm__ __volatile__("" ::: "memory");
        if (i > 0) /* the first one warms up */
            series_add(&rates, bulk_gbs(clock_now() - began));
    }
    bulk_unmap(from);
    bulk_unmap(to);
    median = series_median(&rates);
    series_free(&rates);
    return median;
}

/* A process that only has memory. */
struct owner {
    uint8_t *bytes;
    _Atomic uint64_t *board;
};

static void owner_wait(void *argument)
{
    const struct owner *owner = argument;

    memset(owner->bytes, 2, bulk_bytes()); /* its own copy of every page */
    atomic_publish(&owner->board[0], 1);
    wait_word(&owner->board[1], 1, "the end of the copies");
}

double limit_vm_gbs(unsigned here)
{
    struct owner owner = {.bytes = malloc(bulk_bytes()), .board = job_board_create(4096)};
    struct series rates = {.count = 0};
    uint8_t *from = malloc(bulk_bytes());
    struct job job;
    double median;

    assert_non_null(owner.bytes);
    assert_non_null(from);
    memset(from, 1, bulk_bytes());
    job_start(&job, "owner of private memory", owner_wait, &owner);
    wait_word(&owner.board[0], 1, "private memory");
    place_pin(0, here);
    for (unsigned i = 0; i < bulk_rounds() + 1; i++) {
        struct iovec source = {.iov_base = from, .iov_len = bulk_bytes()};
        struct iovec target = {.iov_base = owner.bytes, .iov_len = bulk_bytes()};
        uint64_t began = clock_now();

        assert_int_equal(process_vm_writev(job.pid, &source, 1, &target, 1, 0), bulk_bytes());
        if (i > 0)
            series_add(&rates, bulk_gbs(clock_now() - began));
    }
    atomic_publish(&owner.board[1], 1);
    job_expect_success(&job, WAIT_MS);
    job_board_free(owner.board, 4096);
    free(owner.bytes);
    free(from);
    median = series_median(&rates);
    series_free(&rates);
    return median;
}
