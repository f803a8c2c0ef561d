#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/harness/worker/fake_verbs_inside.h"

struct fake_nic fake_nics[FAKE_NICS];
pthread_mutex_t fake_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

void fake_require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "misused verbs: %s\n", what);
    abort();
}

/* ---- devices ---- */

void fake_reset(void)
{
    for (unsigned i = 0; i < FAKE_NICS; i++)
        fake_require(!fake_nics[i].open, "a device is still open");
    memset(fake_nics, 0, sizeof(fake_nics));
}

static void gid_address(union ibv_gid *gid, const char *address)
{
    if (inet_pton(AF_INET6, address, gid->raw) == 1)
        return;
    memset(gid->raw, 0, sizeof(gid->raw));
    gid->raw[10] = gid->raw[11] = 0xff;
    fake_require(inet_pton(AF_INET, address, gid->raw + 12) == 1, "an address for a GID");
}

void fake_gid_set(struct fake_device *device, uint32_t index, uint32_t type, const char *address)
{
    struct ibv_gid_entry *entry = &device->gid[index];

    fake_require(index < FAKE_GIDS, "room for a GID");
    *entry = (struct ibv_gid_entry){.gid_index = index, .port_num = 1, .gid_type = type};
    gid_address(&entry->gid, address);
    if (device->gid_count <= index)
        device->gid_count = index + 1;
}

static void device_shape(struct fake_device *device, unsigned index)
{
    char address[32];

    device->attr = (struct ibv_device_attr){.max_qp = 4096,
                                            .max_qp_wr = 1024,
                                            .max_sge = 4,
                                            .max_cq = 64,
                                            .max_cqe = 65536,
                                            .max_mr = 4096,
                                            .max_qp_rd_atom = 16,
                                            .max_qp_init_rd_atom = 8,
                                            .max_srq = 16,
                                            .max_srq_wr = 16384,
                                            .max_srq_sge = 1,
                                            .phys_port_cnt = FAKE_PORTS};
    for (unsigned i = 0; i < FAKE_PORTS; i++)
        device->port[i] = (struct ibv_port_attr){.state = i == 0 ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
                                                 .max_mtu = IBV_MTU_4096,
                                                 .active_mtu = IBV_MTU_1024,
                                                 .link_layer = IBV_LINK_LAYER_ETHERNET};
    snprintf(address, sizeof(address), "fe80::%x", index + 1);
    fake_gid_set(device, 0, IBV_GID_TYPE_ROCE_V2, address);
    snprintf(address, sizeof(address), "10.0.0.%u", index + 1);
    fake_gid_set(device, 1, IBV_GID_TYPE_ROCE_V2, address);
    device->inline_max = 128;
    device->next_number = 100 + 1000 * index;
}

struct fake_device *fake_device_add(const char *name)
{
    for (unsigned i = 0; i < FAKE_NICS; i++) {
        struct fake_nic *nic = &fake_nics[i];

        if (nic->used)
            continue;
        *nic = (struct fake_nic){.used = true};
        list_init(&nic->events);
        list_init(&nic->qps);
        list_init(&nic->cqs);
        list_init(&nic->mrs);
        snprintf(nic->seen.device.name, sizeof(nic->seen.device.name), "%s", name);
        device_shape(&nic->seen, i);
        return &nic->seen;
    }
    fake_require(false, "room for a device");
    return NULL;
}

static struct fake_nic *nic_of(struct fake_device *device)
{
    return list_entry(device, struct fake_nic, seen);
}

void fake_fail(struct fake_device *device, enum fake_call call, unsigned skip, unsigned count,
               int error)
{
    FAKE_LOCKED(nic_of(device)->failure[call] =
                    ((struct fake_failure){.skip = skip, .count = count, .error = error}));
}

bool fake_fails(struct fake_nic *nic, enum fake_call call)
{
    struct fake_failure *failure = &nic->failure[call];

    if (failure->count == 0)
        return false;
    if (failure->skip > 0) {
        failure->skip--;
        return false;
    }
    failure->count--;
    errno = failure->error;
    return true;
}

struct ibv_device **ibv_get_device_list(int *count)
{
    struct ibv_device **list = calloc(FAKE_NICS + 1, sizeof(struct ibv_device *));

    *count = 0;
    for (unsigned i = 0; i < FAKE_NICS; i++)
        if (fake_nics[i].used)
            list[(*count)++] = &fake_nics[i].seen.device;
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

/* ---- context ---- */

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct fake_nic *nic = list_entry(device, struct fake_nic, seen.device);

    fake_require(!nic->open, "a device that is opened twice");
    if (fake_fails(nic, FAKE_OPEN))
        return NULL;
    nic->open = true;
    nic->context = (struct ibv_context){.device = device,
                                        .ops = {.poll_cq = fake_poll_cq,
                                                .req_notify_cq = fake_req_notify_cq,
                                                .post_send = fake_post_send,
                                                .post_recv = fake_post_recv,
                                                .post_srq_recv = fake_post_srq_recv},
                                        .cmd_fd = fake_uverbs_open(),
                                        .async_fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC)};
    return &nic->context;
}

int ibv_close_device(struct ibv_context *context)
{
    struct fake_nic *nic = fake_nic_of(context);
    const struct fake_device *seen = &nic->seen;

    fake_require(nic->open && seen->pds == 0 && seen->cqs == 0 && seen->qps == 0 && seen->mrs == 0,
                 "a device that is closed before what it has");
    close(context->async_fd);
    close(context->cmd_fd);
    while (!list_empty(&nic->events)) {
        struct fake_event *event = list_entry(nic->events.next, struct fake_event, link);

        list_remove(&event->link);
        free(event);
    }
    nic->open = false;
    return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    struct fake_nic *nic = fake_nic_of(context);

    if (fake_fails(nic, FAKE_QUERY_DEVICE))
        return errno;
    *attr = nic->seen.attr;
    return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
    if (port == 0 || port > FAKE_PORTS)
        return EINVAL;
    memcpy(attr, &fake_nic_of(context)->seen.port[port - 1], sizeof(struct ibv_port_attr));
    return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                             size_t count, uint32_t flags, size_t entry_size)
{
    const struct fake_device *seen = &fake_nic_of(context)->seen;
    size_t found = 0;

    fake_require(flags == 0 && entry_size == sizeof(*entries), "a GID table without flags");
    for (uint32_t i = 0; i < seen->gid_count && found < count; i++)
        if (seen->gid[i].port_num != 0)
            entries[found++] = seen->gid[i];
    return (ssize_t)found;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct fake_nic *nic = fake_nic_of(context);
    struct ibv_pd *pd;

    if (fake_fails(nic, FAKE_ALLOC_PD))
        return NULL;
    pd = calloc(1, sizeof(*pd));
    pd->context = context;
    pd->handle = 7;
    nic->pd = pd;
    nic->seen.pds++;
    return pd;
}

static struct ibv_ah *ah_make(struct ibv_pd *pd, const struct ibv_ah_attr *attr)
{
    struct fake_nic *nic = fake_nic_of(pd->context);
    const struct fake_device *seen = &nic->seen;
    struct ibv_ah *ah;

    fake_require(attr->port_num == 1 && attr->is_global == 1 &&
                     attr->grh.sgid_index < seen->gid_count &&
                     seen->gid[attr->grh.sgid_index].port_num == 1 && attr->grh.hop_limit > 0,
                 "an address on this port");
    fake_gate_pass();
    if (fake_fails(nic, FAKE_CREATE_AH))
        return NULL;
    ah = calloc(1, sizeof(*ah));
    *ah = (struct ibv_ah){.context = pd->context, .pd = pd};
    nic->seen.ahs++;
    nic->seen.ahs_made++;
    return ah;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    struct ibv_ah *ah;

    FAKE_LOCKED(ah = ah_make(pd, attr));
    return ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
    FAKE_LOCKED(fake_nic_of(ah->context)->seen.ahs--);
    free(ah);
    return 0;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    struct fake_device *seen = &fake_nic_of(pd->context)->seen;

    fake_require(seen->qps == 0 && seen->mrs == 0 && seen->srqs == 0 && seen->ahs == 0,
                 "a protection domain that goes before what it protects");
    seen->pds--;
    free(pd);
    return 0;
}

/* ---- events of the device ---- */

void fake_event_add(struct fake_nic *nic, const struct ibv_async_event *event)
{
    struct fake_event *waiting = calloc(1, sizeof(*waiting));

    waiting->event = *event;
    list_append(&nic->events, &waiting->link);
    fake_require(eventfd_write(nic->context.async_fd, 1) == 0, "an event");
}

void fake_event(struct fake_device *device, enum ibv_event_type type)
{
    const struct ibv_async_event event = {.element.port_num = 1, .event_type = type};

    FAKE_LOCKED(fake_event_add(nic_of(device), &event));
}

void fake_event_qp(uint32_t number, enum ibv_event_type type)
{
    struct fake_qp *qp = fake_qp_find(number);
    const struct ibv_async_event event = {.element.qp = &qp->qp, .event_type = type};

    FAKE_LOCKED(fake_event_add(qp->nic, &event));
}

static bool event_is_of_qp(enum ibv_event_type type)
{
    switch (type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
    case IBV_EVENT_COMM_EST:
        return true;
    default:
        return false;
    }
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    struct fake_nic *nic = fake_nic_of(context);
    struct fake_event *next;
    eventfd_t one;

    if (list_empty(&nic->events)) {
        errno = EAGAIN;
        return -1;
    }
    fake_require(eventfd_read(context->async_fd, &one) == 0, "an event that was announced");
    next = list_entry(nic->events.next, struct fake_event, link);
    *event = next->event;
    list_remove(&next->link);
    free(next);
    if (event_is_of_qp(event->event_type))
        fake_qp_of(event->element.qp)->unacknowledged++;
    return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    if (event_is_of_qp(event->event_type))
        fake_qp_of(event->element.qp)->unacknowledged--;
}

/* ---- completion queues ---- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct fake_channel *channel;

    if (fake_fails(fake_nic_of(context), FAKE_CREATE_CHANNEL))
        return NULL;
    channel = calloc(1, sizeof(*channel));
    channel->channel.context = context;
    channel->channel.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    list_init(&channel->cqs);
    return &channel->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    fake_require(channel->refcnt == 0, "a channel that goes before its completion queues");
    close(channel->fd);
    free(list_entry(channel, struct fake_channel, channel));
    return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
    struct fake_channel *ours = list_entry(channel, struct fake_channel, channel);
    struct fake_cq *rung;
    eventfd_t one;

    if (list_empty(&ours->cqs)) {
        errno = EAGAIN;
        return -1;
    }
    fake_require(eventfd_read(channel->fd, &one) == 0, "a completion that was announced");
    rung = list_entry(ours->cqs.next, struct fake_cq, rung);
    list_remove(&rung->rung);
    rung->unacknowledged++;
    *cq = &rung->cq;
    *context = rung->cq.cq_context;
    return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
    fake_require(count <= fake_cq_of(cq)->unacknowledged, "more acknowledged than there was");
    fake_cq_of(cq)->unacknowledged -= count;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                             struct ibv_comp_channel *channel, int vector)
{
    struct fake_nic *nic = fake_nic_of(context);
    struct fake_cq *cq;

    if (fake_fails(nic, FAKE_CREATE_CQ))
        return NULL;
    fake_require(cqe > 0 && cqe <= nic->seen.attr.max_cqe && vector == 0,
                 "entries that the device has");
    cq = calloc(1, sizeof(*cq));
    cq->cq = (struct ibv_cq){
        .context = context, .channel = channel, .cq_context = cq_context, .cqe = cqe};
    cq->ring = calloc((size_t)cqe, sizeof(*cq->ring));
    list_init(&cq->rung);
    list_append(&nic->cqs, &cq->member);
    nic->seen.cqs++;
    if (channel != NULL)
        channel->refcnt++;
    return &cq->cq;
}

int ibv_resize_cq(struct ibv_cq *base, int cqe)
{
    struct fake_nic *nic = fake_nic_of(base->context);
    struct fake_cq *cq = fake_cq_of(base);

    if (fake_fails(nic, FAKE_RESIZE_CQ))
        return errno;
    if (cqe > nic->seen.attr.max_cqe || cqe < (int)cq->count)
        return EINVAL;
    cq->ring = realloc(cq->ring, (size_t)cqe * sizeof(*cq->ring));
    base->cqe = cqe;
    return 0;
}

int ibv_destroy_cq(struct ibv_cq *base)
{
    struct fake_nic *nic = fake_nic_of(base->context);
    struct fake_cq *cq = fake_cq_of(base);

    list_each (node, following, &nic->qps) {
        const struct fake_qp *qp = list_entry(node, struct fake_qp, member);

        fake_require(qp->qp.send_cq != base && qp->qp.recv_cq != base,
                     "a completion queue that goes before its queue pairs");
    }
    fake_require(cq->unacknowledged == 0, "a completion queue whose destruction never ends");
    if (base->channel != NULL)
        base->channel->refcnt--;
    list_remove(&cq->rung);
    list_remove(&cq->member);
    nic->seen.cqs--;
    free(cq->ring);
    free(cq);
    return 0;
}

/* ---- shared receive queues ---- */

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
    struct fake_nic *nic = fake_nic_of(pd->context);
    const struct ibv_device_attr *attr = &nic->seen.attr;
    struct fake_srq *srq;

    if (fake_fails(nic, FAKE_CREATE_SRQ))
        return NULL;
    fake_require(attr->max_srq > 0 && (int)init->attr.max_wr <= attr->max_srq_wr &&
                     init->attr.max_wr > 0 && init->attr.max_sge == 1,
                 "a shared receive queue that the device has");
    srq = calloc(1, sizeof(*srq));
    srq->srq.context = pd->context;
    srq->srq.pd = pd;
    srq->most = init->attr.max_wr;
    list_init(&srq->posted);
    nic->seen.srqs++;
    return &srq->srq;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
    fake_require(mask == IBV_SRQ_LIMIT && attr->srq_limit < fake_srq_of(srq)->most,
                 "a limit below the size");
    fake_srq_of(srq)->limit = attr->srq_limit;
    return 0;
}

int ibv_destroy_srq(struct ibv_srq *base)
{
    struct fake_device *seen = &fake_nic_of(base->context)->seen;
    struct fake_srq *srq = fake_srq_of(base);

    fake_require(srq->users == 0, "a shared receive queue that goes before its queue pairs");
    while (!list_empty(&srq->posted)) {
        struct fake_receive *receive = list_entry(srq->posted.next, struct fake_receive, link);

        list_remove(&receive->link);
        free(receive);
        seen->srq_posted--;
    }
    seen->srqs--;
    free(srq);
    return 0;
}
