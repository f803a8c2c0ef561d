#include "supervisor/status/rates.h"

#include <stdio.h>
#include <string.h>

#include "shm/clock.h"

/* What a rate is made of. */
struct part {
    size_t rate;    /* offset in struct status_rate */
    size_t counter; /* offset in struct counters_worker_stats */
};

#define PART(member, field)                                                                 \
    {                                                                                       \
        offsetof(struct status_rate, member), offsetof(struct counters_worker_stats, field) \
    }
static const struct part parts[] = {
    PART(bytes_out, bytes_written),
    PART(bytes_out, bytes_served_read),
    PART(bytes_in, bytes_read),
    PART(bytes_in, bytes_served_written),
    PART(ops_out, writes),
    PART(ops_out, served_reads),
    PART(ops_in, reads),
    PART(ops_in, served_writes),
    PART(notes_out, notify_sent),
    PART(notes_in, notify_delivered),
    PART(credit_waits, notify_no_credit),
    PART(refusals, again),
};
#define PART_COUNT (sizeof(parts) / sizeof(parts[0]))

static uint64_t counter_at(const struct counters_worker *worker, size_t offset)
{
    const void *word = (const char *)&worker->stats + offset;

    return atomic_peek(word);
}

static double *rate_at(struct status_rate *rate, size_t offset)
{
    void *at = (char *)rate + offset;

    return at;
}

/* A new process counts from 0. */
static bool same_process(const struct counters_worker *before, const struct counters_worker *now)
{
    return atomic_peek(&before->life.used) &&
           atomic_peek(&before->life.started_ns) == atomic_peek(&now->life.started_ns);
}

static void pair_rate(const struct counters_worker *before, const struct counters_worker *now,
                      double seconds, struct status_rate *rate)
{
    bool same = same_process(before, now);

    for (size_t i = 0; i < PART_COUNT; i++) {
        uint64_t old = same ? counter_at(before, parts[i].counter) : 0;
        uint64_t new = counter_at(now, parts[i].counter);

        if (new > old)
            *rate_at(rate, parts[i].rate) += (double)(new - old) / seconds;
    }
}

static struct status_nic_rate *nic_find(struct status_rates *rates, const char *nic)
{
    for (size_t i = 0; i < rates->nic_count; i++)
        if (strcmp(rates->nic[i].nic, nic) == 0)
            return &rates->nic[i];
    struct status_nic_rate *made = &rates->nic[rates->nic_count++];
    snprintf(made->nic, sizeof(made->nic), "%s", nic);
    return made;
}

static void nic_add(struct status_rates *rates, const char *nic, struct status_rate *pair)
{
    struct status_nic_rate *sum = nic_find(rates, nic);

    sum->pairs++;
    for (size_t at = 0; at < sizeof(*pair); at += sizeof(double))
        *rate_at(&sum->rate, at) += *rate_at(pair, at);
}

void status_rates_make(const struct status *before, const struct status *now,
                       struct status_rates *rates)
{
    const struct counters_worker *worker = NULL;

    memset(rates, 0, sizeof(*rates));
    if (before && now->monotonic_ns > before->monotonic_ns)
        rates->seconds = (double)(now->monotonic_ns - before->monotonic_ns) / CLOCK_NS_PER_S;
    while ((worker = status_worker_next(now, worker))) {
        size_t index = (size_t)(worker - now->seen->worker);

        if (before && rates->seconds > 0)
            pair_rate(&before->seen->worker[index], worker, rates->seconds, &rates->pair[index]);
        if (worker->life.nic[0])
            nic_add(rates, worker->life.nic, &rates->pair[index]);
    }
}
