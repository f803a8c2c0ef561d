/* A peer worker with a device of its own, played by the fuzzer: real queue pairs of the stand-in
 * for what our worker sends and writes, and packets put together by hand for what it gets. */
#ifndef TESUP_TESTS_FUZZ_VERBS_PEER_H
#define TESUP_TESTS_FUZZ_VERBS_PEER_H

#include "tests/fuzz/peer_fixture.h"
#include "tests/harness/worker/fake_verbs.h"
#include "worker/fabric/verbs/link.h"

#define PEER_WINDOW 8u
#define PEER_PSN    77u

static struct {
    struct fake_device *device, *ours;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    struct ibv_qp *notify, *data;
    uint8_t buffers[PEER_WINDOW][VERBS_BUFFER_SIZE];
    uint8_t memory[FIXTURE_MEMORY]; /* what it exports */
    uint32_t owed, sequence;
    /* the packet that is being made */
    struct {
        struct verbs_packet head;
        uint8_t body[VERBS_PACKET_ROOM];
    } packet;
} peer;

static void peer_device_open(void)
{
    peer.ours = fake_device_add("fake0");
    peer.device = fake_device_add("fake1");
    peer.context = ibv_open_device(&peer.device->device);
    peer.pd = ibv_alloc_pd(peer.context);
    peer.cq = ibv_create_cq(peer.context, 1024, NULL, NULL, 0);
    peer.mr = ibv_reg_mr(peer.pd, &peer, sizeof(peer),
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
}

static struct ibv_qp *peer_queue_pair(uint32_t receives)
{
    struct ibv_qp_init_attr init = {
        .send_cq = peer.cq,
        .recv_cq = peer.cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 1, .max_send_sge = 1, .max_recv_wr = receives, .max_recv_sge = 1}};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = 1,
                               .qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};
    struct ibv_qp *qp = ibv_create_qp(peer.pd, &init);

    host_require(
        ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
        "INIT");
    return qp;
}

static void peer_connect_to(struct ibv_qp *qp, uint32_t number, uint32_t psn)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = number,
        .rq_psn = psn,
        .max_dest_rd_atomic = 16,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1, .hop_limit = 64}}};

    attr.ah_attr.grh.dgid = peer.ours->gid[1].gid;
    host_require(ibv_modify_qp(qp, &attr,
                               IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                   IBV_QP_MIN_RNR_TIMER) == 0,
                 "RTR");
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = PEER_PSN};
    host_require(ibv_modify_qp(qp, &attr,
                               IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                   IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
                 "RTS");
}

static void peer_receive(uint64_t index)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)peer.buffers[index], .length = VERBS_BUFFER_SIZE, .lkey = peer.mr->lkey};
    struct ibv_recv_wr *bad, wr = {.wr_id = index, .sg_list = &sge, .num_sge = 1};

    host_require(ibv_post_recv(peer.notify, &wr, &bad) == 0, "a receive buffer of the peer");
}

static struct handshake_verbs peer_offer(void)
{
    struct handshake_verbs offer = {.offered = true,
                                    .gid_count = 1,
                                    .mtu = 1024,
                                    .psn = PEER_PSN,
                                    .notify_qp = peer.notify->qp_num,
                                    .data_qp = {peer.data->qp_num},
                                    .data_qps = 1,
                                    .window = PEER_WINDOW,
                                    .reads = 16};

    memcpy(offer.gid[0], peer.device->gid[1].gid.raw, 16);
    offer.gid_type[0] = IBV_GID_TYPE_ROCE_V2;
    return offer;
}

/* A link of ours to it; `socket` is the peer's end of the TCP connection beside. */
static struct endpoint *peer_link(bool initiator, int *socket)
{
    struct endpoint *endpoint = peer_endpoint();
    char text[PROTO_TEXT_MAX] = "";
    const struct handshake_verbs *mine;
    struct handshake_verbs offer;
    int pair[2], rc;

    peer.ours->next_number = 100;
    peer.device->next_number = 1100;
    peer.notify = peer_queue_pair(PEER_WINDOW);
    peer.data = peer_queue_pair(1);
    for (uint64_t i = 0; i < PEER_WINDOW; i++)
        peer_receive(i);
    peer.owed = peer.sequence = 0;
    offer = peer_offer();
    host_stream_pair(pair);
    endpoint_handle(endpoint, ENDPOINT_EVENT_LINKING, TS_OK, "");
    endpoint->link = verbs_link_prepare(endpoint, initiator, text, sizeof(text));
    host_require(endpoint->link != NULL, text);
    mine = verbs_link_offer(endpoint->link);
    peer_connect_to(peer.notify, mine->notify_qp, mine->psn);
    peer_connect_to(peer.data, mine->data_qp[0], mine->psn);
    rc = initiator ? verbs_link_confirm(endpoint->link, &offer, text, sizeof(text))
                   : verbs_link_answer(endpoint->link, &offer, text, sizeof(text));
    host_require(rc == TS_OK, text);
    host_require(verbs_link_carry(endpoint->link, pair[1]) == TS_OK, "a carrier");
    *socket = pair[0];
    return endpoint;
}

static void peer_link_end(int socket)
{
    struct ibv_wc wc;

    close(socket);
    host_turns(4);
    ibv_destroy_qp(peer.notify);
    ibv_destroy_qp(peer.data);
    while (ibv_poll_cq(peer.cq, 1, &wc) > 0)
        continue;
}

/* Takes what our worker sent: its buffers are free again. */
static void peer_take(void)
{
    struct ibv_wc wc;

    while (ibv_poll_cq(peer.cq, 1, &wc) > 0) {
        if (wc.status != IBV_WC_SUCCESS)
            continue;
        peer_receive(wc.wr_id);
        peer.owed++;
    }
}

static void packet_begin(void)
{
    peer.packet.head = (struct verbs_packet){.length = 0};
}

static void packet_add(const void *bytes, uint32_t size)
{
    uint32_t left = VERBS_PACKET_ROOM - peer.packet.head.length;

    if (size > left)
        size = left; /* the rest comes never, or is what the next packet begins with */
    memcpy(peer.packet.body + peer.packet.head.length, bytes, size);
    peer.packet.head.length += size;
}

/* As an honest peer sends it, but for what `spoil` says. */
static void packet_send(uint32_t number, uint32_t generation, uint8_t spoil, uint16_t value)
{
    uint32_t size = (uint32_t)sizeof(peer.packet.head) + peer.packet.head.length;

    peer.packet.head.generation = generation + ((spoil & 1) != 0 ? value : 0);
    peer.packet.head.sequence = peer.sequence + ((spoil & 2) != 0 ? value : 0);
    peer.packet.head.credits = (uint16_t)((spoil & 4) != 0 ? value : peer.owed);
    if ((spoil & 1) == 0) {
        peer.sequence++;
        peer.owed = 0;
    }
    if ((spoil & 8) != 0)
        peer.packet.head.length += value;
    if ((spoil & 16) != 0)
        size = value % (size + 1);
    (void)fake_send(number, &peer.packet, size);
    packet_begin();
}

#endif
