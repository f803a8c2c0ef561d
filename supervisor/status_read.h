/* One look at a supervisor's counters: a private copy, the time of it, and the verdict. */
#ifndef TESUP_SUPERVISOR_STATUS_READ_H
#define TESUP_SUPERVISOR_STATUS_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/counters.h"
#include "supervisor/options_paths.h"

/* Heartbeats come at least once a second; older than this, the process does not move. */
#define STATUS_HEARTBEAT_NS UINT64_C(2500000000)
#define STATUS_REASONS_MAX  (COUNTERS_WORKERS + 2)
#define STATUS_REASON_SIZE  (COUNTERS_LABEL + COUNTERS_TEXT + 64)

struct status {
    struct counters_segment *seen; /* private copy: strings end, nobody writes it any more */
    uint64_t monotonic_ns;         /* when it was taken */
    uint64_t wall_ns;
    size_t reason_count; /* 0 = healthy */
    char reason[STATUS_REASONS_MAX][STATUS_REASON_SIZE];
};

enum status_result {
    STATUS_READ = 0,
    STATUS_NOBODY = 1,     /* text says where it looked */
    STATUS_UNREADABLE = 2, /* somebody may be there, but it cannot be seen; text says why */
};

/* Finds, maps, copies and judges. Free with status_free(). */
enum status_result status_read(const struct options_paths *paths, struct status *status, char *text,
                               size_t text_size);

/* Copies and judges a mapped segment. 0, or -1 without memory. */
int status_take(const struct counters_segment *live, uint64_t monotonic_ns, uint64_t wall_ns,
                struct status *status);
void status_free(struct status *status);

/* Fills reason from seen (status_health.c). */
void status_judge(struct status *status);
bool status_worker_hung(const struct status *status, const struct counters_worker *worker);
/* State as shown: "hung" when it is ready by name only. */
const char *status_worker_state(const struct status *status, const struct counters_worker *worker);
/* Milliseconds since a heartbeat; -1 when there was none. */
int64_t status_heartbeat_age_ms(const struct status *status, uint64_t heartbeat_ns);

#endif
