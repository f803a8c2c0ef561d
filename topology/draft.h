/* The workers of a plan before they have a core: who serves which GPU through which NIC. */
#ifndef TESUP_TOPOLOGY_DRAFT_H
#define TESUP_TOPOLOGY_DRAFT_H

#include "topology/distance.h"
#include "topology/scope.h"

/* A rule whose words were looked up (rules.c). */
struct claim {
    const struct topology_rule *rule;
    size_t gpu, nic;      /* indexes in the scope, or SCOPE_NONE */
    const char *instance; /* UUID of the MIG instance of that GPU; NULL: all of the GPU */
    size_t node;          /* index in topology->node, or SCOPE_NONE */
    hwloc_bitmap_t cpus;  /* NULL: not said */
};

struct draft_pair {
    char name[TOPOLOGY_LABEL_MAX];
    size_t gpu, nic;    /* indexes in the scope, or SCOPE_NONE */
    size_t node;        /* of a worker with neither: index in topology->node */
    struct route route; /* between NIC and GPU */
    const struct claim *claim;
};

struct draft {
    unsigned asked; /* a number of workers; 0: as the devices have it */
    size_t count;
    struct draft_pair pair[TOPOLOGY_PAIRS_MAX];
};

/* 0, or -1 with a sentence in text. */
int draft_make(const struct scope *scope, const struct claim *claims, size_t claim_count,
               struct draft *draft, char *text, size_t text_size);

/* How many usable NICs are as near to the GPU of this pair, and how many GPUs share its NIC. */
size_t draft_nearest_nics(const struct scope *scope, const struct draft_pair *pair);
size_t draft_gpus_of_nic(const struct draft *draft, size_t nic);

#endif
