#include "supervisor/worker/choose.h"

#include <stdio.h>
#include <string.h>

#include "shm/err.h"
#include "supervisor/job/place.h"
#include "supervisor/worker/cpu_list.h"

static int node_of_cpu(const struct supervisor *supervisor, int cpu)
{
    const struct topology_node *nodes;
    size_t count = topology_nodes(supervisor->topology, &nodes);

    for (size_t i = 0; i < count && cpu >= 0; i++)
        if (cpu_list_contains(nodes[i].cpus, cpu))
            return nodes[i].os_index;
    return -1;
}

/* One that was given up last; then the nearest to the node; then ready ones; then the fewest jobs.
 */
static bool worker_is_better(const struct supervisor *supervisor, int node,
                             const struct worker_process *one, const struct worker_process *other)
{
    bool one_ready = one->state == WORKER_STATE_READY;
    bool other_ready = other->state == WORKER_STATE_READY;
    bool one_failed = one->state == WORKER_STATE_FAILED;
    bool other_failed = other->state == WORKER_STATE_FAILED;
    unsigned one_steps = place_node_steps(supervisor->topology, node, one->pair);
    unsigned other_steps = place_node_steps(supervisor->topology, node, other->pair);

    if (one_failed != other_failed)
        return other_failed;
    if (one_steps != other_steps)
        return one_steps < other_steps;
    if (one_ready != other_ready)
        return one_ready;
    return one->job_count < other->job_count;
}

static struct worker_process *worker_best(struct supervisor *supervisor, const struct place *place)
{
    struct worker_process *best = NULL;

    for (unsigned i = 0; i < supervisor->worker_count; i++) {
        struct worker_process *worker = &supervisor->workers[i];

        if (place_matches(place, worker->pair) &&
            (best == NULL || worker_is_better(supervisor, place->node, worker, best)))
            best = worker;
    }
    return best;
}

static void pairs_list(const struct supervisor *supervisor, char *text, size_t text_size)
{
    size_t length = strlen(text);

    for (size_t i = 0; i < supervisor->plan.count && length < text_size; i++)
        length += (size_t)snprintf(text + length, text_size - length, "%s%s", i > 0 ? ", " : "",
                                   supervisor->plan.pair[i].name);
}

struct worker_process *worker_choose(struct supervisor *supervisor, const char *wanted, int cpu,
                                     int *status, char *text, size_t text_size)
{
    struct place place = {.kind = PLACE_NODE, .node = node_of_cpu(supervisor, cpu)};
    struct worker_process *worker;

    *status = TS_ERR_NOT_FOUND;
    if (wanted[0] != '\0' && place_parse(wanted, supervisor->topology, &place, text, text_size) < 0)
        return NULL;
    worker = worker_best(supervisor, &place);
    if (worker == NULL) {
        snprintf(text, text_size, "no worker has the name, NIC or GPU %s; there are ", wanted);
        pairs_list(supervisor, text, text_size);
        return NULL;
    }
    if (worker->state == WORKER_STATE_FAILED) {
        snprintf(text, text_size, "worker %s has failed; `tesup status` says why",
                 worker->pair->name);
        *status = TS_ERR_UNREACHABLE;
        return NULL;
    }
    *status = TS_OK;
    return worker;
}
