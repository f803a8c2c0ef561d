/* What NVML adds to a live machine's topology: identities, links, MIG instances. */
#ifndef TESUP_SUPERVISOR_TOPOLOGY_GPUS_H
#define TESUP_SUPERVISOR_TOPOLOGY_GPUS_H

#include "shm/nvml.h"

struct topology;

/* Without NVML, and for the machine of an XML file: nothing, count 0. */
struct gpu_facts {
    unsigned count;
    struct nvml_gpu gpu[NVML_GPUS_MAX];
    bool linked[NVML_GPUS_MAX][NVML_GPUS_MAX]; /* by NVLink */
};

/* Asks this machine's driver; a machine without one has no facts, and that is no error. */
void gpu_facts_read(struct gpu_facts *facts);
/* Tells the topology what they are called. */
void gpu_facts_name(const struct gpu_facts *facts, struct topology *topology);
/* By bus id; NULL: nothing is known of it. */
const struct nvml_gpu *gpu_facts_find(const struct gpu_facts *facts, const char *bus_id);
bool gpu_facts_linked(const struct gpu_facts *facts, const char *one, const char *other);
/* "4 NVLinks: 0000:65:00.0; 2 MIG instances"; "" when there is neither. */
void gpu_facts_print(const struct gpu_facts *facts, const char *bus_id, char *text, size_t size);

#endif
