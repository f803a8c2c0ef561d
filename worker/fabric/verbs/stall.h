/* A device that has work and neither completes nor fails it.
 *
 * Soft-RoCE of Linux 6.1 forgets to send on when its port was down, and after lost packets when a
 * request is fenced: its queue pair has work, no timer and no error.  Nobody shall wait for such a
 * device until a deadline.
 *
 * A work request that is only slow looks the same from here: nothing tells how much of it has
 * passed.  Its size says how long it may take, on a path that loses one packet in a hundred. */
#ifndef TESUP_WORKER_FABRIC_VERBS_STALL_H
#define TESUP_WORKER_FABRIC_VERBS_STALL_H

#include <stdint.h>

struct verbs_nic;
struct verbs_qp;

struct verbs_stall {
    uint32_t tail;     /* of the send queue, when it last moved */
    uint64_t since_ns; /* 0: not looked at yet */
};

/* How long the next completion of `qp` may take: twice the time in which a path is seen to be dead,
 * and while the port is up one packet's time more for each 64 KiB. */
uint64_t verbs_stall_limit_ns(const struct verbs_qp *qp);
/* Once a second: fails the links of those that are over it.  Behind a poll that found nothing. */
void verbs_stalls_find(struct verbs_nic *nic);

#endif
