#include "supervisor/worker_choose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/err.h"

bool cpu_list_contains(const char *list, int cpu)
{
    while (*list != '\0') {
        char *end;
        long first = strtol(list, &end, 10), last = first;

        if (end == list)
            return false;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        if (cpu >= first && cpu <= last)
            return true;
        list = *end == ',' ? end + 1 : end;
    }
    return false;
}

static int node_of_cpu(const struct supervisor *supervisor, int cpu)
{
    const struct topology_node *nodes;
    size_t count = topology_nodes(supervisor->topology, &nodes);

    for (size_t i = 0; i < count && cpu >= 0; i++)
        if (cpu_list_contains(nodes[i].cpus, cpu))
            return nodes[i].os_index;
    return -1;
}

static bool pair_is_named(const struct topology_pair *pair, const char *name)
{
    return strcmp(pair->name, name) == 0 ||
           (pair->nic[0] != '\0' && strcmp(pair->nic, name) == 0) ||
           (pair->gpu[0] != '\0' && strcmp(pair->gpu, name) == 0);
}

/* Ready before starting before given up; then the fewest jobs. */
static bool worker_is_better(const struct worker_process *one, const struct worker_process *other)
{
    bool one_ready = one->state == WORKER_STATE_READY;
    bool other_ready = other->state == WORKER_STATE_READY;
    bool one_failed = one->state == WORKER_STATE_FAILED;
    bool other_failed = other->state == WORKER_STATE_FAILED;

    if (one_failed != other_failed)
        return other_failed;
    if (one_ready != other_ready)
        return one_ready;
    return one->job_count < other->job_count;
}

/* The best of those with this name (NULL: any) on this node (-1: any). */
static struct worker_process *worker_best(struct supervisor *supervisor, const char *name, int node)
{
    struct worker_process *best = NULL;

    for (unsigned i = 0; i < supervisor->worker_count; i++) {
        struct worker_process *worker = &supervisor->workers[i];

        if (name != NULL && !pair_is_named(worker->pair, name))
            continue;
        if (node >= 0 && worker->pair->node != node)
            continue;
        if (best == NULL || worker_is_better(worker, best))
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
    struct worker_process *worker;

    if (wanted[0] != '\0') {
        worker = worker_best(supervisor, wanted, -1);
    } else {
        int node = node_of_cpu(supervisor, cpu);

        worker = node >= 0 ? worker_best(supervisor, NULL, node) : NULL;
        if (worker == NULL || worker->state == WORKER_STATE_FAILED)
            worker = worker_best(supervisor, NULL, -1);
    }
    if (worker == NULL) {
        snprintf(text, text_size, "no worker, NIC or GPU is named %s; there are ", wanted);
        pairs_list(supervisor, text, text_size);
        *status = TS_ERR_NOT_FOUND;
        return NULL;
    }
    if (worker->state == WORKER_STATE_FAILED) {
        snprintf(text, text_size, "worker %s has failed; `tesup status` says why",
                 worker->pair->name);
        *status = TS_ERR_UNREACHABLE;
        return NULL;
    }
    return worker;
}
