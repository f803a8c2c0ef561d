/* A peer over RDMA that sends whatever packets and frames it likes, and a device that fails
 * whenever it likes. */
#include "tests/fuzz/verbs_peer.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    STEP_PACKET = STEP_END,
    STEP_TAKE,
    STEP_BYTES,
    STEP_BREAK,
    STEP_EVENT,
    STEP_HOLD,
    STEP_STEP
};

static uint32_t notify_number, data_number, generation;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    peer_device_open();
    fixture_start(host_config_verbs("fuzzed", "fake0"));
    return 0;
}

/* Keys of the peer's memory, right or wrong. */
static uint32_t keys_make(const struct step *step, uint8_t *payload)
{
    struct frame_keys keys = {.base = peer_number(step->offset),
                              .iova = (uintptr_t)peer.memory,
                              .length = sizeof(peer.memory),
                              .access = step->flags & 3,
                              .region = peer_handle(step->region)};
    const uint32_t key = (step->flags & 8) != 0 ? peer.mr->rkey + 1 : peer.mr->rkey;

    if ((step->flags & 16) != 0)
        keys.iova = peer_number(step->value);
    if ((step->flags & 32) != 0)
        keys.length = peer_number(step->value);
    memcpy(payload, &keys, sizeof(keys));
    memcpy(payload + sizeof(keys), &key, sizeof(key));
    return sizeof(keys) + ((step->flags & 64) != 0 ? step->length % 64 : sizeof(key));
}

static void frame_add(const struct step *step)
{
    static uint8_t payload[UINT16_MAX];
    struct frame frame = peer_frame(step, payload);

    if (step->type == FRAME_EXPORTED && step->status == TS_OK)
        frame.length = keys_make(step, payload);
    packet_add(&frame, sizeof(frame));
    packet_add(payload, frame.length);
}

static void device_break(const struct step *step)
{
    static const enum ibv_wc_status causes[] = {IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_ACCESS_ERR,
                                                IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR};
    struct verbs_link *link = NULL;

    /* Only while they are there. */
    list_each (node, following, &fixture.host.worker.verbs->links) {
        link = list_entry(node, struct verbs_link, member);
        if (link->notify != NULL && link->notify->qp->qp_num == notify_number && link->linked)
            fake_break((step->flags & 1) != 0 ? notify_number : data_number,
                       causes[step->value % 4]);
    }
}

static void device_event(const struct step *step)
{
    static const enum ibv_event_type events[] = {IBV_EVENT_PORT_ERR,   IBV_EVENT_PORT_ACTIVE,
                                                 IBV_EVENT_GID_CHANGE, IBV_EVENT_LID_CHANGE,
                                                 IBV_EVENT_SM_CHANGE,  IBV_EVENT_SRQ_LIMIT_REACHED};

    fake_event(peer.ours, events[step->value % (sizeof(events) / sizeof(events[0]))]);
}

static void step_run(const struct step *step, const uint8_t *rest, size_t left)
{
    switch (step->type) {
    case STEP_PACKET:
        packet_send(notify_number, generation, step->flags, step->length);
        break;
    case STEP_TAKE:
        peer_take();
        break;
    case STEP_BYTES:
        packet_add(rest, (uint32_t)(step->length < left ? step->length : left));
        return;
    case STEP_BREAK:
        device_break(step);
        break;
    case STEP_EVENT:
        device_event(step);
        break;
    case STEP_HOLD:
        peer.ours->held = !peer.ours->held;
        if (!peer.ours->held)
            fake_release(peer.ours);
        break;
    case STEP_STEP:
        fake_step(peer.ours, step->value);
        break;
    default:
        if (step->type < STEP_SUBMIT)
            frame_add(step);
        else
            peer_do(step);
        return;
    }
    host_turns(2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct frame ready = {.type = FRAME_READY};
    struct endpoint *endpoint;
    struct step step;
    int socket;

    if (size < 2)
        return 0;
    fixture_attach();
    packet_begin();
    endpoint = peer_link((data[0] & 1) != 0, &socket);
    notify_number = verbs_link_offer(endpoint->link)->notify_qp;
    data_number = verbs_link_offer(endpoint->link)->data_qp[0];
    generation = (uint32_t)endpoint->generation;
    if ((data[0] & 1) == 0)
        packet_add(&ready, sizeof(ready));
    packet_send(notify_number, generation, 0, 0);
    host_turns(2);
    if ((data[0] & 2) != 0)
        peer_remote(endpoint, (data[0] & 4) != 0);
    for (size_t at = 1; at + sizeof(step) <= size; at += sizeof(step)) {
        memcpy(&step, data + at, sizeof(step));
        step_run(&step, data + at, size - at);
    }
    peer.ours->held = false;
    fake_release(peer.ours);
    peer.ours->port[0].state = IBV_PORT_ACTIVE;
    host_turns(4);
    if ((data[0] & 8) == 0)
        fixture_detach();
    peer_link_end(socket);
    if ((data[0] & 8) != 0)
        fixture_detach();
    host_turns(4);
    fixture_expect_nothing();
    host_require(peer.ours->qps == 0, "a queue pair is left");
    return 0;
}
