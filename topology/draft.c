#include "topology/draft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/assign.h"
#include "topology/name.h"

#define RANK_FORBIDDEN 1000u /* farther than anything that route_find() says */

static struct route scope_route(const struct scope *scope, size_t gpu, size_t nic)
{
    return route_find(scope->topology, scope->gpu[gpu], scope->nic[nic].device);
}

static const struct claim *claim_of_gpu(const struct claim *claims, size_t count, size_t gpu)
{
    for (size_t i = 0; i < count; i++)
        if (claims[i].gpu == gpu)
            return &claims[i];
    return NULL;
}

static int pair_add(struct draft *draft, const struct draft_pair *pair, char *text,
                    size_t text_size)
{
    if (draft->count == TOPOLOGY_PAIRS_MAX)
        return topology_fail(text, text_size,
                             "this machine needs more than %d workers; leave devices out with "
                             "exclude, or give the number of workers with --workers N",
                             TOPOLOGY_PAIRS_MAX);
    for (size_t i = 0; i < draft->count; i++)
        if (strcmp(draft->pair[i].name, pair->name) == 0)
            return topology_fail(text, text_size,
                                 "two workers would be named %s; give the "
                                 "[pair] another name",
                                 pair->name);
    draft->pair[draft->count++] = *pair;
    return 0;
}

/* GPUs that must do without a NIC are not in the problem: nic_of says SCOPE_NONE for them. */
static int nics_assign(const struct scope *scope, const struct claim *claims, size_t claim_count,
                       size_t *nic_of)
{
    size_t cells = scope->gpu_count * scope->nic_count;
    unsigned *rank = calloc(cells + 1, sizeof(*rank));
    size_t *forced = calloc(scope->gpu_count + 1, sizeof(*forced));
    int rc = rank && forced ? 0 : -1;

    for (size_t gpu = 0; rc == 0 && gpu < scope->gpu_count; gpu++) {
        const struct claim *claim = claim_of_gpu(claims, claim_count, gpu);
        forced[gpu] = claim && !claim->instance ? claim->nic : SCOPE_NONE;
        for (size_t nic = 0; nic < scope->nic_count; nic++)
            rank[gpu * scope->nic_count + nic] =
                scope->nic[nic].usable ? scope_route(scope, gpu, nic).rank : RANK_FORBIDDEN;
    }
    if (rc == 0 && scope->nic_count > 0)
        rc = assign_solve(
            &(struct assign_problem){scope->gpu_count, scope->nic_count, rank, forced}, nic_of);
    for (size_t gpu = 0; rc == 0 && gpu < scope->gpu_count; gpu++)
        if (scope->nic_count == 0 || (forced[gpu] == SCOPE_NONE && !scope->nic[nic_of[gpu]].usable))
            nic_of[gpu] = SCOPE_NONE;
    free(rank);
    free(forced);
    return rc;
}

static int gpu_pair_add(const struct scope *scope, const struct claim *claim, size_t gpu,
                        size_t nic, struct draft *draft, char *text, size_t text_size)
{
    struct draft_pair pair = {.gpu = gpu, .nic = nic, .node = SCOPE_NONE, .claim = claim};
    bool has_nic = nic != SCOPE_NONE;

    if (has_nic)
        pair.route = scope_route(scope, gpu, nic);
    name_of_pair(has_nic ? scope->nic[nic].name : "",
                 scope->topology->device[scope->gpu[gpu]].bus_id, pair.name);
    if (claim)
        snprintf(pair.name, sizeof(pair.name), "%s", claim->rule->name);
    return pair_add(draft, &pair, text, text_size);
}

/* A GPU has one worker, or one for each of its MIG instances that a rule names. */
static int gpu_pairs_add(const struct scope *scope, const struct claim *claims, size_t claim_count,
                         const size_t *nic_of, struct draft *draft, char *text, size_t text_size)
{
    int rc = 0;

    for (size_t gpu = 0; rc == 0 && gpu < scope->gpu_count; gpu++) {
        const struct claim *claim = claim_of_gpu(claims, claim_count, gpu);

        if (!claim || !claim->instance) {
            rc = gpu_pair_add(scope, claim, gpu, nic_of[gpu], draft, text, text_size);
            continue;
        }
        for (; rc == 0 && claim < claims + claim_count; claim++)
            if (claim->gpu == gpu)
                rc = gpu_pair_add(scope, claim, gpu,
                                  claim->nic != SCOPE_NONE ? claim->nic : nic_of[gpu], draft, text,
                                  text_size);
    }
    return rc;
}

/* Claimed ones, then those that no GPU has. */
static int nic_pairs_add(const struct scope *scope, const struct claim *claims, size_t claim_count,
                         struct draft *draft, char *text, size_t text_size)
{
    bool claimed[TOPOLOGY_PAIRS_MAX] = {false};

    for (size_t nic = 0; nic < scope->nic_count; nic++) {
        bool used = draft_gpus_of_nic(draft, nic) > 0 || !scope->nic[nic].usable;
        for (size_t i = 0; i < claim_count; i++) {
            struct draft_pair pair = {
                .gpu = SCOPE_NONE, .nic = nic, .node = SCOPE_NONE, .claim = &claims[i]};
            if (claims[i].gpu != SCOPE_NONE || claims[i].nic != nic || claimed[i])
                continue;
            claimed[i] = true;
            used = true;
            snprintf(pair.name, sizeof(pair.name), "%s", claims[i].rule->name);
            if (pair_add(draft, &pair, text, text_size) < 0)
                return -1;
        }
        struct draft_pair pair = {.gpu = SCOPE_NONE, .nic = nic, .node = SCOPE_NONE};
        name_of_pair(scope->nic[nic].name, "", pair.name);
        if (!used && pair_add(draft, &pair, text, text_size) < 0)
            return -1;
    }
    return 0;
}

/* Without GPUs and NICs: so that the same commands work on a laptop. */
static int node_workers_add(const struct scope *scope, const struct claim *claims,
                            size_t claim_count, struct draft *draft, char *text, size_t text_size)
{
    for (size_t node = 0; node < scope->topology->node_count; node++) {
        struct draft_pair pair = {.gpu = SCOPE_NONE, .nic = SCOPE_NONE, .node = node};

        if (!cores_node_has_any(&scope->cores, node))
            continue;
        name_of_node_worker(scope->topology->node[node].os_index, 0, pair.name);
        for (size_t i = 0; i < claim_count; i++)
            if (strcmp(claims[i].rule->name, pair.name) == 0)
                pair.claim = &claims[i];
        if (pair_add(draft, &pair, text, text_size) < 0)
            return -1;
    }
    return 0;
}

int draft_make(const struct scope *scope, const struct claim *claims, size_t claim_count,
               struct draft *draft, char *text, size_t text_size)
{
    size_t *nic_of = calloc(scope->gpu_count + 1, sizeof(*nic_of));
    int rc = -1;

    *draft = (struct draft){0};
    if (!nic_of || nics_assign(scope, claims, claim_count, nic_of) < 0)
        topology_fail(text, text_size, "no memory for the plan");
    else if (gpu_pairs_add(scope, claims, claim_count, nic_of, draft, text, text_size) == 0 &&
             nic_pairs_add(scope, claims, claim_count, draft, text, text_size) == 0)
        rc = draft->count > 0
                 ? 0
                 : node_workers_add(scope, claims, claim_count, draft, text, text_size);
    free(nic_of);
    return rc;
}

size_t draft_nearest_nics(const struct scope *scope, const struct draft_pair *pair)
{
    size_t count = 0;

    for (size_t nic = 0; nic < scope->nic_count; nic++)
        count +=
            scope->nic[nic].usable && scope_route(scope, pair->gpu, nic).rank == pair->route.rank;
    return count;
}

size_t draft_gpus_of_nic(const struct draft *draft, size_t nic)
{
    size_t count = 0;

    for (size_t i = 0; i < draft->count; i++)
        count += draft->pair[i].gpu != SCOPE_NONE && draft->pair[i].nic == nic;
    return count;
}
