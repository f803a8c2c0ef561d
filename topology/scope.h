/* What a plan may use: GPUs and NIC ports that are not excluded, cores that are not reserved. */
#ifndef TESUP_TOPOLOGY_SCOPE_H
#define TESUP_TOPOLOGY_SCOPE_H

#include "topology/cores.h"

#define SCOPE_NONE SIZE_MAX

struct scope_nic {
    size_t device; /* index in topology->device */
    unsigned port; /* index */
    bool usable;   /* else only a rule may name it */
    char name[TOPOLOGY_LABEL_MAX];
};

struct scope {
    const struct topology *topology;
    size_t gpu_count;
    size_t *gpu; /* indexes in topology->device */
    size_t nic_count;
    struct scope_nic *nic;
    struct cores cores;
    char no_nic[TOPOLOGY_TEXT_MAX]; /* why there is no usable NIC; "": there is */
};

/* 0, or -1 with a sentence in text. Free with scope_free(). */
int scope_make(struct scope *scope, const struct topology *topology,
               const struct topology_rules *rules, char *text, size_t text_size);
void scope_free(struct scope *scope);

/* By name, or bus id however it is written; SCOPE_NONE. */
size_t scope_gpu_find(const struct scope *scope, const char *name);
/* The GPU that has this MIG instance, and the instance's UUID in *uuid; SCOPE_NONE. */
size_t scope_instance_find(const struct scope *scope, const char *name, const char **uuid);
size_t scope_nic_find(const struct scope *scope, const char *name);
/* "a, b, c"; "none". */
void scope_instances_list(const struct scope *scope, char *text, size_t text_size);
void scope_gpus_list(const struct scope *scope, char *text, size_t text_size);
void scope_nics_list(const struct scope *scope, char *text, size_t text_size);

#endif
