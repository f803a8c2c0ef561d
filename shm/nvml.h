/* NVIDIA's management library, opened at run time: who the GPUs are, how they reach each other, and
 * whether one of them broke.  It makes no CUDA context and needs no rights.
 *
 * Bus ids are as in sysfs: "0000:44:00.0".
 */
#ifndef TESUP_SHM_NVML_H
#define TESUP_SHM_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NVML_GPUS_MAX 64
#define NVML_UUID     48
#define NVML_MIG_MAX  8

struct nvml; /* the library, initialised */

struct nvml_gpu {
    char bus_id[16];
    char uuid[NVML_UUID]; /* "GPU-…" */
    int numa_node;        /* the nearest memory, -1 unknown */
    unsigned nvlinks;     /* that are up, to whomever */
    unsigned mig_count;
    char mig[NVML_MIG_MAX][NVML_UUID]; /* "MIG-…" of its instances */
};

/* How a pair reaches each other over PCIe; the numbers are NVML's. */
enum nvml_path {
    NVML_PATH_UNKNOWN = -1,
    NVML_PATH_BOARD = 0,
    NVML_PATH_SWITCH = 10,
    NVML_PATH_SWITCHES = 20,
    NVML_PATH_HOST_BRIDGE = 30,
    NVML_PATH_NODE = 40,
    NVML_PATH_SYSTEM = 50,
};

/* What happened to a GPU. Only the severe ones mean that its contexts are of no use any more; an
 * Xid of a program that made a mistake is its own affair. */
struct nvml_event {
    bool severe;
    uint64_t xid;   /* 0: none */
    char text[128]; /* "Xid 79 (the GPU has fallen off the bus)" */
};

/* NULL without the library or a driver that runs, with the reason in text. */
struct nvml *nvml_open(char *text, size_t size);
void nvml_close(struct nvml *nvml);

/* All GPUs of the machine, in NVML's order, at most NVML_GPUS_MAX; what cannot be read is unknown.
 * CUDA_VISIBLE_DEVICES does not matter here. */
unsigned nvml_gpus(const struct nvml *nvml, struct nvml_gpu gpus[NVML_GPUS_MAX]);
enum nvml_path nvml_path(const struct nvml *nvml, const char *one, const char *other);
/* True when they reach each other by NVLink, also through switches. */
bool nvml_is_nvlinked(const struct nvml *nvml, const char *one, const char *other);

/* From now on what happens to this GPU is kept for nvml_watch_poll. 0, or TS_ERR_*: no such GPU, or
 * it reports nothing (then text says so). One GPU per watch. */
struct nvml_watch;
int nvml_watch_open(const struct nvml *nvml, const char *bus_id, struct nvml_watch **watch,
                    char *text, size_t size);
/* Looks without waiting; true: *event is the next one. */
bool nvml_watch_poll(struct nvml_watch *watch, struct nvml_event *event);
void nvml_watch_close(struct nvml_watch *watch);

#endif
