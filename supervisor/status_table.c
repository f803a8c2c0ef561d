#include "supervisor/status_table.h"

#include <inttypes.h>
#include <string.h>

#include "supervisor/status_format.h"
#include "supervisor/status_rows.h"

/* The first used worker, or the next one after `worker`; NULL at the end. */
static const struct counters_worker *worker_next(const struct status *status,
                                                 const struct counters_worker *worker)
{
    const struct counters_worker *end = status->seen->worker + COUNTERS_WORKERS;

    for (worker = worker ? worker + 1 : status->seen->worker; worker < end; worker++)
        if (atomic_peek(&worker->life.used))
            return worker;
    return NULL;
}

/* "  ! name: text", escaped: names may come from a topology file. */
static void remark_print(const char *name, const char *text, FILE *out)
{
    char safe[4 * STATUS_REASON_SIZE + 1];

    fprintf(out, "  ! ");
    if (name) {
        status_format_safe(name, safe, sizeof(safe));
        fprintf(out, "%s: ", safe);
    }
    status_format_safe(text, safe, sizeof(safe));
    fprintf(out, "%s\n", safe);
}

static void head_print(const struct status *status, FILE *out)
{
    const struct counters_supervisor *supervisor = &status->seen->supervisor;
    char up[STATUS_TIME_MAX];

    status_format_age(atomic_peek(&supervisor->started_ns), status->wall_ns, up, sizeof(up));
    fprintf(out, "tesup %s: %s\n", supervisor->name, status->reason_count ? "degraded" : "ok");
    for (size_t i = 0; i < status->reason_count; i++)
        remark_print(NULL, status->reason[i], out);
    fprintf(out, "  supervisor  pid %" PRIu64 ", up %s, version %s\n",
            atomic_peek(&supervisor->pid), up, supervisor->version);
    fprintf(out, "  peers       listen %s, fabric %s, peer auth %s\n", supervisor->listen,
            supervisor->fabric, supervisor->peer_auth);
    fprintf(out, "  jobs        socket %s\n", supervisor->socket);
    fprintf(out, "  notify      native %s, oob_fallback %s, carried by tcp\n",
            supervisor->notify_native, supervisor->notify_oob);
    fprintf(out,
            "  refused     attaches %" PRIu64 "; peers: wrong key %" PRIu64 ", protocol %" PRIu64
            ", too slow %" PRIu64 "\n",
            atomic_peek(&supervisor->attach_refused), atomic_peek(&supervisor->peers_refused_auth),
            atomic_peek(&supervisor->peers_refused_protocol),
            atomic_peek(&supervisor->peers_timed_out));
}

static void death_cell(struct status_rows *rows, const struct status *status,
                       const struct counters_worker_life *life)
{
    char age[STATUS_TIME_MAX];
    char cell[COUNTERS_TEXT + 64];
    uint64_t at = atomic_peek(&life->death_ns);

    if (at == 0) {
        status_rows_text(rows, "-");
        return;
    }
    status_format_age(at, status->wall_ns, age, sizeof(age));
    snprintf(cell, sizeof(cell), "%s ago: %s", age, life->death);
    status_rows_text(rows, cell);
}

static void age_cell(struct status_rows *rows, const struct status *status, uint64_t since_ns)
{
    char age[STATUS_TIME_MAX];

    status_format_age(since_ns, status->wall_ns, age, sizeof(age));
    status_rows_text(rows, age);
}

static void worker_row(struct status_rows *rows, const struct status *status,
                       const struct counters_worker *worker)
{
    const struct counters_worker_life *life = &worker->life;
    uint64_t pid = atomic_peek(&life->pid);
    char node[24] = "?";

    if (life->numa_node >= 0)
        snprintf(node, sizeof(node), "%" PRId64, life->numa_node);
    status_rows_begin(rows);
    status_rows_text(rows, life->name);
    status_rows_text(rows, life->fabric);
    if (pid)
        status_rows_number(rows, pid);
    else
        status_rows_text(rows, "-");
    status_rows_text(rows, status_worker_state(status, worker));
    status_rows_text(rows, node);
    status_rows_text(rows, life->cpus);
    age_cell(rows, status, atomic_peek(&life->ready_ns));
    status_rows_number(rows, atomic_peek(&life->restarts));
    death_cell(rows, status, life);
}

static int workers_print(const struct status *status, FILE *out)
{
    static const struct status_column columns[] = {
        {.name = "PAIR"},
        {.name = "FABRIC"},
        {.name = "PID", .right = true},
        {.name = "STATE"},
        {.name = "NODE", .right = true},
        {.name = "CPUS"},
        {.name = "READY", .right = true},
        {.name = "RESTARTS", .right = true},
        {.name = "LAST DEATH", .wrap = true},
        {0},
    };
    const struct counters_worker *worker;
    struct status_rows *rows = status_rows_new(columns);

    if (!rows)
        return -1;
    for (worker = worker_next(status, NULL); worker; worker = worker_next(status, worker))
        worker_row(rows, status, worker);
    int err = status_rows_print(rows, "WORKERS", out);
    status_rows_free(rows);
    for (worker = worker_next(status, NULL); worker; worker = worker_next(status, worker))
        if (worker->life.bind[0])
            remark_print(worker->life.name, worker->life.bind, out);
    return err;
}

static uint64_t errors_count(const struct counters_error *table)
{
    uint64_t count = 0;

    for (size_t i = 0; i < COUNTERS_ERRORS; i++)
        count += atomic_peek(&table[i].count);
    return count;
}

static void traffic_row(struct status_rows *rows, const struct counters_worker *worker)
{
    const struct counters_worker_stats *stats = &worker->stats;

    status_rows_begin(rows);
    status_rows_text(rows, worker->life.name);
    status_rows_number(rows, atomic_peek(&stats->sessions));
    status_rows_number(rows, atomic_peek(&stats->endpoints));
    status_rows_number(rows, atomic_peek(&stats->requests));
    status_rows_number(rows, atomic_peek(&stats->in_flight));
    status_rows_bytes(rows, atomic_peek(&stats->bytes_read));
    status_rows_bytes(rows, atomic_peek(&stats->bytes_written));
    status_rows_number(rows, atomic_peek(&stats->notify_sent));
    status_rows_number(rows, atomic_peek(&stats->notify_delivered));
    status_rows_number(rows, errors_count(worker->error));
}

static int traffic_print(const struct status *status, FILE *out)
{
    static const struct status_column columns[] = {
        {.name = "PAIR"},
        {.name = "SESSIONS", .right = true},
        {.name = "ENDPOINTS", .right = true},
        {.name = "REQUESTS", .right = true},
        {.name = "OPEN", .right = true},
        {.name = "READ", .right = true},
        {.name = "WRITTEN", .right = true},
        {.name = "SENT", .right = true},
        {.name = "RECEIVED", .right = true},
        {.name = "ERRORS", .right = true},
        {0},
    };
    const struct counters_worker *worker;
    struct status_rows *rows = status_rows_new(columns);

    if (!rows)
        return -1;
    for (worker = worker_next(status, NULL); worker; worker = worker_next(status, worker))
        traffic_row(rows, worker);
    int err = status_rows_print(
        rows, "TRAFFIC (OPEN: requests in flight; SENT, RECEIVED: notifications)", out);
    status_rows_free(rows);
    return err;
}

static void session_row(struct status_rows *rows, const struct status *status,
                        const struct counters_session *session)
{
    uint64_t worker = atomic_peek(&session->worker);
    const char *slash = strrchr(session->segment, '/'); /* all begin with our own address */

    status_rows_begin(rows);
    status_rows_text(rows, slash ? slash + 1 : session->segment);
    status_rows_number(rows, atomic_peek(&session->pid));
    status_rows_number(rows, atomic_peek(&session->uid));
    status_rows_text(rows, session->comm);
    status_rows_text(rows,
                     worker < COUNTERS_WORKERS ? status->seen->worker[worker].life.name : "-");
    status_rows_number(rows, atomic_peek(&session->channels));
    status_rows_number(rows, atomic_peek(&session->regions));
    status_rows_number(rows, atomic_peek(&session->remotes));
    age_cell(rows, status, atomic_peek(&session->since_ns));
}

static int sessions_print(const struct status *status, FILE *out)
{
    static const struct status_column columns[] = {
        {.name = "SEGMENT", .wrap = true},
        {.name = "PID", .right = true},
        {.name = "UID", .right = true},
        {.name = "COMMAND"},
        {.name = "PAIR"},
        {.name = "CHANNELS", .right = true},
        {.name = "REGIONS", .right = true},
        {.name = "REMOTES", .right = true},
        {.name = "AGE", .right = true},
        {0},
    };
    const struct counters_session *session = status->seen->session;
    const struct counters_session *end = session + COUNTERS_SESSIONS;
    struct status_rows *rows = status_rows_new(columns);

    if (!rows)
        return -1;
    for (; session < end; session++)
        if (atomic_peek(&session->used))
            session_row(rows, status, session);
    int err = status_rows_print(rows, "SESSIONS", out);
    status_rows_free(rows);
    return err;
}

static void endpoint_row(struct status_rows *rows, const struct status *status,
                         const struct counters_worker *worker,
                         const struct counters_endpoint *endpoint)
{
    status_rows_begin(rows);
    status_rows_text(rows, worker->life.name);
    status_rows_text(rows, endpoint->peer);
    status_rows_text(rows, endpoint->peer_worker);
    status_rows_text(rows, endpoint_state_name(atomic_peek(&endpoint->state)));
    status_rows_text(rows, endpoint->fabric);
    status_rows_text(rows, endpoint->notify);
    age_cell(rows, status, atomic_peek(&endpoint->since_ns));
    status_rows_bytes(rows, atomic_peek(&endpoint->bytes_out));
    status_rows_bytes(rows, atomic_peek(&endpoint->bytes_in));
    status_rows_number(rows, atomic_peek(&endpoint->reconnects));
}

static int endpoints_print(const struct status *status, FILE *out)
{
    static const struct status_column columns[] = {
        {.name = "PAIR"},
        {.name = "PEER", .wrap = true},
        {.name = "WORKER"},
        {.name = "STATE"},
        {.name = "FABRIC"},
        {.name = "NOTIFY", .wrap = true},
        {.name = "SINCE", .right = true},
        {.name = "OUT", .right = true},
        {.name = "IN", .right = true},
        {.name = "RECONN", .right = true},
        {0},
    };
    const struct counters_worker *worker;
    struct status_rows *rows = status_rows_new(columns);

    if (!rows)
        return -1;
    for (worker = worker_next(status, NULL); worker; worker = worker_next(status, worker))
        for (size_t i = 0; i < COUNTERS_ENDPOINTS; i++)
            if (atomic_peek(&worker->endpoint[i].used))
                endpoint_row(rows, status, worker, &worker->endpoint[i]);
    int err = status_rows_print(rows, "ENDPOINTS", out);
    status_rows_free(rows);
    return err;
}

static void error_rows(struct status_rows *rows, const struct status *status, const char *where,
                       const struct counters_error *table)
{
    for (size_t i = 0; i < COUNTERS_ERRORS; i++) {
        if (atomic_peek(&table[i].count) == 0)
            continue;
        status_rows_begin(rows);
        status_rows_number(rows, atomic_peek(&table[i].count));
        age_cell(rows, status, atomic_peek(&table[i].last_ns));
        status_rows_text(rows, where);
        status_rows_text(rows, table[i].text);
    }
}

static int errors_print(const struct status *status, FILE *out)
{
    static const struct status_column columns[] = {
        {.name = "COUNT", .right = true},
        {.name = "LAST AGO", .right = true},
        {.name = "WHERE"},
        {.name = "ERROR", .wrap = true},
        {0},
    };
    const struct counters_worker *worker;
    struct status_rows *rows = status_rows_new(columns);

    if (!rows)
        return -1;
    error_rows(rows, status, "supervisor", status->seen->supervisor.error);
    for (worker = worker_next(status, NULL); worker; worker = worker_next(status, worker))
        error_rows(rows, status, worker->life.name, worker->error);
    int err = status_rows_print(rows, "ERRORS", out);
    status_rows_free(rows);
    return err;
}

static void errors_hint(const struct status *status, FILE *out)
{
    const struct counters_worker *worker;
    uint64_t count = errors_count(status->seen->supervisor.error);

    for (worker = worker_next(status, NULL); worker; worker = worker_next(status, worker))
        count += errors_count(worker->error);
    if (count)
        fprintf(out, "\nErrors counted: %" PRIu64 "; `tesup status --errors` lists them.\n", count);
}

int status_table_print(const struct status *status, bool with_errors, FILE *out)
{
    int err = 0;

    head_print(status, out);
    err |= workers_print(status, out);
    err |= traffic_print(status, out);
    err |= sessions_print(status, out);
    err |= endpoints_print(status, out);
    if (with_errors)
        err |= errors_print(status, out);
    else
        errors_hint(status, out);
    return err ? -1 : 0;
}
