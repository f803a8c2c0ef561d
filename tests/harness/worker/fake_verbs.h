/* A stand-in for libibverbs: RDMA devices inside the test's own process.
 *
 * It takes the place of the library's calls at link time, checks every argument of them, and moves
 * real bytes between the queue pairs of its devices.  What no program may do aborts with a
 * sentence: states out of order, a completion queue that could overrun, a work request beyond the
 * queue's depth, memory that goes while a work request uses it, objects destroyed before those that
 * need them, a SEND that finds no receive buffer.
 *
 * It is as late as a device may be: a READ's bytes land when something must wait for them (a fence,
 * or the end of the queue), an unsignalled work request leaves its queue when a later one's
 * completion is polled, and completions of a queue pair outlive it.
 *
 * Before a host starts, a test may change what a device is; afterwards the orders below.
 */
#ifndef TESUP_TESTS_HARNESS_WORKER_FAKE_VERBS_H
#define TESUP_TESTS_HARNESS_WORKER_FAKE_VERBS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define FAKE_GIDS  16u
#define FAKE_PORTS 2u

enum fake_call {
    FAKE_OPEN,
    FAKE_QUERY_DEVICE,
    FAKE_ALLOC_PD,
    FAKE_CREATE_CHANNEL,
    FAKE_CREATE_CQ,
    FAKE_RESIZE_CQ,
    FAKE_CREATE_SRQ,
    FAKE_CREATE_QP,
    FAKE_MODIFY_QP,
    FAKE_REG_MR,
    FAKE_REG_DMABUF,
    FAKE_CREATE_AH,
    FAKE_POST_SEND,
    FAKE_POST_RECEIVE,
    FAKE_CALLS
};

struct fake_device {
    struct ibv_device device;
    /* what it is */
    struct ibv_device_attr attr;
    struct ibv_port_attr port[FAKE_PORTS];
    struct ibv_gid_entry gid[FAKE_GIDS];
    uint32_t gid_count;
    uint32_t inline_max;
    bool refuses_inline; /* a wish for inline data is an error, not 0 */
    bool cleans;         /* a destroyed queue pair's completions go with it */
    bool old_kernel;     /* without the ioctl by which jobs register memory (shm/uverbs.h) */
    /* orders */
    bool held;     /* work requests wait */
    unsigned pace; /* they wait for polls: so many of a queue pair with each; 0 not at all */
    bool silent;   /* no completion is seen */
    bool lost;     /* nothing that is sent gets an answer */
    uint32_t next_number;
    /* counts */
    unsigned posts, work_requests, signalled, inlined, fenced; /* ibv_post_send */
    unsigned packets;                                          /* SENDs that arrived */
    unsigned pds, cqs, srqs, qps, mrs;                         /* alive */
    unsigned srq_posted;                                       /* buffers in shared queues */
    unsigned list_most;                                        /* longest list that was posted */
    uint64_t pinned;                                           /* bytes of memory regions */
    unsigned ahs, ahs_made;                                    /* address handles: alive, ever */
    unsigned strangers; /* calls about memory regions that are not there */
};

/* Forgets all devices; nothing of them may be open. */
void fake_reset(void);
/* Two RoCE v2 GIDs (IPv4, link-local), port 1 active, port 2 down, limits of a small NIC. */
struct fake_device *fake_device_add(const char *name);
void fake_gid_set(struct fake_device *device, uint32_t index, uint32_t type, const char *address);

/* Of the calls that come, `skip` work and `count` fail with `error`. */
void fake_fail(struct fake_device *device, enum fake_call call, unsigned skip, unsigned count,
               int error);
/* The next work request of that queue pair ends so. */
void fake_break(uint32_t number, enum ibv_wc_status status);
/* Lets held work requests go: at most `count` of them. */
void fake_step(struct fake_device *device, unsigned count);
void fake_release(struct fake_device *device);
/* Registrations and address handles wait while it is closed. */
void fake_gate(bool closed);
/* Threads that wait there. */
unsigned fake_gate_waiting(void);

/* An asynchronous event about the device or its port 1. */
void fake_event(struct fake_device *device, enum ibv_event_type type);
/* About a queue pair, by its number. */
void fake_event_qp(uint32_t number, enum ibv_event_type type);
/* A completion out of nowhere, in the queue that this queue pair's receives go to. */
void fake_completion(uint32_t number, const struct ibv_wc *wc);

/* A SEND as if the peer of queue pair `number` had made it.  False: it is in no state to get it. */
bool fake_send(uint32_t number, const void *bytes, uint32_t size);

/* ---- what a test may look at ---- */

enum ibv_qp_state fake_state(uint32_t number);
/* Of the queue pair's way: what it was connected with. */
const struct ibv_qp_attr *fake_attr(uint32_t number);
/* The last list that was posted to it: flags and opcodes, in order. */
struct fake_list {
    unsigned count;
    unsigned flags[64];
    enum ibv_wr_opcode opcode[64];
    uint32_t length[64];
};
const struct fake_list *fake_last_list(uint32_t number);
unsigned fake_pending(uint32_t number); /* posted and not executed */

#endif
