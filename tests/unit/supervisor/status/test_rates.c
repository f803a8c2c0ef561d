/* Rates between two looks at a segment made by hand, per pair and per NIC. */
#include "tests/unit/supervisor/status/status_fixture.h"

#include "supervisor/status/rates.h"

static struct status_rates rates; /* large */

struct looks {
    struct fixture *f;
    struct status before;
};

static void look_first(struct looks *looks, struct fixture *f)
{
    looks->f = f;
    assert_int_equal(status_take(f->live, NOW, WALL, fixture_look, &looks->before), 0);
}

/* Two seconds later. */
static void look_second(struct looks *looks)
{
    struct fixture *f = looks->f;

    status_free(&f->status);
    assert_int_equal(status_take(f->live, NOW + 2 * CLOCK_NS_PER_S, WALL + 2 * CLOCK_NS_PER_S,
                                 fixture_look, &f->status),
                     0);
    status_rates_make(&looks->before, &f->status, &rates);
    status_free(&looks->before);
}

static void expect_rate(double rate, double expected)
{
    assert_float_equal(rate, expected, 1e-9);
}

static void test_first_look_has_none(void **state)
{
    struct fixture *f = *state;

    atomic_set(&f->live->worker[0].stats.bytes_read, 5000);
    take(f);
    status_rates_make(NULL, &f->status, &rates);
    expect_rate(rates.seconds, 0);
    expect_rate(rates.pair[0].bytes_in, 0);
    status_rates_make(&f->status, &f->status, &rates); /* no time between them */
    expect_rate(rates.seconds, 0);
}

static void test_each_way(void **state)
{
    struct fixture *f = *state;
    struct counters_worker_stats *stats = &f->live->worker[5].stats;
    struct looks looks;

    atomic_set(&stats->writes, 100);
    look_first(&looks, f);
    atomic_set(&stats->writes, 104);
    atomic_set(&stats->served_reads, 6);
    atomic_set(&stats->reads, 2);
    atomic_set(&stats->served_writes, 20);
    atomic_set(&stats->bytes_written, 4000);
    atomic_set(&stats->bytes_served_read, 2000);
    atomic_set(&stats->bytes_read, 100);
    atomic_set(&stats->bytes_served_written, 300);
    atomic_set(&stats->notify_sent, 8);
    atomic_set(&stats->notify_delivered, 1);
    atomic_set(&stats->notify_no_credit, 12);
    atomic_set(&stats->again, 14);
    look_second(&looks);
    expect_rate(rates.seconds, 2);
    expect_rate(rates.pair[5].ops_out, 5);
    expect_rate(rates.pair[5].ops_in, 11);
    expect_rate(rates.pair[5].bytes_out, 3000);
    expect_rate(rates.pair[5].bytes_in, 200);
    expect_rate(rates.pair[5].notes_out, 4);
    expect_rate(rates.pair[5].notes_in, 0.5);
    expect_rate(rates.pair[5].credit_waits, 6);
    expect_rate(rates.pair[5].refusals, 7);
    expect_rate(rates.pair[0].ops_out, 0);
    assert_int_equal(rates.nic_count, 0);
}

/* A new process began at 0, and may already have more than its predecessor. */
static void test_restarted_worker(void **state)
{
    struct fixture *f = *state;
    struct counters_worker *worker = &f->live->worker[5];
    struct looks looks;

    atomic_set(&worker->stats.writes, 100);
    atomic_set(&worker->stats.reads, 1000);
    look_first(&looks, f);
    atomic_set(&worker->life.started_ns, WALL);
    atomic_set(&worker->stats.writes, 120);
    atomic_set(&worker->stats.reads, 10);
    look_second(&looks);
    expect_rate(rates.pair[5].ops_out, 60);
    expect_rate(rates.pair[5].ops_in, 5);
}

static void test_pairs_of_one_nic(void **state)
{
    struct fixture *f = *state;
    struct looks looks;

    worker_fill(&f->live->worker[6], "mlx5_1", 43);
    snprintf(f->live->worker[0].life.nic, COUNTERS_LABEL, "mlx5_0");
    snprintf(f->live->worker[5].life.nic, COUNTERS_LABEL, "mlx5_0");
    snprintf(f->live->worker[6].life.nic, COUNTERS_LABEL, "mlx5_1");
    look_first(&looks, f);
    atomic_set(&f->live->worker[0].stats.notify_sent, 2);
    atomic_set(&f->live->worker[5].stats.notify_sent, 4);
    atomic_set(&f->live->worker[6].stats.notify_sent, 10);
    look_second(&looks);
    assert_int_equal(rates.nic_count, 2);
    assert_string_equal(rates.nic[0].nic, "mlx5_0");
    assert_int_equal(rates.nic[0].pairs, 2);
    expect_rate(rates.nic[0].rate.notes_out, 3);
    assert_int_equal(rates.nic[1].pairs, 1);
    expect_rate(rates.nic[1].rate.notes_out, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_first_look_has_none),
        TEST(test_each_way),
        TEST(test_restarted_worker),
        TEST(test_pairs_of_one_nic),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
