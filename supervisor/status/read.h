/* One look at a supervisor: a private copy of its counters, its processes as the kernel sees them,
 * the time of it, and the verdict. */
#ifndef TESUP_SUPERVISOR_STATUS_READ_H
#define TESUP_SUPERVISOR_STATUS_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/counters.h"
#include "supervisor/options/paths.h"
#include "supervisor/status/look.h"

/* Heartbeats come at least once a second; older than this, the process does not move. */
#define STATUS_HEARTBEAT_NS UINT64_C(2500000000)
#define STATUS_REASONS_MAX  (COUNTERS_WORKERS + 2)
#define STATUS_REASON_SIZE  (COUNTERS_LABEL + COUNTERS_TEXT + 160)
#define STATUS_WHY_SIZE     160

/* Why a process that should move does not. */
enum status_halt {
    STATUS_HALT_NONE = 0,
    STATUS_HALT_STOPPED, /* by a signal or a debugger */
    STATUS_HALT_STARVED, /* it could run, and gets no CPU */
    STATUS_HALT_HUNG,    /* it runs and does not end its turn, or it waits inside the kernel */
    STATUS_HALT_DEAD,    /* there is no such process, and the supervisor has not noticed */
};

struct status_motion {
    enum status_halt halt;
    char why[STATUS_WHY_SIZE]; /* a phrase for people; "" when it moves */
};

struct status {
    struct counters_segment *seen; /* private copy: strings end, nobody writes it any more */
    uint64_t monotonic_ns;         /* when it was taken */
    uint64_t wall_ns;
    struct status_motion supervisor;
    struct status_motion worker[COUNTERS_WORKERS];
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

/* Copies and judges a mapped segment; `look` tells about its processes. 0, or -1 without memory. */
int status_take(const struct counters_segment *live, uint64_t monotonic_ns, uint64_t wall_ns,
                status_look *look, struct status *status);
void status_free(struct status *status);

/* Fills motions and reasons from seen (status_health.c). */
void status_judge(struct status *status, status_look *look);
enum status_halt status_worker_halt(const struct status *status,
                                    const struct counters_worker *worker);
const char *status_worker_why(const struct status *status, const struct counters_worker *worker);
/* State as shown: "stopped", "starved", "hung" or "dead" when it is another by name only. */
const char *status_worker_state(const struct status *status, const struct counters_worker *worker);
const char *status_halt_name(enum status_halt halt);
/* Milliseconds since a heartbeat; -1 when there was none. */
int64_t status_heartbeat_age_ms(const struct status *status, uint64_t heartbeat_ns);

/* Milliseconds since a time of the real clock; -1 when it is 0. */
int64_t status_age_ms(const struct status *status, uint64_t since_ns);

/* The next worker that is in use; begins with NULL, ends with NULL. */
const struct counters_worker *status_worker_next(const struct status *status,
                                                 const struct counters_worker *worker);

#endif
