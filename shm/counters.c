#include "shm/counters.h"

#include <string.h>
#include <sys/mman.h>

#include "shm/clock.h"
#include "shm/err.h"
#include "shm/segment.h"

#define FIELD(member)                                           \
    {                                                           \
#member, offsetof(struct counters_worker_stats, member) \
    }
const struct counters_field counters_worker_fields[] = {
    FIELD(heartbeat_ns),
    FIELD(heartbeat_cpu_ns),
    FIELD(turns),
    FIELD(turn_max_ns),
    FIELD(sleeps),
    FIELD(sessions),
    FIELD(channels),
    FIELD(regions),
    FIELD(endpoints),
    FIELD(requests),
    FIELD(completions),
    FIELD(in_flight),
    FIELD(reads),
    FIELD(writes),
    FIELD(bytes_read),
    FIELD(bytes_written),
    FIELD(served_reads),
    FIELD(served_writes),
    FIELD(bytes_served_read),
    FIELD(bytes_served_written),
    FIELD(notify_sent),
    FIELD(notify_received),
    FIELD(notify_delivered),
    FIELD(notify_parked),
    FIELD(notify_no_credit),
    FIELD(notify_cq_used),
    FIELD(notify_cq_capacity),
    FIELD(again),
    FIELD(failed),
    FIELD(cancelled),
    FIELD(timed_out),
    FIELD(uncertain),
    FIELD(doorbells_rung),
    FIELD(doorbells_heard),
    FIELD(sessions_killed),
    FIELD(peer_protocol),
    FIELD(peer_refused),
    FIELD(stale_completions),
    FIELD(endpoint_lost),
    FIELD(endpoint_duplicate),
    FIELD(endpoint_evicted),
    FIELD(pinned_bytes),
    FIELD(rdma_pool_bytes),
    FIELD(rdma_work_requests),
    FIELD(rdma_doorbells),
    FIELD(rdma_sent),
    FIELD(rdma_received),
    FIELD(rdma_no_credit),
    FIELD(rdma_aside),
    FIELD(rdma_events),
    FIELD(rdma_errors),
    FIELD(rdma_renewed),
    FIELD(gpu_regions),
    FIELD(gpu_bytes),
    FIELD(gpu_pinned_bytes),
    FIELD(gpu_copies_out),
    FIELD(gpu_copies_in),
    FIELD(gpu_copies_between),
    FIELD(gpu_no_chunk),
};
const size_t counters_worker_field_count =
    sizeof(counters_worker_fields) / sizeof(counters_worker_fields[0]);
static_assert(sizeof(counters_worker_fields) / sizeof(counters_worker_fields[0]) ==
                  sizeof(struct counters_worker_stats) / sizeof(uint64_t),
              "every counter of a worker has a name");

int counters_create(int *fd, struct counters_segment **counters)
{
    int file = segment_create("tesup-counters", sizeof(struct counters_segment));
    struct counters_segment *map;

    if (file < 0)
        return TS_ERR_SYSTEM;
    map = mmap(NULL, sizeof(*map), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map == MAP_FAILED)
        return TS_ERR_SYSTEM;
    map->magic = COUNTERS_MAGIC;
    map->version = COUNTERS_VERSION;
    map->size = sizeof(*map);
    *fd = file;
    *counters = map;
    return TS_OK;
}

int counters_map(int fd, bool writable, struct counters_segment **counters)
{
    struct segment_facts facts;
    struct counters_segment *map;

    if (segment_inspect(fd, &facts) < 0)
        return TS_ERR_SYSTEM;
    if (!facts.sealed || facts.size != sizeof(*map))
        return TS_ERR_VERSION;
    map =
        mmap(NULL, sizeof(*map), writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return TS_ERR_SYSTEM;
    if (map->magic != COUNTERS_MAGIC || map->version != COUNTERS_VERSION ||
        map->size != sizeof(*map)) {
        munmap(map, sizeof(*map));
        return TS_ERR_VERSION;
    }
    *counters = map;
    return TS_OK;
}

void counters_unmap(struct counters_segment *counters)
{
    munmap(counters, sizeof(*counters));
}

void counters_heartbeat(_Atomic uint64_t *at_ns, _Atomic uint64_t *cpu_ns)
{
    atomic_set(cpu_ns, clock_read(CLOCK_PROCESS_CPUTIME_ID));
    atomic_set(at_ns, clock_now());
}

void counters_write_begin(_Atomic uint64_t *seq)
{
    /* A writer that died inside left it odd; setting the low bit also recovers from that. */
    atomic_set(seq, atomic_peek(seq) | 1);
    atomic_thread_fence(memory_order_release); /* odd before the changes: C0, pairs with C1 */
}

void counters_write_end(_Atomic uint64_t *seq)
{
    atomic_publish(seq, (atomic_peek(seq) | 1) + 1); /* C2, pairs with C3 */
}

bool counters_snapshot(const void *block, void *copy, size_t size)
{
    const _Atomic uint64_t *seq = block;

    for (int attempt = 0; attempt < 1000; attempt++) {
        uint64_t before = atomic_observe(seq); /* C3, pairs with C2 */

        memcpy(copy, block, size);
        atomic_thread_fence(memory_order_acquire); /* C1, pairs with C0 */
        if ((before & 1) == 0 && atomic_peek(seq) == before)
            return true;
        cpu_relax();
    }
    return false;
}

void counters_error_add(struct counters_error *table, const char *text)
{
    struct counters_error *entry = &table[0];
    uint64_t now = clock_wall();
    char line[COUNTERS_TEXT] = {0};

    strncpy(line, text, sizeof(line) - 1);
    for (unsigned i = 0; i < COUNTERS_ERRORS; i++) {
        struct counters_error *other = &table[i];

        if (atomic_peek(&other->count) > 0 && strcmp(other->text, line) == 0) {
            atomic_count(&other->count, 1);
            atomic_set(&other->last_ns, now);
            return;
        }
        if (atomic_peek(&other->last_ns) < atomic_peek(&entry->last_ns))
            entry = other;
    }
    counters_write_begin(&entry->seq);
    memcpy(entry->text, line, sizeof(line));
    atomic_set(&entry->count, 1);
    atomic_set(&entry->first_ns, now);
    atomic_set(&entry->last_ns, now);
    counters_write_end(&entry->seq);
}

const char *worker_state_name(uint64_t state)
{
    static const char *const names[WORKER_STATE_COUNT] = {
        [WORKER_STATE_DOWN] = "down",     [WORKER_STATE_STARTING] = "starting",
        [WORKER_STATE_READY] = "ready",   [WORKER_STATE_BACKOFF] = "backoff",
        [WORKER_STATE_FAILED] = "failed", [WORKER_STATE_DRAINING] = "draining",
    };

    return state < WORKER_STATE_COUNT ? names[state] : "unknown";
}

const char *endpoint_state_name(uint64_t state)
{
    static const char *const names[ENDPOINT_STATE_COUNT] = {
        [ENDPOINT_IDLE] = "idle",           [ENDPOINT_CONNECTING] = "connecting",
        [ENDPOINT_HANDSHAKE] = "handshake", [ENDPOINT_LINKING] = "linking",
        [ENDPOINT_READY] = "ready",         [ENDPOINT_DRAINING] = "draining",
        [ENDPOINT_BACKOFF] = "backoff",     [ENDPOINT_CLOSED] = "closed",
    };

    return state < ENDPOINT_STATE_COUNT ? names[state] : "unknown";
}
