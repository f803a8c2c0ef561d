#include "supervisor/command/run_bind.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/counters.h"
#include "shm/err.h"
#include "shm/visible.h"
#include "supervisor/command/locate.h"
#include "supervisor/job/place.h"
#include "supervisor/worker/bind.h"
#include "supervisor/worker/cpu_list.h"

static int workers_copy(const struct counters_segment *counters, struct topology_plan *plan)
{
    struct counters_worker_life life;

    plan->count = 0;
    for (size_t i = 0; i < COUNTERS_WORKERS; i++) {
        const struct counters_worker_life *live = &counters->worker[i].life;
        struct topology_pair *pair = &plan->pair[plan->count];

        if (atomic_peek(&live->used) == 0)
            continue;
        if (!counters_snapshot(live, &life, sizeof(life)))
            return -1;
        *pair = (struct topology_pair){.node = (int)life.numa_node};
        snprintf(pair->name, sizeof(pair->name), "%.63s", life.name);
        snprintf(pair->nic, sizeof(pair->nic), "%.63s", life.nic);
        snprintf(pair->gpu, sizeof(pair->gpu), "%.63s", life.gpu);
        snprintf(pair->cpus, sizeof(pair->cpus), "%.63s", life.cpus);
        plan->count++;
    }
    return 0;
}

/* The workers that run, as a plan: they are asked for by their counters, so none has to answer. */
static int workers_read(const struct options_paths *paths, struct topology_plan *plan, char *text,
                        size_t text_size)
{
    struct counters_segment *counters;
    struct located found;
    int rc = -1;

    if (locate_supervisor(paths, &found, text, text_size) != LOCATE_FOUND)
        return -1;
    int fd = locate_counters_open(&found, text, text_size);
    if (fd < 0)
        return -1;
    if (counters_map(fd, false, &counters) != TS_OK)
        snprintf(text, text_size, "the counters of %s are of another version", paths->socket);
    else
        rc = workers_copy(counters, plan);
    if (rc < 0 && counters != NULL)
        snprintf(text, text_size, "the counters of %s change all the time", paths->socket);
    if (counters != NULL)
        counters_unmap(counters);
    close(fd);
    return rc;
}

/* "gpu:2" is one of those that the job will see. */
static int words_resolve(const char *words, char resolved[VISIBLE_GPU_MAX + 4], char *text,
                         size_t text_size)
{
    char gpu[VISIBLE_GPU_MAX];
    char *end;

    snprintf(resolved, VISIBLE_GPU_MAX + 4, "%s", words);
    if (strncmp(words, "gpu:", 4) != 0 || words[4] < '0' || words[4] > '9')
        return 0;
    unsigned long index = strtoul(words + 4, &end, 10);
    if (*end != '\0')
        return 0;
    if (index > 1024 || visible_gpu(getenv("CUDA_VISIBLE_DEVICES"), VISIBLE_DRIVER, (unsigned)index,
                                    gpu, text, text_size) != TS_OK)
        return -1;
    snprintf(resolved, VISIBLE_GPU_MAX + 4, "gpu:%s", gpu);
    return 0;
}

static const struct topology_pair *worker_find(const struct topology *topology,
                                               const struct topology_plan *plan,
                                               const struct place *place)
{
    const struct topology_pair *best = NULL;

    for (size_t i = 0; i < plan->count; i++) {
        const struct topology_pair *pair = &plan->pair[i];
        if (place_matches(place, pair) &&
            (!best || place_node_steps(topology, place->node, pair) <
                          place_node_steps(topology, place->node, best)))
            best = pair;
    }
    return best;
}

static bool cpu_is_a_workers(const struct topology_plan *plan, int cpu)
{
    for (size_t i = 0; i < plan->count; i++)
        if (cpu_list_contains(plan->pair[i].cpus, cpu))
            return true;
    return false;
}

/* The node's CPUs, and those of them that no worker has. */
static char *cpus_of_node(const struct topology *topology, const struct topology_plan *plan,
                          int os_index)
{
    enum { CPUS_MAX = 8192 };
    const struct topology_node *node;
    size_t count = topology_nodes(topology, &node), length = 0;
    char *list = NULL;

    for (size_t i = 0; i < count; i++) {
        if (node[i].os_index != os_index)
            continue;
        size_t room = node[i].cpu_count * 5 + 1;
        list = calloc(1, room);
        for (int cpu = 0; list && cpu < CPUS_MAX && length < room; cpu++)
            if (cpu_list_contains(node[i].cpus, cpu) && !cpu_is_a_workers(plan, cpu))
                length +=
                    (size_t)snprintf(list + length, room - length, "%s%d", length ? "," : "", cpu);
        if (list && length == 0) {
            free(list);
            list = strdup(node[i].cpus);
        }
    }
    return list;
}

int run_bind_find(const struct options_paths *paths, const char *words, struct run_bind *bind,
                  char *text, size_t text_size)
{
    static struct topology_plan plan;
    char resolved[VISIBLE_GPU_MAX + 4];
    struct topology *topology = NULL;
    struct place place;
    int rc = -1;

    *bind = (struct run_bind){0};
    if (words_resolve(words, resolved, text, text_size) < 0 ||
        workers_read(paths, &plan, text, text_size) < 0 ||
        topology_load(NULL, &topology, text, text_size) < 0 ||
        place_parse(resolved, topology, &place, text, text_size) < 0)
        goto out;
    const struct topology_pair *pair = worker_find(topology, &plan, &place);
    if (!pair) {
        snprintf(text, text_size, "no worker has the name, NIC or GPU %s; see `tesup status`",
                 words);
        goto out;
    }
    bind->node = place.kind == PLACE_NODE ? place.node : pair->node;
    bind->cpus = cpus_of_node(topology, &plan, bind->node);
    rc = bind->cpus ? 0 : -1;
    if (rc < 0)
        snprintf(text, text_size, "worker %s is on NUMA node %d, which is not of this machine",
                 pair->name, bind->node);
out:
    topology_free(topology);
    return rc;
}

void run_bind_free(struct run_bind *bind)
{
    free(bind->cpus);
    bind->cpus = NULL;
}

int run_bind_apply(const struct run_bind *bind)
{
    if (!bind->cpus)
        return 0;
    if (bind->cpus[0] && bind_cpus(bind->cpus) < 0) {
        fprintf(stderr, "tesup run: --bind: CPUs %s: %s\n", bind->cpus, strerror(errno));
        return -1;
    }
    if (bind_memory(bind->node) < 0) {
        fprintf(stderr,
                "tesup run: --bind: memory of node %d: %s; a container needs CAP_SYS_NICE, or go "
                "without --bind\n",
                bind->node, strerror(errno));
        return -1;
    }
    return 0;
}
