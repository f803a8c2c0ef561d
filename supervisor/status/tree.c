/* Each pair with its NIC, GPU, worker, jobs and peers: one row each, details in words. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "supervisor/status/format.h"
#include "supervisor/status/rows.h"
#include "supervisor/status/table.h"
#include "supervisor/status/words.h"

#define LABEL_MAX  40
#define DETAIL_MAX 1200

/* A row below `parent`: the label, and in words what there is to say. */
__attribute__((format(printf, 5, 6))) static void tree_row(struct status_rows *rows, size_t parent,
                                                           const char *label,
                                                           enum status_colour colour,
                                                           const char *format, ...)
{
    char detail[DETAIL_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(detail, sizeof(detail), format, args);
    va_end(args);
    status_rows_begin(rows, parent);
    status_rows_state(rows, label, colour);
    status_rows_text(rows, detail);
}

static const char *age_of(const struct status *status, uint64_t since_ns,
                          char text[STATUS_TIME_MAX])
{
    status_format_age(since_ns, status->wall_ns, text, STATUS_TIME_MAX);
    return text;
}

static void devices_rows(struct status_rows *rows, size_t parent,
                         const struct counters_worker_life *life)
{
    if (life->nic[0])
        tree_row(rows, parent, "nic", STATUS_COLOUR_NONE, "%s, port %s", life->nic,
                 life->port[0] ? life->port : "state unknown");
    if (life->gpu[0])
        tree_row(rows, parent, "gpu", STATUS_COLOUR_NONE, "%s, distance to the NIC %s", life->gpu,
                 life->distance[0] ? life->distance : "unknown");
    if (life->bind[0])
        tree_row(rows, parent, "binding", STATUS_COLOUR_BAD, "%s", life->bind);
}

/* "ready for 3m12s", "stopped: a signal …". */
static void state_words(const struct status *status, const struct counters_worker *worker,
                        char *text, size_t size)
{
    const struct counters_worker_life *life = &worker->life;
    const char *state = status_worker_state(status, worker);
    char age[STATUS_TIME_MAX];

    if (status_worker_halt(status, worker))
        snprintf(text, size, "%s: %s", state, status_worker_why(status, worker));
    else if (atomic_peek(&life->state) == WORKER_STATE_READY)
        snprintf(text, size, "%s for %s", state, age_of(status, atomic_peek(&life->ready_ns), age));
    else
        snprintf(text, size, "%s", state);
}

static void worker_rows(struct status_rows *rows, size_t parent, const struct status *status,
                        const struct counters_worker *worker)
{
    const struct counters_worker_life *life = &worker->life;
    const struct counters_worker_stats *stats = &worker->stats;
    uint64_t pid = atomic_peek(&life->pid);
    char label[LABEL_MAX] = "worker";
    char words[STATUS_WHY_SIZE + 32];
    char age[STATUS_TIME_MAX];

    if (pid)
        snprintf(label, sizeof(label), "worker %" PRIu64, pid);
    state_words(status, worker, words, sizeof(words));
    tree_row(rows, parent, label, status_worker_colour(status, worker), "%s", words);
    if (atomic_peek(&life->death_ns))
        tree_row(rows, parent, "last death", STATUS_COLOUR_NONE, "%s ago: %s; restarts %" PRIu64,
                 age_of(status, atomic_peek(&life->death_ns), age), life->death,
                 atomic_peek(&life->restarts));
    tree_row(rows, parent, "queues", STATUS_COLOUR_NONE,
             "requests in flight %" PRIu64 ", notifications parked %" PRIu64
             ", waits for credit %" PRIu64 ", refusals for lack of room %" PRIu64,
             atomic_peek(&stats->in_flight), atomic_peek(&stats->notify_parked),
             atomic_peek(&stats->notify_no_credit), atomic_peek(&stats->again));
    if (atomic_peek(&stats->notify_cq_capacity))
        tree_row(rows, parent, "notify cq", STATUS_COLOUR_NONE,
                 "%" PRIu64 " of %" PRIu64 " entries used", atomic_peek(&stats->notify_cq_used),
                 atomic_peek(&stats->notify_cq_capacity));
}

static void session_row(struct status_rows *rows, size_t parent, const struct status *status,
                        const struct counters_session *session)
{
    const char *slash = strrchr(session->segment, '/'); /* all begin with our own address */
    char label[LABEL_MAX];
    char age[STATUS_TIME_MAX];

    snprintf(label, sizeof(label), "job %" PRIu64, atomic_peek(&session->pid));
    tree_row(rows, parent, label, STATUS_COLOUR_NONE,
             "%s, uid %" PRIu64 ", segment %s, attached for %s; channels %" PRIu64
             ", regions %" PRIu64 ", remotes %" PRIu64,
             session->comm, atomic_peek(&session->uid), slash ? slash + 1 : session->segment,
             age_of(status, atomic_peek(&session->since_ns), age), atomic_peek(&session->channels),
             atomic_peek(&session->regions), atomic_peek(&session->remotes));
}

static void sessions_rows(struct status_rows *rows, size_t parent, const struct status *status,
                          const struct counters_worker *worker)
{
    const struct counters_session *session = status->seen->session;
    uint64_t index = (uint64_t)(worker - status->seen->worker);

    for (size_t i = 0; i < COUNTERS_SESSIONS; i++, session++)
        if (atomic_peek(&session->used) && atomic_peek(&session->worker) == index)
            session_row(rows, parent, status, session);
}

/* Which way regions of a GPU go to other hosts, and why not a better one. */
static void gpus_rows(struct status_rows *rows, size_t parent, const struct counters_worker *worker)
{
    for (size_t i = 0; i < COUNTERS_GPUS; i++) {
        const struct counters_gpu *gpu = &worker->gpu[i];
        char size[24];

        if (!atomic_peek(&gpu->regions))
            continue;
        status_format_bytes(atomic_peek(&gpu->bytes), size, sizeof(size));
        tree_row(rows, parent, "gpu memory", STATUS_COLOUR_NONE,
                 "%s: regions %" PRIu64 ", %s, by %s%s%s", gpu->gpu, atomic_peek(&gpu->regions),
                 size, gpu->way, gpu->why[0] ? ": " : "", gpu->why);
    }
}

static enum status_colour endpoint_colour(uint64_t state)
{
    return state == ENDPOINT_READY     ? STATUS_COLOUR_GOOD
           : state == ENDPOINT_BACKOFF ? STATUS_COLOUR_BAD
                                       : STATUS_COLOUR_CHANGING;
}

/* Who it leads to, what carries, and for how long this has been so. */
static void peer_row(struct status_rows *rows, size_t parent, const struct status *status,
                     const struct counters_endpoint *endpoint, const char *moved)
{
    uint64_t state = atomic_peek(&endpoint->state);
    char age[STATUS_TIME_MAX], notify[STATUS_WORDS_MAX];
    char over[2 * STATUS_WORDS_MAX] = "", queues[STATUS_WORDS_MAX];

    status_words_queues(endpoint, queues, sizeof(queues));
    status_words_notify(&status->seen->supervisor, endpoint, notify, sizeof(notify));
    if (endpoint->fabric[0] && endpoint->fabric[0] != '-')
        snprintf(over, sizeof(over), " over %s, notifications by %s", endpoint->fabric, notify);
    tree_row(rows, parent, "peer", endpoint_colour(state),
             "%s%s%s: %s for %s%s%s; %s, reconnects %" PRIu64, endpoint->peer,
             endpoint->peer_worker[0] ? " " : "", endpoint->peer_worker, endpoint_state_name(state),
             age_of(status, atomic_peek(&endpoint->since_ns), age), over, queues, moved,
             atomic_peek(&endpoint->reconnects));
}

static void endpoint_row(struct status_rows *rows, size_t parent, const struct status *status,
                         const struct counters_endpoint *endpoint)
{
    char out[24], in[24], moved[64];

    status_format_bytes(atomic_peek(&endpoint->bytes_out), out, sizeof(out));
    status_format_bytes(atomic_peek(&endpoint->bytes_in), in, sizeof(in));
    snprintf(moved, sizeof(moved), "out %s, in %s", out, in);
    if (strcmp(endpoint->fabric, "self") == 0)
        tree_row(rows, parent, "self", STATUS_COLOUR_NONE, "between jobs of this worker: %s",
                 moved);
    else
        peer_row(rows, parent, status, endpoint, moved);
}

static void endpoints_rows(struct status_rows *rows, size_t parent, const struct status *status,
                           const struct counters_worker *worker)
{
    uint64_t all = atomic_peek(&worker->stats.endpoints);
    uint64_t listed = 0;

    for (size_t i = 0; i < COUNTERS_ENDPOINTS; i++) {
        if (!atomic_peek(&worker->endpoint[i].used))
            continue;
        endpoint_row(rows, parent, status, &worker->endpoint[i]);
        listed++;
    }
    if (all > listed && listed == COUNTERS_ENDPOINTS)
        tree_row(rows, parent, "peers", STATUS_COLOUR_NONE,
                 "%" PRIu64 " more, which are counted and not listed", all - listed);
}

static const struct status_column tree_columns[] = {
    {.name = "PAIR", .wrap = true, .tree = true},
    {.name = "DETAILS", .wrap = true},
    {0},
};

int status_tree_print(const struct status *status, const struct status_screen *screen)
{
    struct status_rows *rows = status_rows_new(screen, tree_columns);
    const struct counters_worker *worker = NULL;

    if (!rows)
        return -1;
    while ((worker = status_worker_next(status, worker))) {
        size_t pair = status_rows_begin(rows, STATUS_ROW_NONE);

        status_rows_text(rows, worker->life.name);
        status_rows_text(rows, worker->life.reason);
        devices_rows(rows, pair, &worker->life);
        worker_rows(rows, pair, status, worker);
        gpus_rows(rows, pair, worker);
        sessions_rows(rows, pair, status, worker);
        endpoints_rows(rows, pair, status, worker);
    }
    int err = status_rows_print(rows, "PAIRS, THEIR JOBS AND PEERS");
    status_rows_free(rows);
    return err;
}
