/* Regions: memory that a session registered, and who still uses it. */
#ifndef TESUP_WORKER_REGION_H
#define TESUP_WORKER_REGION_H

#include "shm/err.h"
#include "shm/list.h"
#include "shm/process.h"
#include "worker/memory.h"
#include "worker/session.h"

struct verbs_mr;

struct region {
    struct session *session; /* NULL once the session is gone */
    uint32_t handle;
    uint32_t access; /* REGION_ACCESS_* : what peers may do */
    struct memory memory;
    uint32_t references; /* slices, transfers and exports in progress */
    bool revoked;
    uint32_t delete_id; /* supervisor's message to answer when drained; 0 none */
    uint32_t add_id;    /* to answer when it is registered; 0 none */
    bool registering;
    struct verbs_mr *mr; /* the verbs fabric's; NULL: it cannot reach this region */
    struct list mr_node;
    struct gpu_event *event;  /* NULL: memory */
    struct counters_gpu *way; /* its line in status; NULL: host memory, or no room */
    struct worker *worker;
};

int region_add(struct session *session, const struct proto_region *ask, int fd, char *text,
               size_t text_size);
/* Memory of a GPU; takes the descriptors. */
int region_add_gpu(struct session *session, const struct proto_region_gpu *ask, const int *fds,
                   int fd_count, char *text, size_t text_size);
/* An event of a GPU, under a handle as regions have it. */
int region_add_event(struct session *session, const struct proto_region_gpu *ask, char *text,
                     size_t text_size);
/* Answers `add_id` later if the region is not registered yet. False: it is, answer now. */
bool region_answer_later(struct session *session, uint32_t handle, uint32_t add_id);
/* The device knows it now, or refused it: then it goes again. */
void region_on_registered(struct region *region, int status, const char *text);
/* Revokes: new users are refused with TS_ERR_GONE at once; `delete_id` is answered when the last
 * reference is gone (at once when there is none). */
int region_delete(struct session *session, uint32_t handle, uint32_t delete_id);
void region_revoke(struct region *region, uint32_t delete_id);

/* The handle of a region that goes before it came: from now on as that of one that was revoked. */
void region_skip(struct session *session, uint32_t handle);

/* A peer's or our own job's use of a range. TS_OK with a reference taken, or TS_ERR_NOT_FOUND,
 * TS_ERR_GONE, TS_ERR_DENIED, TS_ERR_INVALID (outside). `*offset` becomes region-relative. */
int region_use_local(struct session *session, uint32_t handle, uint64_t offset, uint64_t length,
                     bool store, struct region **region);
int region_use_remote(struct session *session, uint32_t handle, bool by_address, uint64_t *offset,
                      uint64_t length, bool store, struct region **region);
/* TS_OK with a reference taken, TS_ERR_NOT_FOUND, TS_ERR_GONE, or TS_ERR_INVALID for memory. */
int region_use_event(struct session *session, uint32_t handle, struct region **region);
void region_release(struct region *region);

#endif
