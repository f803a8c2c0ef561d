#include "supervisor/status/json.h"

#include <string.h>

#include "supervisor/status/format.h"
#include "supervisor/status/words.h"

/* A member is only missing when memory is; jansson then leaves it out. */
static void set(json_t *object, const char *key, json_t *value)
{
    (void)json_object_set_new(object, key, value);
}

static json_t *number(uint64_t value)
{
    return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

/* JSON holds UTF-8 only; other bytes of a name are shown as in the tables. */
static json_t *text(const char *value)
{
    char safe[4 * LAYOUT_NAME_MAX + 1];
    json_t *string = json_string(value);

    if (string)
        return string;
    status_format_safe(value, safe, sizeof(safe));
    return json_string(safe);
}

static json_t *text_or_null(const char *value)
{
    return value[0] ? text(value) : json_null();
}

static json_t *time_or_null(uint64_t wall_ns)
{
    char iso[STATUS_TIME_MAX];

    if (wall_ns == 0)
        return json_null();
    status_format_time(wall_ns, iso);
    return json_string(iso);
}

static json_t *age_or_null(int64_t ms)
{
    return ms < 0 ? json_null() : json_integer(ms);
}

static json_t *errors_make(const struct counters_error *table)
{
    json_t *array = json_array();

    for (size_t i = 0; i < COUNTERS_ERRORS; i++) {
        if (atomic_peek(&table[i].count) == 0)
            continue;
        json_t *error = json_object();
        set(error, "text", text(table[i].text));
        set(error, "count", number(atomic_peek(&table[i].count)));
        set(error, "first", time_or_null(atomic_peek(&table[i].first_ns)));
        set(error, "last", time_or_null(atomic_peek(&table[i].last_ns)));
        (void)json_array_append_new(array, error);
    }
    return array;
}

static json_t *switch_make(const char *value)
{
    return json_boolean(strcmp(value, "1") == 0 || strcmp(value, "true") == 0);
}

static json_t *supervisor_counters_make(const struct counters_supervisor *supervisor)
{
    json_t *counters = json_object();

    set(counters, "attaches", number(atomic_peek(&supervisor->attaches)));
    set(counters, "attach_refused", number(atomic_peek(&supervisor->attach_refused)));
    set(counters, "sessions_ended", number(atomic_peek(&supervisor->sessions_ended)));
    set(counters, "peers_accepted", number(atomic_peek(&supervisor->peers_accepted)));
    set(counters, "peers_refused_auth", number(atomic_peek(&supervisor->peers_refused_auth)));
    set(counters, "peers_refused_protocol",
        number(atomic_peek(&supervisor->peers_refused_protocol)));
    set(counters, "peers_timed_out", number(atomic_peek(&supervisor->peers_timed_out)));
    return counters;
}

/* Why a process does not move; null when it does. */
static json_t *stuck_make(const struct status_motion *motion)
{
    json_t *object;

    if (motion->halt == STATUS_HALT_NONE)
        return json_null();
    object = json_object();
    set(object, "kind", json_string(status_halt_name(motion->halt)));
    set(object, "why", text_or_null(motion->why));
    return object;
}

static json_t *supervisor_make(const struct status *status)
{
    const struct counters_supervisor *supervisor = &status->seen->supervisor;
    json_t *object = json_object();
    json_t *notify = json_object();
    char carried[STATUS_WORDS_MAX];

    set(notify, "native", switch_make(supervisor->notify_native));
    set(notify, "oob_fallback", switch_make(supervisor->notify_oob));
    status_words_carried(status, carried, sizeof(carried));
    set(notify, "carried_by", text(carried));

    set(object, "name", text(supervisor->name));
    set(object, "pid", number(atomic_peek(&supervisor->pid)));
    set(object, "version", text(supervisor->version));
    set(object, "started", time_or_null(atomic_peek(&supervisor->started_ns)));
    set(object, "listen", text(supervisor->listen));
    set(object, "socket", text(supervisor->socket));
    set(object, "fabric", text(supervisor->fabric));
    set(object, "peer_auth", text(supervisor->peer_auth));
    set(object, "notify", notify);
    set(object, "draining", json_boolean(atomic_peek(&supervisor->draining)));
    set(object, "heartbeat_age_ms",
        age_or_null(status_heartbeat_age_ms(status, atomic_peek(&supervisor->heartbeat_ns))));
    set(object, "stuck", stuck_make(&status->supervisor));
    set(object, "counters", supervisor_counters_make(supervisor));
    set(object, "errors", errors_make(supervisor->error));
    return object;
}

static json_t *queue_make(const struct counters_queue *queue)
{
    json_t *object = json_object();

    set(object, "own", number(queue->own));
    set(object, "peer", number(queue->peer));
    return object;
}

/* null: its fabric has none. */
static json_t *queues_make(const struct counters_endpoint *endpoint)
{
    json_t *object, *data;

    if (endpoint->data_queues == 0)
        return json_null();
    object = json_object();
    data = json_array();
    for (uint32_t i = 0; i < endpoint->data_queues && i < COUNTERS_QUEUES; i++)
        (void)json_array_append_new(data, queue_make(&endpoint->data_queue[i]));
    set(object, "data", data);
    set(object, "notification",
        endpoint->notify_queue.own != 0 ? queue_make(&endpoint->notify_queue) : json_null());
    return object;
}

static json_t *endpoint_make(const struct status *status, const struct counters_endpoint *endpoint)
{
    json_t *object = json_object();

    set(object, "peer", text(endpoint->peer));
    set(object, "peer_worker", text_or_null(endpoint->peer_worker));
    set(object, "state", json_string(endpoint_state_name(atomic_peek(&endpoint->state))));
    set(object, "since", time_or_null(atomic_peek(&endpoint->since_ns)));
    set(object, "state_age_ms",
        age_or_null(status_age_ms(status, atomic_peek(&endpoint->since_ns))));
    set(object, "fabric", text_or_null(endpoint->fabric));
    set(object, "notify", text_or_null(endpoint->notify));
    set(object, "bytes_out", number(atomic_peek(&endpoint->bytes_out)));
    set(object, "bytes_in", number(atomic_peek(&endpoint->bytes_in)));
    set(object, "reconnects", number(atomic_peek(&endpoint->reconnects)));
    set(object, "queue_pairs", queues_make(endpoint));
    return object;
}

static json_t *endpoints_make(const struct status *status, const struct counters_worker *worker)
{
    json_t *array = json_array();

    for (size_t i = 0; i < COUNTERS_ENDPOINTS; i++)
        if (atomic_peek(&worker->endpoint[i].used))
            (void)json_array_append_new(array, endpoint_make(status, &worker->endpoint[i]));
    return array;
}

static json_t *gpus_make(const struct counters_worker *worker)
{
    json_t *array = json_array();

    for (size_t i = 0; i < COUNTERS_GPUS; i++) {
        const struct counters_gpu *gpu = &worker->gpu[i];
        json_t *object;

        if (!atomic_peek(&gpu->regions))
            continue;
        object = json_object();
        set(object, "gpu", text(gpu->gpu));
        set(object, "way", text(gpu->way));
        set(object, "why", text_or_null(gpu->why));
        set(object, "regions", number(atomic_peek(&gpu->regions)));
        set(object, "bytes", number(atomic_peek(&gpu->bytes)));
        (void)json_array_append_new(array, object);
    }
    return array;
}

static json_t *last_exit_make(const struct counters_worker_life *life)
{
    json_t *object;

    if (atomic_peek(&life->death_ns) == 0)
        return json_null();
    object = json_object();
    set(object, "reason", text(life->death));
    set(object, "at", time_or_null(atomic_peek(&life->death_ns)));
    return object;
}

static json_t *stats_make(const struct counters_worker_stats *stats)
{
    json_t *object = json_object();

    for (size_t i = 0; i < counters_worker_field_count; i++) {
        const void *word = (const char *)stats + counters_worker_fields[i].offset;

        set(object, counters_worker_fields[i].name, number(atomic_peek(word)));
    }
    return object;
}

static json_t *worker_make(const struct status *status, const struct counters_worker *worker)
{
    const struct counters_worker_life *life = &worker->life;
    uint64_t pid = atomic_peek(&life->pid);
    enum status_halt halt = status_worker_halt(status, worker);
    json_t *object = json_object();

    set(object, "pid", pid ? number(pid) : json_null());
    set(object, "state", json_string(halt ? "hung" : worker_state_name(atomic_peek(&life->state))));
    set(object, "stuck", stuck_make(&status->worker[worker - status->seen->worker]));
    set(object, "started", time_or_null(atomic_peek(&life->started_ns)));
    set(object, "ready_since", time_or_null(atomic_peek(&life->ready_ns)));
    set(object, "heartbeat_age_ms",
        age_or_null(status_heartbeat_age_ms(status, atomic_peek(&worker->stats.heartbeat_ns))));
    set(object, "restarts", number(atomic_peek(&life->restarts)));
    set(object, "last_exit", last_exit_make(life));
    set(object, "binding", text_or_null(life->bind));
    set(object, "counters", stats_make(&worker->stats));
    return object;
}

static json_t *pair_make(const struct status *status, const struct counters_worker *worker)
{
    const struct counters_worker_life *life = &worker->life;
    json_t *object = json_object();
    char fabric[STATUS_WORDS_MAX];

    status_words_fabric(worker, fabric, sizeof(fabric));
    set(object, "name", text(life->name));
    set(object, "nic", text_or_null(life->nic));
    set(object, "port", text_or_null(life->port));
    set(object, "gpu", text_or_null(life->gpu));
    set(object, "distance", text_or_null(life->distance));
    set(object, "numa_node", life->numa_node < 0 ? json_null() : json_integer(life->numa_node));
    set(object, "cpus", text_or_null(life->cpus));
    set(object, "fabric", text(life->fabric));
    set(object, "fabric_in_use", text(fabric));
    set(object, "reason", text(life->reason));
    set(object, "worker", worker_make(status, worker));
    set(object, "gpu_memory", gpus_make(worker));
    set(object, "endpoints", endpoints_make(status, worker));
    set(object, "errors", errors_make(worker->error));
    return object;
}

static json_t *pairs_make(const struct status *status)
{
    json_t *array = json_array();

    for (size_t i = 0; i < COUNTERS_WORKERS; i++)
        if (atomic_peek(&status->seen->worker[i].life.used))
            (void)json_array_append_new(array, pair_make(status, &status->seen->worker[i]));
    return array;
}

static json_t *session_make(const struct status *status, const struct counters_session *session)
{
    uint64_t worker = atomic_peek(&session->worker);
    json_t *object = json_object();

    set(object, "pid", number(atomic_peek(&session->pid)));
    set(object, "uid", number(atomic_peek(&session->uid)));
    set(object, "command", text(session->comm));
    set(object, "segment", text(session->segment));
    set(object, "pair",
        worker < COUNTERS_WORKERS ? text_or_null(status->seen->worker[worker].life.name)
                                  : json_null());
    set(object, "since", time_or_null(atomic_peek(&session->since_ns)));
    set(object, "channels", number(atomic_peek(&session->channels)));
    set(object, "regions", number(atomic_peek(&session->regions)));
    set(object, "remotes", number(atomic_peek(&session->remotes)));
    return object;
}

static json_t *sessions_make(const struct status *status)
{
    json_t *array = json_array();

    for (size_t i = 0; i < COUNTERS_SESSIONS; i++)
        if (atomic_peek(&status->seen->session[i].used))
            (void)json_array_append_new(array, session_make(status, &status->seen->session[i]));
    return array;
}

static json_t *rate_make(const struct status_rate *rate)
{
    json_t *object = json_object();

    set(object, "bytes_out", json_real(rate->bytes_out));
    set(object, "bytes_in", json_real(rate->bytes_in));
    set(object, "ops_out", json_real(rate->ops_out));
    set(object, "ops_in", json_real(rate->ops_in));
    set(object, "notify_out", json_real(rate->notes_out));
    set(object, "notify_in", json_real(rate->notes_in));
    set(object, "credit_waits", json_real(rate->credit_waits));
    set(object, "again", json_real(rate->refusals));
    return object;
}

static json_t *rates_make(const struct status *status, const struct status_rates *rates)
{
    json_t *object = json_object(), *pairs = json_object(), *nics = json_object();
    const struct counters_worker *worker = NULL;

    while ((worker = status_worker_next(status, worker)))
        set(pairs, worker->life.name, rate_make(&rates->pair[worker - status->seen->worker]));
    for (size_t i = 0; i < rates->nic_count; i++)
        set(nics, rates->nic[i].nic, rate_make(&rates->nic[i].rate));
    set(object, "seconds", json_real(rates->seconds));
    set(object, "pairs", pairs);
    set(object, "nics", nics);
    return object;
}

json_t *status_json_make(const struct status *status, const struct status_rates *rates)
{
    json_t *document = json_object();
    json_t *reasons = json_array();

    for (size_t i = 0; i < status->reason_count; i++)
        (void)json_array_append_new(reasons, text(status->reason[i]));
    set(document, "supervisor", supervisor_make(status));
    set(document, "health", json_string(status->reason_count ? "degraded" : "ok"));
    set(document, "reasons", reasons);
    set(document, "pairs", pairs_make(status));
    set(document, "sessions", sessions_make(status));
    if (rates && rates->seconds > 0)
        set(document, "rates", rates_make(status, rates));
    return document;
}
