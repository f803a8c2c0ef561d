/* A NIC takes any number of GPUs, so the sum of ranks is smallest exactly when each GPU has one of
 * its nearest NICs.  What is left is to even out the load among those (a "semi-matching"): a load
 * can be better by moving a GPU, whose place another one of that NIC makes free by moving on, and
 * so on.  When no such chain leads to a NIC with two GPUs less, no assignment is more even.
 */
#include "topology/assign.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct work {
    size_t gpus, nics;
    bool *may_use;   /* [gpu * nics + nic] */
    size_t fixed;    /* the first GPUs, which stay where they are */
    size_t *nic_of;  /* [gpu] */
    size_t *load;    /* [nic] */
    size_t *via_gpu; /* [nic]: the GPU that would move here, on the chain that found the NIC */
    size_t *queue;   /* [nic] */
};

static bool gpu_may_use(const struct work *work, size_t gpu, size_t nic)
{
    return work->may_use[gpu * work->nics + nic];
}

/* The NICs at the smallest rank, or the one that is forced. */
static void work_allow(struct work *work, const struct assign_problem *problem)
{
    for (size_t gpu = 0; gpu < work->gpus; gpu++) {
        const unsigned *rank = &problem->rank[gpu * work->nics];
        unsigned nearest = rank[0];
        for (size_t nic = 1; nic < work->nics; nic++)
            nearest = rank[nic] < nearest ? rank[nic] : nearest;
        for (size_t nic = 0; nic < work->nics; nic++)
            work->may_use[gpu * work->nics + nic] = problem->forced[gpu] == ASSIGN_FREE
                                                        ? rank[nic] == nearest
                                                        : problem->forced[gpu] == nic;
    }
}

static void gpu_move(struct work *work, size_t gpu, size_t nic)
{
    if (work->nic_of[gpu] != ASSIGN_FREE)
        work->load[work->nic_of[gpu]]--;
    work->nic_of[gpu] = nic;
    work->load[nic]++;
}

/* Looks for the shortest chain of moves from `from` to a NIC that has two GPUs less; via_gpu then
 * leads back from it. */
static size_t chain_find(struct work *work, size_t from)
{
    size_t head = 0;
    size_t tail = 0;

    for (size_t nic = 0; nic < work->nics; nic++)
        work->via_gpu[nic] = ASSIGN_FREE;
    work->queue[tail++] = from;
    while (head < tail) {
        size_t here = work->queue[head++];
        if (work->load[here] + 2 <= work->load[from])
            return here;
        for (size_t gpu = work->fixed; gpu < work->gpus; gpu++)
            for (size_t nic = 0; work->nic_of[gpu] == here && nic < work->nics; nic++)
                if (nic != from && work->via_gpu[nic] == ASSIGN_FREE &&
                    gpu_may_use(work, gpu, nic)) {
                    work->via_gpu[nic] = gpu;
                    work->queue[tail++] = nic;
                }
    }
    return ASSIGN_FREE;
}

static size_t load_smallest(const struct work *work)
{
    size_t smallest = work->load[0];

    for (size_t nic = 1; nic < work->nics; nic++)
        smallest = work->load[nic] < smallest ? work->load[nic] : smallest;
    return smallest;
}

static bool load_improve(struct work *work)
{
    size_t smallest = load_smallest(work);

    for (size_t from = 0; from < work->nics; from++) {
        size_t nic = work->load[from] < smallest + 2 ? ASSIGN_FREE : chain_find(work, from);
        if (nic == ASSIGN_FREE)
            continue;
        while (nic != from) {
            size_t gpu = work->via_gpu[nic];
            size_t before = work->nic_of[gpu];
            gpu_move(work, gpu, nic);
            nic = before;
        }
        return true;
    }
    return false;
}

/* Places the GPUs that are not fixed. The sum of squares of all loads. */
static size_t work_solve(struct work *work)
{
    size_t squares = 0;

    for (size_t gpu = work->fixed; gpu < work->gpus; gpu++) {
        size_t best = ASSIGN_FREE;
        for (size_t nic = 0; nic < work->nics; nic++)
            if (gpu_may_use(work, gpu, nic) &&
                (best == ASSIGN_FREE || work->load[nic] < work->load[best]))
                best = nic;
        gpu_move(work, gpu, best);
    }
    while (load_improve(work))
        continue;
    for (size_t nic = 0; nic < work->nics; nic++)
        squares += work->load[nic] * work->load[nic];
    return squares;
}

/* Gives one GPU after the other the first NIC with which the rest can still be as even. */
static void work_order(struct work *work)
{
    size_t best = work_solve(work);

    for (size_t gpu = 0; gpu < work->gpus; gpu++) {
        work->fixed = gpu + 1;
        for (size_t nic = 0; nic < work->nics; nic++) {
            if (!gpu_may_use(work, gpu, nic))
                continue;
            gpu_move(work, gpu, nic);
            if (work_solve(work) == best)
                break;
        }
    }
}

int assign_solve(const struct assign_problem *problem, size_t *nic_of)
{
    struct work work = {.gpus = problem->gpus, .nics = problem->nics, .nic_of = nic_of};
    size_t *room = calloc(3 * work.nics, sizeof(*room));
    int rc = -1;

    work.may_use = calloc(work.gpus * work.nics + 1, sizeof(*work.may_use));
    if (!room || !work.may_use)
        goto out;
    work.load = room;
    work.via_gpu = room + work.nics;
    work.queue = room + 2 * work.nics;
    for (size_t gpu = 0; gpu < work.gpus; gpu++)
        nic_of[gpu] = ASSIGN_FREE;
    work_allow(&work, problem);
    work_order(&work);
    rc = 0;
out:
    free(work.may_use);
    free(room);
    return rc;
}
