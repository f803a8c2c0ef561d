/* WRITEs of 64 MiB, one at a time. */
#include "tests/bench/work.h"

#include <stdio.h>
#include <string.h>

#include "tests/bench/bulk.h"
#include "tests/bench/limits.h"
#include "tests/bench/target.h"

struct bulk {
    const char *id, *what;
    enum party_memory from, to;
    const char *limit_what;
    double (*limit)(void);
};

static double limit_stream(void)
{
    return limit_stream_gbs(0, 1);
}

static double limit_memcpy(void)
{
    return limit_memcpy_gbs(0);
}

static double limit_vm(void)
{
    return limit_vm_gbs(0);
}

static double bulk_sample(const struct party *party, const struct tesup_request *write)
{
    struct series rates = {.count = 0};
    double median;

    for (unsigned i = 0; i < bulk_rounds(); i++) {
        uint64_t began = clock_now();

        work_once(party->channel, write, true);
        series_add(&rates, bulk_gbs(clock_now() - began));
    }
    median = series_median(&rates);
    series_free(&rates);
    return median;
}

/* The writer is on the other CPU than its worker, and sleeps. */
static struct row *bulk_measure(const struct bulk *bulk, const struct daemon *left,
                                const struct daemon *right)
{
    struct series rate = {.count = 0}, limit = {.count = 0};
    struct party_region region;
    struct party party;
    struct row *row;
    struct target *target = target_start(
        (struct target){.daemon = right, .place = 1, .memory = bulk->to, .size = bulk_bytes()});

    party_attach(&party, left, NULL);
    place_pin(0, 1);
    assert_true(party_region_create(&party, bulk->from, bulk_bytes(), TESUP_ACCESS_LOCAL, &region));
    party_fill(region.bytes, bulk_bytes(), 1);
    const struct tesup_request write = {.op = TESUP_OP_WRITE,
                                        .remote = party_open(&party, target->name),
                                        .local_region = region.handle,
                                        .remote_region =
                                            (tesup_region_t)atomic_peek(&target->region),
                                        .length = bulk_bytes()};
    bulk_sample(&party, &write);
    target_verify(target, 1);
    for (unsigned i = 0; i < bench_reps(); i++) {
        series_add(&limit, bulk->limit());
        place_pin(0, 1);
        series_add(&rate, bulk_sample(&party, &write));
    }
    target_stop(target);
    party_region_free(&party, &region);
    party_detach(&party);
    row = row_add(bulk->id, bulk->what, "GB/s", &rate);
    row_limit(row, bulk->limit_what, &rate, &limit);
    row_ask_times(row, true, 0.85, 0.95);
    series_free(&rate);
    series_free(&limit);
    return row;
}

void write_bulk_tcp(void **state)
{
    static const struct bulk shared = {"write-64m-tcp",    "WRITE 64 MiB over tcp, shared memory",
                                       PARTY_MEMORY_ALLOC, PARTY_MEMORY_ALLOC,
                                       "raw TCP stream",   limit_stream};
    struct daemon left, right;
    struct row *row;

    (void)state;
    bench_serve(&left, "left", "--fabric tcp", 0);
    bench_serve(&right, "right", "--fabric tcp", 1);
    row = bulk_measure(&shared, &left, &right);
    row_place(row, "workers CPU %d and %d, jobs asleep, --idle adaptive", place_cpu(0),
              place_cpu(1));
    daemon_stop(&left);
    daemon_stop(&right);
}

void write_bulk_host(void **state)
{
    static const struct bulk one_worker[] = {
        {"write-64m-shared", "WRITE 64 MiB on one host, shared to shared memory",
         PARTY_MEMORY_ALLOC, PARTY_MEMORY_ALLOC, "memcpy", limit_memcpy},
        {"write-64m-to-private", "WRITE 64 MiB on one host, shared to private memory",
         PARTY_MEMORY_ALLOC, PARTY_MEMORY_PRIVATE, "process_vm_writev", limit_vm},
        {"write-64m-private", "WRITE 64 MiB on one host, private to private memory",
         PARTY_MEMORY_PRIVATE, PARTY_MEMORY_PRIVATE, "process_vm_writev", limit_vm},
    };
    static const struct bulk two_workers = {
        "write-64m-local",  "WRITE 64 MiB on one host, shared, between two workers",
        PARTY_MEMORY_ALLOC, PARTY_MEMORY_ALLOC,
        "memcpy",           limit_memcpy};
    struct daemon left, right;
    struct row *row;

    (void)state;
    bench_serve(&left, "left", "", 0);
    for (size_t i = 0; i < sizeof(one_worker) / sizeof(one_worker[0]); i++) {
        row = bulk_measure(&one_worker[i], &left, &left);
        row_place(row, "worker CPU %d, jobs asleep, --idle adaptive", place_cpu(0));
    }
    bench_serve(&right, "right", "", 1);
    row = bulk_measure(&two_workers, &left, &right);
    row_place(row, "copying worker CPU %d, other CPU %d, jobs asleep, --idle adaptive",
              place_cpu(0), place_cpu(1));
    daemon_stop(&left);
    daemon_stop(&right);
}
