#include "supervisor/status/read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/clock.h"
#include "shm/err.h"
#include "supervisor/command/locate.h"

/* The writer may have died in the middle of a string. */
#define TERMINATE(field) ((field)[sizeof(field) - 1] = '\0')

static void errors_copy(const struct counters_error *from, struct counters_error *to)
{
    for (size_t i = 0; i < COUNTERS_ERRORS; i++) {
        if (atomic_peek(&from[i].count) == 0)
            continue;
        counters_snapshot(&from[i], &to[i], sizeof(to[i]));
        TERMINATE(to[i].text);
    }
}

static void supervisor_copy(const struct counters_supervisor *from, struct counters_supervisor *to)
{
    counters_snapshot(from, to, offsetof(struct counters_supervisor, error));
    TERMINATE(to->name);
    TERMINATE(to->version);
    TERMINATE(to->listen);
    TERMINATE(to->socket);
    TERMINATE(to->fabric);
    TERMINATE(to->peer_auth);
    TERMINATE(to->notify_native);
    TERMINATE(to->notify_oob);
    errors_copy(from->error, to->error);
}

static void sessions_copy(const struct counters_session *from, struct counters_session *to)
{
    for (size_t i = 0; i < COUNTERS_SESSIONS; i++) {
        if (!atomic_peek(&from[i].used))
            continue;
        counters_snapshot(&from[i], &to[i], sizeof(to[i]));
        TERMINATE(to[i].comm);
        TERMINATE(to[i].segment);
    }
}

static void life_copy(const struct counters_worker_life *from, struct counters_worker_life *to)
{
    counters_snapshot(from, to, sizeof(*to));
    TERMINATE(to->name);
    TERMINATE(to->nic);
    TERMINATE(to->port);
    TERMINATE(to->gpu);
    TERMINATE(to->distance);
    TERMINATE(to->fabric);
    TERMINATE(to->cpus);
    TERMINATE(to->reason);
    TERMINATE(to->death);
    TERMINATE(to->bind);
}

static void endpoints_copy(const struct counters_endpoint *from, struct counters_endpoint *to)
{
    for (size_t i = 0; i < COUNTERS_ENDPOINTS; i++) {
        if (!atomic_peek(&from[i].used))
            continue;
        counters_snapshot(&from[i], &to[i], sizeof(to[i]));
        TERMINATE(to[i].peer);
        TERMINATE(to[i].peer_worker);
        TERMINATE(to[i].fabric);
        TERMINATE(to[i].notify);
    }
}

static void gpus_copy(const struct counters_gpu *from, struct counters_gpu *to)
{
    for (size_t i = 0; i < COUNTERS_GPUS; i++) {
        if (!atomic_peek(&from[i].regions))
            continue;
        counters_snapshot(&from[i], &to[i], sizeof(to[i]));
        TERMINATE(to[i].gpu);
        TERMINATE(to[i].way);
        TERMINATE(to[i].why);
    }
}

static void worker_copy(const struct counters_worker *from, struct counters_worker *to)
{
    life_copy(&from->life, &to->life);
    for (size_t i = 0; i < counters_worker_field_count; i++) {
        size_t offset = counters_worker_fields[i].offset;
        const void *live = (const char *)&from->stats + offset;
        void *copy = (char *)&to->stats + offset;

        atomic_set(copy, atomic_peek(live));
    }
    endpoints_copy(from->endpoint, to->endpoint);
    gpus_copy(from->gpu, to->gpu);
    errors_copy(from->error, to->error);
}

int status_take(const struct counters_segment *live, uint64_t monotonic_ns, uint64_t wall_ns,
                status_look *look, struct status *status)
{
    memset(status, 0, sizeof(*status));
    status->seen = calloc(1, sizeof(*status->seen));
    if (!status->seen)
        return -1;
    supervisor_copy(&live->supervisor, &status->seen->supervisor);
    sessions_copy(live->session, status->seen->session);
    for (size_t i = 0; i < COUNTERS_WORKERS; i++)
        if (atomic_peek(&live->worker[i].life.used))
            worker_copy(&live->worker[i], &status->seen->worker[i]);
    status->monotonic_ns = monotonic_ns;
    status->wall_ns = wall_ns;
    status_judge(status, look);
    return 0;
}

int64_t status_age_ms(const struct status *status, uint64_t since_ns)
{
    if (since_ns == 0)
        return -1;
    if (since_ns >= status->wall_ns)
        return 0;
    return (int64_t)((status->wall_ns - since_ns) / CLOCK_NS_PER_MS);
}

void status_free(struct status *status)
{
    free(status->seen);
    status->seen = NULL;
}

static enum status_result counters_take(const struct located *found, struct status *status,
                                        char *text, size_t text_size)
{
    struct counters_segment *live;
    int fd = locate_counters_open(found, text, text_size);

    if (fd < 0)
        return STATUS_UNREADABLE;
    int err = counters_map(fd, false, &live);
    close(fd);
    if (err != TS_OK) {
        snprintf(text, text_size, "counters of supervisor %d: %s; is it another version of tesup?",
                 (int)found->pid, err_name(err));
        return STATUS_UNREADABLE;
    }
    err = status_take(live, clock_now(), clock_wall(), status_look_proc, status);
    counters_unmap(live);
    if (err) {
        snprintf(text, text_size, "no memory for a copy of the counters");
        return STATUS_UNREADABLE;
    }
    return STATUS_READ;
}

enum status_result status_read(const struct options_paths *paths, struct status *status, char *text,
                               size_t text_size)
{
    struct located found;

    switch (locate_supervisor(paths, &found, text, text_size)) {
    case LOCATE_FOUND:
        return counters_take(&found, status, text, text_size);
    case LOCATE_NOBODY:
        return STATUS_NOBODY;
    case LOCATE_ERROR:
        break;
    }
    return STATUS_UNREADABLE;
}
