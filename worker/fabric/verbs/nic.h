/* What a worker has of its RDMA device, shared by all endpoints of the verbs fabric.
 *
 *   device.c    device, port, protection domain; the GIDs that may be used
 *   cq.c        completion queues with admission: worst cases are charged before a QP exists
 *   pool.c      pinned buffers of the notification QPs: one receive pool, one send pool
 *   qp.c        queue pairs: states, staged work requests, one doorbell, retiring in order
 *   poll.c      from the completion queues to QPs and links, by wr_id and generation
 *   renew.c     a queue pair that failed is replaced
 *   way.c       is there a way to the peer? asked by a thread, before queue pairs are connected
 *   stall.c     a device that neither completes nor fails what it has
 *   event.c     asynchronous events of the device
 *   mr.c        registration of regions, once per file and rights, large ones by a thread
 *   mr_gpu.c    the same for memory of a GPU
 *   grant.c     private memory that a job registered itself on our protection domain
 *
 * link.h has the other half: what belongs to one endpoint.  Only this room includes verbs.h.
 */
#ifndef TESUP_WORKER_FABRIC_VERBS_NIC_H
#define TESUP_WORKER_FABRIC_VERBS_NIC_H

#include <infiniband/verbs.h>

#include "shm/handshake.h"
#include "shm/list.h"
#include "worker/fabric/fabric.h"
#include "worker/fabric/verbs/pool.h"
#include "worker/worker.h"

struct verbs_qp;
struct verbs_register;

#define VERBS_NUMBERS 1024u

/* A GID that this side can offer, best first. */
struct verbs_gid {
    union ibv_gid gid;
    uint32_t index; /* in the port's table */
    uint8_t type;   /* enum ibv_gid_type */
};

/* Entries are charged before the QP exists whose completions they are for, and refunded after it is
 * destroyed: so it can never overrun. */
struct verbs_cq {
    struct ibv_cq *cq;
    const char *name;
    uint32_t charged;
    bool armed;      /* the next completion rings; it stays so until it did */
    unsigned events; /* taken, to be acknowledged before it is destroyed */
};

/* Where a completion belongs: a slot is reused with the next generation. */
struct verbs_slot {
    struct verbs_qp *qp; /* NULL: free */
    uint32_t generation;
};

struct verbs_nic {
    struct worker *worker;
    struct ibv_context *device;
    struct ibv_device_attr attr;
    char name[PROTO_LABEL_MAX]; /* "mlx5_0 port 1" */
    uint8_t port;
    struct ibv_port_attr port_attr;
    struct ibv_pd *pd;
    uint32_t driver; /* of the kernel, for registration by jobs; UVERBS_DRIVER_NONE */
    struct verbs_gid gid[HANDSHAKE_GIDS];
    uint32_t gid_count;

    struct ibv_comp_channel *channel;
    struct source completions; /* channel->fd */
    struct source events;      /* device->async_fd */
    struct verbs_cq data_cq, notify_cq;
    struct ibv_srq *srq; /* NULL: the device has none, each notification QP has a receive queue */

    struct verbs_pool receive, send;
    uint32_t window_reserved; /* sum of the windows promised to peers */
    bool send_short;          /* a link waits for a send buffer of others */

    struct verbs_slot *slots;
    uint32_t slot_count, slot_free;            /* slots made; where to look for a free one */
    struct verbs_qp *by_number[VERBS_NUMBERS]; /* notification QPs, by the QP number modulo this */
    struct list links;                         /* struct verbs_link.member */
    struct list mrs;                           /* struct verbs_mr.member */
    struct list ways;                          /* struct verbs_way.link */
    uint32_t way_count;
    struct verbs_register *registrar;
    bool polling;
    bool rung;          /* the channel has events to be read */
    uint64_t looked_ns; /* for stalled queue pairs */
    bool port_down;     /* as the last event said */
};

/* device.c */
int verbs_device_open(struct verbs_nic *nic, const char *name, char *text, size_t text_size);
void verbs_device_close(struct verbs_nic *nic);
/* Reads the port's GID table again: addresses come and go. */
int verbs_gids_read(struct verbs_nic *nic, char *text, size_t text_size);
void verbs_gid_format(const struct verbs_gid *gid, char *text, size_t text_size);
/* The n-th best pair of an own GID and one of the peer's that can reach each other. */
bool verbs_gid_match(const struct verbs_nic *nic, const struct handshake_verbs *peer, uint32_t nth,
                     uint32_t *own, uint32_t *theirs);
uint32_t verbs_mtu_bytes(enum ibv_mtu mtu);
enum ibv_mtu verbs_mtu(uint32_t bytes);

/* cq.c */
int verbs_cq_create(struct verbs_nic *nic, struct verbs_cq *cq, const char *name, char *text,
                    size_t text_size);
void verbs_cq_destroy(struct verbs_cq *cq);
/* Room for `entries` more completions: grows the queue. TS_OK, or TS_ERR_LIMIT with text. */
int verbs_cq_charge(struct verbs_nic *nic, struct verbs_cq *cq, uint32_t entries, char *text,
                    size_t text_size);
void verbs_cq_refund(struct verbs_nic *nic, struct verbs_cq *cq, uint32_t entries);

/* nic.c: posts a receive buffer to the shared queue (qp NULL), or to `qp` where there is none. */
int verbs_receive_post(struct verbs_nic *nic, const struct verbs_qp *qp,
                       struct verbs_buffer *buffer);
/* Posts `count` free buffers. TS_OK, TS_ERR_NO_MEMORY, TS_ERR_SYSTEM with errno. */
int verbs_receive_fill(struct verbs_nic *nic, const struct verbs_qp *qp, uint32_t count);
/* Takes back what a dead QP's own receive queue held. */
void verbs_receive_reclaim(struct verbs_nic *nic, uint32_t slot);
/* Promises receive buffers to a peer: how many, or 0 with text. */
uint32_t verbs_window_reserve(struct verbs_nic *nic, char *text, size_t text_size);
void verbs_window_release(struct verbs_nic *nic, uint32_t window);

/* way.c: at once; whoever waits longer is for the queue pairs to tell */
#define VERBS_WAYS_MAX 64u
void verbs_ways_close(struct verbs_nic *nic);

/* registrar.c */
void verbs_registrar_close(struct verbs_nic *nic);

/* poll.c: wr_id is kind (4 bits), generation (28), index (32). */
enum verbs_wr_kind { VERBS_WR_SEND = 1, VERBS_WR_RECEIVE = 2 };
#define VERBS_GENERATION_MASK 0xfffffffu
static inline uint64_t verbs_wr_id(enum verbs_wr_kind kind, uint32_t generation, uint32_t index)
{
    return (uint64_t)kind << 60 | (uint64_t)(generation & VERBS_GENERATION_MASK) << 32 | index;
}
/* A slot for a QP: its index, or -1 without memory. */
int verbs_slot_take(struct verbs_nic *nic, struct verbs_qp *qp);
void verbs_slot_give(struct verbs_nic *nic, uint32_t slot);
/* What comes with the generation of before is stale from now on. Returns the new one. */
uint32_t verbs_slot_renew(struct verbs_nic *nic, uint32_t slot);
/* Takes what both queues have, once. Returns how many completions there were. */
int verbs_poll_once(struct verbs_nic *nic);

/* event.c */
void verbs_on_async(struct source *source, uint32_t events);

#endif
