#include "supervisor/topology/gpus.h"

#include <stdarg.h>
#include <stdio.h>

#include "topology/topology.h"

void gpu_facts_read(struct gpu_facts *facts)
{
    char why[160];
    struct nvml *nvml = nvml_open(why, sizeof(why));

    *facts = (struct gpu_facts){0};
    if (!nvml)
        return;
    facts->count = nvml_gpus(nvml, facts->gpu);
    for (unsigned i = 0; i < facts->count; i++) {
        for (unsigned k = 0; k < facts->count; k++)
            facts->linked[i][k] =
                nvml_is_nvlinked(nvml, facts->gpu[i].bus_id, facts->gpu[k].bus_id);
    }
    nvml_close(nvml);
}

void gpu_facts_name(const struct gpu_facts *facts, struct topology *topology)
{
    for (unsigned i = 0; i < facts->count; i++) {
        const struct nvml_gpu *gpu = &facts->gpu[i];

        topology_name_gpu(topology, gpu->bus_id, gpu->uuid);
        for (unsigned k = 0; k < gpu->mig_count; k++)
            topology_name_instance(topology, gpu->bus_id, gpu->mig[k]);
    }
}

const struct nvml_gpu *gpu_facts_find(const struct gpu_facts *facts, const char *bus_id)
{
    for (unsigned i = 0; i < facts->count; i++) {
        if (topology_bus_id_equal(facts->gpu[i].bus_id, bus_id))
            return &facts->gpu[i];
    }
    return NULL;
}

bool gpu_facts_linked(const struct gpu_facts *facts, const char *one, const char *other)
{
    const struct nvml_gpu *first = gpu_facts_find(facts, one);
    const struct nvml_gpu *second = gpu_facts_find(facts, other);

    return first && second && facts->linked[first - facts->gpu][second - facts->gpu];
}

__attribute__((format(printf, 4, 5))) static void append(char *text, size_t size, size_t *used,
                                                         const char *format, ...)
{
    va_list args;
    int length;

    if (*used >= size)
        return;
    va_start(args, format);
    length = vsnprintf(text + *used, size - *used, format, args);
    va_end(args);
    *used += length > 0 ? (size_t)length : 0;
}

void gpu_facts_print(const struct gpu_facts *facts, const char *bus_id, char *text, size_t size)
{
    const struct nvml_gpu *gpu = gpu_facts_find(facts, bus_id);
    const char *before = ": ";
    size_t used = 0;

    text[0] = '\0';
    if (!gpu)
        return;
    if (gpu->nvlinks)
        append(text, size, &used, "%u NVLinks", gpu->nvlinks);
    for (unsigned i = 0; gpu->nvlinks && i < facts->count; i++) {
        if (!facts->linked[gpu - facts->gpu][i])
            continue;
        append(text, size, &used, "%s%s", before, facts->gpu[i].bus_id);
        before = ", ";
    }
    if (gpu->mig_count)
        append(text, size, &used, "%s%u MIG instances", used ? "; " : "", gpu->mig_count);
}
