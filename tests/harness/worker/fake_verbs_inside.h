/* What the parts of the stand-in share: fake_verbs.c has objects and their lives, fake_verbs_wire.c
 * states, queues and the bytes, fake_verbs_mr.c memory, fake_uverbs.c what is asked by ioctl. */
#ifndef TESUP_TESTS_HARNESS_WORKER_FAKE_VERBS_INSIDE_H
#define TESUP_TESTS_HARNESS_WORKER_FAKE_VERBS_INSIDE_H

#include <pthread.h>

#include "shm/list.h"
#include "tests/harness/worker/fake_verbs.h"

struct fake_failure {
    unsigned skip, count;
    int error;
};

struct fake_event {
    struct list link;
    struct ibv_async_event event;
};

/* One device and the one context that is open on it. */
struct fake_nic {
    struct fake_device seen; /* first: what the test has is this */
    struct ibv_context context;
    struct ibv_pd *pd;  /* the last one */
    struct list events; /* struct fake_event */
    struct list qps, cqs, mrs;
    struct fake_failure failure[FAKE_CALLS];
    bool used, open;
};
#define FAKE_NICS 4u
extern struct fake_nic fake_nics[FAKE_NICS];

struct fake_channel {
    struct ibv_comp_channel channel;
    unsigned rings;  /* not taken */
    struct list cqs; /* struct fake_cq.rung, oldest first */
};

struct fake_cqe {
    struct ibv_wc wc;
    uint64_t serial;  /* of its QP */
    uint64_t retires; /* of its send queue: everything before this */
};

struct fake_cq {
    struct ibv_cq cq;
    struct list member;
    struct fake_cqe *ring;
    unsigned count;
    bool armed;
    struct list rung;
    unsigned unacknowledged;
};

struct fake_receive {
    struct list link;
    struct ibv_recv_wr wr;
    struct ibv_sge sge;
};

struct fake_srq {
    struct ibv_srq srq;
    struct list posted; /* struct fake_receive */
    unsigned count, most, limit, users;
};

enum fake_wr_state { FAKE_WR_WAITS, FAKE_WR_READING, FAKE_WR_DONE };

struct fake_wr {
    struct list link;
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    enum fake_wr_state state;
    enum ibv_wc_status status;
    uint64_t index;
    uint8_t *bytes; /* inline, or what a READ brings */
};

struct fake_qp {
    struct ibv_qp qp;
    struct list member;
    struct fake_nic *nic;
    uint64_t serial;
    struct ibv_qp_cap cap;
    struct ibv_qp_attr attr;
    struct list sends;    /* struct fake_wr, not completed */
    uint64_t posted;      /* work requests, ever */
    uint64_t retired;     /* of them, out of the queue: their completion was polled */
    struct list receives; /* struct fake_receive, without SRQ */
    unsigned receive_count;
    enum ibv_wc_status break_next;
    unsigned unacknowledged; /* events */
    struct fake_list last;
};

extern pthread_mutex_t fake_lock;
#define FAKE_LOCKED(body)                 \
    do {                                  \
        pthread_mutex_lock(&fake_lock);   \
        body;                             \
        pthread_mutex_unlock(&fake_lock); \
    } while (0)

static inline struct fake_nic *fake_nic_of(const struct ibv_context *context)
{
    return list_entry(context, struct fake_nic, context);
}
static inline struct fake_cq *fake_cq_of(struct ibv_cq *cq)
{
    return list_entry(cq, struct fake_cq, cq);
}
static inline struct fake_qp *fake_qp_of(struct ibv_qp *qp)
{
    return list_entry(qp, struct fake_qp, qp);
}
static inline struct fake_srq *fake_srq_of(struct ibv_srq *srq)
{
    return list_entry(srq, struct fake_srq, srq);
}

void fake_require(bool holds, const char *what);
/* True when this call was ordered to fail: errno says how. */
bool fake_fails(struct fake_nic *nic, enum fake_call call);
void fake_event_add(struct fake_nic *nic, const struct ibv_async_event *event);

/* fake_verbs_wire.c */
int fake_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int fake_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int fake_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* Could this queue overrun, if everything that may complete did? */
void fake_cq_check(const struct fake_cq *cq);
void fake_qp_flush(struct fake_qp *qp);
struct fake_qp *fake_qp_find(uint32_t number);
/* Does a work request that is not done use this memory? */
bool fake_mr_used(const struct ibv_mr *mr);

/* fake_verbs_mr.c */
struct fake_mr {
    struct ibv_mr mr;
    struct list member;
    unsigned access;
};
/* Waits while the gate is closed; the lock is held. */
void fake_gate_pass(void);
struct ibv_mr *fake_mr_make(struct ibv_pd *pd, void *address, size_t length, unsigned access);
void fake_mr_free(struct ibv_mr *mr);
struct ibv_mr *fake_mr_find(const struct ibv_pd *pd, uint32_t key, uint64_t address,
                            uint64_t length, unsigned access);

/* fake_uverbs.c: a descriptor that ioctl knows as an open device's. */
int fake_uverbs_open(void);

#endif
