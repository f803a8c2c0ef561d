/* A peer with real queue pairs on rxe1 that then says whatever it likes: it knows the key, and
 * keeps to nothing else. */
#ifndef TESUP_TESTS_HARNESS_RAWVERBS_H
#define TESUP_TESTS_HARNESS_RAWVERBS_H

#include <infiniband/verbs.h>

#include "tests/harness/rawpeer.h"
#include "worker/fabric/verbs/link.h"

#define RAWVERBS_RECEIVES 16
#define RAWVERBS_ROOM     16384u

struct rawverbs {
    struct rawpeer peer;
    struct ibv_context *device;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *data, *notify;
    struct ibv_mr *mr;
    uint8_t *bytes; /* what is sent, then the receive buffers */
    uint8_t gid_index;
    uint32_t sequence;
    uint8_t arrived[RAWVERBS_RECEIVES]; /* receive buffers that were filled, in order */
    uint32_t arrived_count, arrived_taken;
};

/* Opens the device and describes its queue pairs in raw->peer.verbs; a connection that has said
 * nothing. The test may change what is offered. */
void rawverbs_open(struct rawverbs *raw, const struct daemon *daemon);
/* The handshake; then both queue pairs can send. */
void rawverbs_shake(struct rawverbs *raw, const char *segment);
void rawverbs_close(struct rawverbs *raw);

/* A packet as a worker would send it, to be spoilt. */
struct verbs_packet rawverbs_packet(struct rawverbs *raw, uint32_t length);
/* One SEND of `size1` + `size2` bytes; how it ended. */
enum ibv_wc_status rawverbs_send(struct rawverbs *raw, const void *part1, size_t size1,
                                 const void *part2, size_t size2);
/* Waits for the next frame of `type`; others, and all behind it in its packet, are skipped. As many
 * packets as there are buffers may come in all. */
struct frame rawverbs_wait(struct rawverbs *raw, enum frame_type type);
/* One RDMA WRITE of 64 bytes; how it ended. */
enum ibv_wc_status rawverbs_write(struct rawverbs *raw, uint64_t address, uint32_t rkey);

#endif
