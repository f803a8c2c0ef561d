#include "tests/harness/test.h"

#include "tests/harness/rawverbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shm/err.h"
#include "tests/harness/wait.h"

#define DEVICE  "rxe1"
#define PSN     77u
#define RECEIVE 4096u

#define WR_SEND    1u
#define WR_RECEIVE 2u /* and the number of the buffer */

static void device_open(struct rawverbs *raw)
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    assert_non_null(list);
    for (int i = 0; list[i] != NULL && raw->device == NULL; i++)
        if (strcmp(ibv_get_device_name(list[i]), DEVICE) == 0)
            raw->device = ibv_open_device(list[i]);
    ibv_free_device_list(list);
    if (raw->device == NULL)
        fail_msg("cannot open " DEVICE);
}

/* The address of scripts/vm/guest, in RoCE v2. */
static void gid_find(struct rawverbs *raw)
{
    static const uint8_t wanted[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, 77, 0, 2};
    struct ibv_gid_entry entry;

    for (uint32_t i = 0; i < 16; i++) {
        if (ibv_query_gid_ex(raw->device, 1, i, &entry, 0) != 0 ||
            entry.gid_type != IBV_GID_TYPE_ROCE_V2 || memcmp(entry.gid.raw, wanted, 16) != 0)
            continue;
        raw->gid_index = (uint8_t)i;
        memcpy(raw->peer.verbs.gid[0], wanted, sizeof(wanted));
        raw->peer.verbs.gid_type[0] = (uint8_t)entry.gid_type;
        return;
    }
    fail_msg(DEVICE " has no GID of 10.77.0.2");
}

static struct ibv_qp *queue_make(struct rawverbs *raw)
{
    struct ibv_qp_init_attr init = {.send_cq = raw->cq,
                                    .recv_cq = raw->cq,
                                    .qp_type = IBV_QPT_RC,
                                    .sq_sig_all = 1,
                                    .cap = {.max_send_wr = 16,
                                            .max_recv_wr = RAWVERBS_RECEIVES,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1}};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = 1,
                               .qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};
    struct ibv_qp *qp = ibv_create_qp(raw->pd, &init);

    assert_non_null(qp);
    assert_int_equal(
        ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        0);
    return qp;
}

void rawverbs_open(struct rawverbs *raw, const struct daemon *daemon)
{
    memset(raw, 0, sizeof(*raw));
    rawpeer_connect(&raw->peer, daemon);
    device_open(raw);
    raw->pd = ibv_alloc_pd(raw->device);
    raw->cq = ibv_create_cq(raw->device, 256, NULL, NULL, 0);
    raw->bytes = calloc(1, RAWVERBS_ROOM + RAWVERBS_RECEIVES * RECEIVE);
    assert_true(raw->pd != NULL && raw->cq != NULL && raw->bytes != NULL);
    raw->mr = ibv_reg_mr(raw->pd, raw->bytes, RAWVERBS_ROOM + RAWVERBS_RECEIVES * RECEIVE,
                         IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(raw->mr);
    raw->data = queue_make(raw);
    raw->notify = queue_make(raw);
    raw->peer.verbs = (struct handshake_verbs){.offered = true,
                                               .gid_count = 1,
                                               .mtu = 1024,
                                               .psn = PSN,
                                               .notify_qp = raw->notify->qp_num,
                                               .data_qp = {raw->data->qp_num},
                                               .data_qps = 1,
                                               .window = RAWVERBS_RECEIVES,
                                               .reads = 4};
    gid_find(raw);
}

static void receives_post(struct rawverbs *raw)
{
    for (unsigned i = 0; i < RAWVERBS_RECEIVES; i++) {
        struct ibv_sge sge = {.addr = (uintptr_t)raw->bytes + RAWVERBS_ROOM + i * RECEIVE,
                              .length = RECEIVE,
                              .lkey = raw->mr->lkey};
        struct ibv_recv_wr *bad, wr = {.wr_id = WR_RECEIVE + i, .sg_list = &sge, .num_sge = 1};

        assert_int_equal(ibv_post_recv(raw->notify, &wr, &bad), 0);
    }
}

static void queue_connect(struct rawverbs *raw, struct ibv_qp *qp, uint32_t number)
{
    const struct handshake_verbs *theirs = &raw->peer.welcome.verbs;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = IBV_MTU_1024,
                               .dest_qp_num = number,
                               .rq_psn = theirs->psn,
                               .max_dest_rd_atomic = 4,
                               .min_rnr_timer = 12};

    attr.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1};
    memcpy(attr.ah_attr.grh.dgid.raw, theirs->gid[0], 16);
    attr.ah_attr.grh.sgid_index = raw->gid_index;
    attr.ah_attr.grh.hop_limit = 64;
    assert_int_equal(ibv_modify_qp(qp, &attr,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                       IBV_QP_MIN_RNR_TIMER),
                     0);
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                                .sq_psn = PSN,
                                .timeout = 12,
                                .retry_cnt = 6,
                                .rnr_retry = 6,
                                .max_rd_atomic = 1};
    assert_int_equal(ibv_modify_qp(qp, &attr,
                                   IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                                       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                       IBV_QP_MAX_QP_RD_ATOMIC),
                     0);
}

void rawverbs_shake(struct rawverbs *raw, const char *segment)
{
    if (rawpeer_ask(&raw->peer, segment) != TS_OK)
        fail_msg("handshake: %s", raw->peer.welcome.text);
    assert_true(raw->peer.welcome.verbs.offered);
    receives_post(raw);
    queue_connect(raw, raw->data, raw->peer.welcome.verbs.data_qp[0]);
    queue_connect(raw, raw->notify, raw->peer.welcome.verbs.notify_qp);
}

void rawverbs_close(struct rawverbs *raw)
{
    rawpeer_close(&raw->peer);
    ibv_destroy_qp(raw->data);
    ibv_destroy_qp(raw->notify);
    ibv_dereg_mr(raw->mr);
    ibv_destroy_cq(raw->cq);
    ibv_dealloc_pd(raw->pd);
    ibv_close_device(raw->device);
    free(raw->bytes);
}

struct verbs_packet rawverbs_packet(struct rawverbs *raw, uint32_t length)
{
    /* rawpeer_hello's generation: the welcome echoes it. */
    return (struct verbs_packet){.generation = (uint32_t)raw->peer.welcome.generation,
                                 .sequence = raw->sequence++,
                                 .length = length};
}

/* What came is kept on the way. True: one that was sent has ended so. */
static bool completion_take(struct rawverbs *raw, struct wait *wait, enum ibv_wc_status *status)
{
    struct ibv_wc wc;
    int got = ibv_poll_cq(raw->cq, 1, &wc);

    assert_true(got >= 0);
    if (got == 0)
        wait_step(wait);
    if (got == 1 && wc.wr_id == WR_SEND)
        *status = wc.status;
    else if (got == 1 && wc.status == IBV_WC_SUCCESS)
        raw->arrived[raw->arrived_count++] = (uint8_t)(wc.wr_id - WR_RECEIVE);
    return got == 1 && wc.wr_id == WR_SEND;
}

static enum ibv_wc_status sent_wait(struct rawverbs *raw)
{
    struct wait wait = wait_begin("a work request of the raw peer", WAIT_MS);
    enum ibv_wc_status status;

    while (!completion_take(raw, &wait, &status))
        continue;
    return status;
}

/* The first frame of `type` in a packet. */
static bool packet_find(const uint8_t *bytes, enum frame_type type, struct frame *frame)
{
    struct verbs_packet packet;
    size_t at = sizeof(packet);

    memcpy(&packet, bytes, sizeof(packet));
    while (at + sizeof(*frame) <= sizeof(packet) + packet.length) {
        memcpy(frame, bytes + at, sizeof(*frame));
        if (frame->type == type)
            return true;
        at += sizeof(*frame) + frame->length;
    }
    return false;
}

struct frame rawverbs_wait(struct rawverbs *raw, enum frame_type type)
{
    struct wait wait = wait_begin("a frame for the raw peer", WAIT_MS);
    enum ibv_wc_status status;
    struct frame frame;

    for (;;) {
        while (raw->arrived_taken < raw->arrived_count) {
            const uint8_t *bytes =
                raw->bytes + RAWVERBS_ROOM + raw->arrived[raw->arrived_taken++] * RECEIVE;

            if (packet_find(bytes, type, &frame))
                return frame;
        }
        (void)completion_take(raw, &wait, &status);
    }
}

static enum ibv_wc_status request_post(struct rawverbs *raw, struct ibv_qp *qp,
                                       struct ibv_send_wr wr, size_t size)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)raw->bytes, .length = (uint32_t)size, .lkey = raw->mr->lkey};
    struct ibv_send_wr *bad;

    wr.wr_id = WR_SEND;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
    return sent_wait(raw);
}

enum ibv_wc_status rawverbs_send(struct rawverbs *raw, const void *part1, size_t size1,
                                 const void *part2, size_t size2)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};

    assert_true(size1 + size2 <= RAWVERBS_ROOM);
    memcpy(raw->bytes, part1, size1);
    if (size2 > 0)
        memcpy(raw->bytes + size1, part2, size2);
    return request_post(raw, raw->notify, wr, size1 + size2);
}

enum ibv_wc_status rawverbs_write(struct rawverbs *raw, uint64_t address, uint32_t rkey)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
                             .wr.rdma = {.remote_addr = address, .rkey = rkey}};

    memset(raw->bytes, 0x66, 64);
    return request_post(raw, raw->data, wr, 64);
}
