#include "worker/fabric/verbs/link.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/clock.h"
#include "shm/err.h"
#include "worker/fabric/verbs/mr.h"

#define DRAIN_MS 200 /* for flushed work requests to be seen; their QP is destroyed in any case */
#define FLUSH_MS 20  /* for a last word to be answered */

void verbs_link_fail(struct verbs_link *link, int status, const char *format, ...)
{
    char text[PROTO_TEXT_MAX];
    va_list args;

    if (link->closing)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    link_on_lost(&link->link, status, text);
}

void verbs_link_linked(struct verbs_link *link)
{
    if (link->linked || link->closing)
        return;
    link->linked = true;
    endpoint_handle(link->link.endpoint, ENDPOINT_EVENT_LINKED, TS_OK, "");
}

/* ---- link_ops ---- */

bool verbs_link_is_dead(const struct verbs_link *link)
{
    return link->closing || link->link.endpoint->lost_status != TS_OK;
}

static int verbs_send(struct link *base, const struct frame *frame, const void *part1, size_t size1,
                      const void *part2, size_t size2)
{
    struct verbs_link *link = verbs_of(base);
    struct frame copy = *frame;

    /* A notification waits for the next link; all else is about this one. */
    if (verbs_link_is_dead(link))
        return frame->type == FRAME_NOTIFY ? TS_ERR_GONE : TS_OK;
    if (link->notify == NULL)
        return link->carrier->ops->send(link->carrier, frame, part1, size1, part2, size2);
    copy.flags &= (uint8_t)~FRAME_FLAG_BOUND; /* it cannot arrive if the bytes before it do not */
    return verbs_stream_send(link, &copy, part1, size1, part2, size2);
}

void verbs_link_post_aside(struct verbs_link *link, struct transfer *transfer)
{
    atomic_count(&link->nic->worker->stats->rdma_aside, 1);
    transfer->aside = true;
    link->carrier->ops->post(link->carrier, transfer);
}

static void verbs_post(struct link *base, struct transfer *transfer)
{
    struct verbs_link *link = verbs_of(base);

    if (verbs_mr_is_known(transfer->local))
        imports_post(&link->imports, transfer);
    else
        verbs_link_post_aside(link, transfer);
}

static void verbs_cancel(struct link *base, struct transfer *transfer)
{
    struct verbs_link *link = verbs_of(base);

    if (transfer->aside)
        link->carrier->ops->cancel(link->carrier, transfer);
    else if (transfer->progress != NULL)
        verbs_move_stop(transfer->progress, TS_ERR_CANCELLED);
    else if (imports_unwait(&link->imports, transfer))
        transfer_on_done(transfer, TS_ERR_CANCELLED, 0);
}

static void verbs_forget(struct link *base, struct transfer *transfer)
{
    struct verbs_link *link = verbs_of(base);

    if (transfer->aside)
        link->carrier->ops->forget(link->carrier, transfer);
    else if (transfer->progress != NULL)
        verbs_move_forget(transfer->progress);
    else
        imports_unwait(&link->imports, transfer);
}

static int verbs_do_work(struct link *base)
{
    struct verbs_link *link = verbs_of(base);
    int done = 0;

    if (verbs_link_is_dead(link))
        return 0;
    verbs_renew_step(link);
    if (link->notify != NULL)
        verbs_stream_fill(link);
    verbs_moves_stage(link);
    if (link->notify != NULL) {
        verbs_stream_flush(link);
        done += verbs_qp_post(link->notify);
    }
    for (uint32_t i = 0; i < link->data_count; i++)
        done += verbs_qp_post(link->data[i]);
    return done;
}

static bool link_is_flushed(const struct verbs_link *link)
{
    return link->notify == NULL ||
           (verbs_stream_is_idle(link) && link->notify->head == link->notify->tail);
}

/* Its last words: the peer's answers to them are waited for, a moment. */
static void verbs_flush(struct link *base)
{
    struct verbs_link *link = verbs_of(base);
    uint64_t until = clock_now() + FLUSH_MS * CLOCK_NS_PER_MS;

    do {
        verbs_do_work(base);
        verbs_poll_once(link->nic);
    } while (!verbs_link_is_dead(link) && !link_is_flushed(link) && clock_now() < until);
    if (link->notify == NULL)
        link->carrier->ops->do_work(link->carrier);
}

static void verbs_revoke(struct link *base, struct region *region)
{
    struct verbs_link *link = verbs_of(base);

    verbs_key_revoke(link, region);
    link->carrier->ops->revoke(link->carrier, region);
}

int verbs_on_frame(struct link *base, const struct frame *frame, const uint8_t *payload)
{
    struct verbs_link *link = verbs_of(base);

    switch (frame->type) {
    case FRAME_READY:
        if (link->initiator)
            return TS_ERR_PROTOCOL;
        verbs_link_linked(link);
        return TS_OK;
    case FRAME_EXPORT:
        return verbs_key_on_export(link, frame);
    case FRAME_EXPORTED:
        return verbs_key_on_exported(link, frame, payload);
    case FRAME_REVOKE:
        return verbs_key_on_revoke(link, frame);
    case FRAME_REVOKED:
        return verbs_key_on_revoked(link, frame);
    case FRAME_BROKEN:
    case FRAME_RENEW:
    case FRAME_RENEWED:
        return verbs_renew_on_frame(link, frame);
    default:
        return TS_ERR_PROTOCOL;
    }
}

/* ---- the end ---- */

static bool link_is_drained(const struct verbs_link *link)
{
    for (uint32_t i = 0; i < link->data_count; i++)
        if (!verbs_qp_is_quiet(link->data[i]))
            return false;
    return link->notify == NULL || verbs_qp_is_quiet(link->notify);
}

/* Stops the QPs and counts their work requests in; what the peer sent before is still delivered. */
static void link_drain(struct verbs_link *link)
{
    uint64_t until = clock_now() + DRAIN_MS * CLOCK_NS_PER_MS;

    verbs_poll_once(link->nic);
    for (uint32_t i = 0; i < link->data_count; i++)
        verbs_qp_stop(link->data[i]);
    if (link->notify != NULL)
        verbs_qp_stop(link->notify);
    while (!link_is_drained(link) && clock_now() < until)
        verbs_poll_once(link->nic);
    /* To the end, behind whatever others have in the queue: what is left in there of a QP that is
     * gone would take an entry that its successor is promised. */
    while (verbs_poll_once(link->nic) > 0 && clock_now() < until)
        continue;
}

static void link_destroy_queues(struct verbs_link *link)
{
    for (uint32_t i = 0; i < link->data_count; i++)
        verbs_qp_destroy(link->data[i]);
    link->data_count = 0;
    if (link->notify == NULL)
        return;
    verbs_qp_destroy(link->notify);
    link->notify = NULL;
}

static void verbs_close(struct link *base)
{
    struct verbs_link *link = verbs_of(base);

    link->closing = true;
    link_drain(link);
    link_destroy_queues(link); /* from here on no byte can land */
    verbs_moves_fini(link);
    verbs_keys_fini(link);
    verbs_stream_fini(link);
    verbs_renew_fini(link);
    verbs_window_release(link->nic, link->stream.window);
    if (link->carrier != NULL) {
        list_remove(&link->carrier->busy);
        link->carrier->ops->close(link->carrier);
    }
    list_remove(&link->member);
    list_remove(&link->link.busy);
    free(link);
}

static struct counters_queue queue_numbers(const struct verbs_qp *qp)
{
    return (struct counters_queue){.own = qp->qp->qp_num, .peer = qp->peer};
}

static void verbs_show(const struct link *base, struct counters_endpoint *line)
{
    const struct verbs_link *link = list_entry(base, const struct verbs_link, link);

    static_assert(HANDSHAKE_QPS <= COUNTERS_QUEUES, "room for each");
    if (link->notify != NULL)
        line->notify_queue = queue_numbers(link->notify);
    for (uint32_t i = 0; i < link->data_count; i++)
        line->data_queue[line->data_queues++] = queue_numbers(link->data[i]);
}

static const struct link_ops verbs_ops = {
    .name = "verbs",
    .notify = "native",
    .send = verbs_send,
    .post = verbs_post,
    .cancel = verbs_cancel,
    .forget = verbs_forget,
    .do_work = verbs_do_work,
    .flush = verbs_flush,
    .revoke = verbs_revoke,
    .on_frame = verbs_on_frame,
    .show = verbs_show,
    .close = verbs_close,
};

/* ---- set-up ---- */

static void link_on_patience(struct timer *timer)
{
    struct verbs_link *link = list_entry(timer, struct verbs_link, patience);

    verbs_link_fail(link, TS_ERR_TIMEOUT, "the peer did not let go of an unregistered region");
}

/* Without a notification QP the endpoint still moves data; its notifications go by TCP or not at
 * all, and status says why. */
static void link_open_notify(struct verbs_link *link)
{
    struct worker *worker = link->nic->worker;
    char text[PROTO_TEXT_MAX] = "";
    int rc;

    if (worker->config.notify_native == 0) {
        snprintf(link->notify_text, sizeof(link->notify_text), "tcp (native is off)");
        return;
    }
    link->stream.window = verbs_window_reserve(link->nic, text, sizeof(text));
    if (link->stream.window > 0)
        link->notify = verbs_qp_create(link, true, &rc, text, sizeof(text));
    if (link->notify != NULL && link->nic->srq == NULL &&
        verbs_receive_fill(link->nic, link->notify, link->stream.window) != TS_OK) {
        snprintf(text, sizeof(text), "%s: cannot post a receive buffer: %s", link->nic->name,
                 strerror(errno));
        verbs_qp_destroy(link->notify);
        link->notify = NULL;
    }
    if (link->notify != NULL) {
        link->notify->renewal.index = VERBS_RENEW_NOTIFY;
        return;
    }
    verbs_window_release(link->nic, link->stream.window);
    link->stream.window = 0;
    link->link.notify_status = TS_ERR_LIMIT;
    snprintf(link->notify_text, sizeof(link->notify_text), "refused (no room here)");
    worker_error(worker, &worker->peer_limit, "no notification queue pair for %s: %s",
                 link->link.endpoint->address, text);
}

static void link_describe(struct verbs_link *link, struct handshake_verbs *mine)
{
    const struct verbs_nic *nic = link->nic;

    *mine =
        (struct handshake_verbs){.offered = true,
                                 .gid_count = nic->gid_count,
                                 .lid = nic->port_attr.lid,
                                 .mtu = verbs_mtu_bytes(nic->port_attr.active_mtu),
                                 .psn = link->psn,
                                 .data_qps = link->data_count,
                                 .window = link->stream.window,
                                 .reads = verbs_reads_max(nic->attr.max_qp_rd_atom),
                                 .renews = true,
                                 .notify_qp = link->notify != NULL ? link->notify->qp->qp_num : 0};
    if (nic->worker->config.rdma.mtu != 0 && nic->worker->config.rdma.mtu < mine->mtu)
        mine->mtu = nic->worker->config.rdma.mtu;
    for (uint32_t i = 0; i < nic->gid_count; i++) {
        memcpy(mine->gid[i], nic->gid[i].gid.raw, sizeof(mine->gid[i]));
        mine->gid_type[i] = nic->gid[i].type;
    }
    for (uint32_t i = 0; i < link->data_count; i++)
        mine->data_qp[i] = link->data[i]->qp->qp_num;
}

struct link *verbs_link_prepare(struct endpoint *endpoint, bool initiator, char *text,
                                size_t text_size)
{
    struct verbs_nic *nic = endpoint->worker->verbs;
    struct verbs_link *link;
    int rc;

    if (nic->port_down) {
        snprintf(text, text_size, "%s is down", nic->name);
        return NULL;
    }
    link = calloc(1, sizeof(*link));
    if (link == NULL)
        return NULL;
    link_init(&link->link, &verbs_ops, endpoint);
    link->nic = nic;
    link->initiator = initiator;
    link->generation = (uint32_t)endpoint->generation;
    link->patience.fire = link_on_patience;
    verbs_renew_init(link);
    handshake_random(&link->psn, sizeof(link->psn));
    link->psn &= 0xffffff;
    list_init(&link->moves);
    list_init(&link->flying);
    list_init(&link->exports);
    imports_init(&link->imports, &link->link, &verbs_import_ops);
    verbs_stream_init(link);
    list_append(&nic->links, &link->member);
    while (link->data_count < nic->worker->config.rdma.data_qps) {
        struct verbs_qp *qp = verbs_qp_create(link, false, &rc, text, text_size);

        if (qp == NULL)
            goto err_close;
        qp->renewal.index = link->data_count;
        link->data[link->data_count++] = qp;
    }
    snprintf(link->notify_text, sizeof(link->notify_text), "native");
    link_open_notify(link);
    link_describe(link, &link->mine);
    return &link->link;

err_close:
    verbs_close(&link->link);
    return NULL;
}

const struct handshake_verbs *verbs_link_offer(const struct link *link)
{
    return &list_entry(link, const struct verbs_link, link)->mine;
}

/* Only what both sides have: as many stripes as the smaller number, and a notification QP if there
 * are two of them. */
static void link_settle(struct verbs_link *link, const struct handshake_verbs *peer)
{
    struct worker *worker = link->nic->worker;

    while (link->data_count > peer->data_qps)
        verbs_qp_destroy(link->data[--link->data_count]);
    if (link->notify != NULL && (peer->notify_qp == 0 || peer->window == 0)) {
        bool allowed = worker->config.notify_oob != 0;

        verbs_qp_destroy(link->notify);
        link->notify = NULL;
        verbs_window_release(link->nic, link->stream.window);
        link->stream.window = 0;
        link->link.notify_status = allowed ? TS_OK : TS_ERR_UNSUPPORTED;
        snprintf(link->notify_text, sizeof(link->notify_text), "%s (no notification QP there)",
                 allowed ? "tcp" : "refused");
    }
    link->stream.credits = link->stream.peer_window = peer->window;
    link->peer_renews = peer->renews;
}

static int link_connect_queues(struct verbs_link *link, const struct handshake_verbs *peer,
                               uint32_t own, uint32_t theirs, char *text, size_t text_size)
{
    struct verbs_path path = {.gid = own,
                              .dlid = (uint16_t)peer->lid,
                              .mtu = peer->mtu < link->mine.mtu ? peer->mtu : link->mine.mtu,
                              .own_psn = link->psn,
                              .psn = peer->psn,
                              .reads = peer->reads};
    int rc = TS_OK;

    memcpy(path.dgid.raw, peer->gid[theirs], sizeof(path.dgid.raw));
    for (uint32_t i = 0; i < link->data_count && rc == TS_OK; i++) {
        path.qp = peer->data_qp[i];
        rc = verbs_qp_connect(link->data[i], &path, text, text_size);
    }
    path.qp = peer->notify_qp;
    if (rc == TS_OK && link->notify != NULL)
        rc = verbs_qp_connect(link->notify, &path, text, text_size);
    link->path = path;
    return rc;
}

/* The one in use, alone: when it goes, this link goes with it. */
static void link_choose_gid(struct verbs_link *link, uint32_t own)
{
    memcpy(link->mine.gid[0], link->nic->gid[own].gid.raw, sizeof(link->mine.gid[0]));
    link->mine.gid_type[0] = link->nic->gid[own].type;
    link->mine.gid_count = 1;
}

/* Back to where each began, with the same numbers. */
static int link_reset_queues(struct verbs_link *link, char *text, size_t text_size)
{
    int rc = TS_OK;

    for (uint32_t i = 0; i < link->data_count && rc == TS_OK; i++)
        rc = verbs_qp_reset(link->data[i], text, text_size);
    if (rc == TS_OK && link->notify != NULL)
        rc = verbs_qp_reset(link->notify, text, text_size);
    return rc;
}

/* What there was to try, for the error. */
static void link_explain_gids(const struct verbs_link *link, char *text, size_t text_size)
{
    snprintf(text, text_size, "%s and the peer have no GIDs of one kind; here:", link->nic->name);
    for (uint32_t i = 0; i < link->nic->gid_count; i++) {
        size_t used = strlen(text);

        snprintf(text + used, text_size - used, " ");
        verbs_gid_format(&link->nic->gid[i], text + used + 1,
                         text_size > used + 1 ? text_size - used - 1 : 0);
    }
}

/* Each pair of GIDs that can meet, best first; from the peer's other attempts on behind those that
 * brought no link. */
static int link_connect_best(struct verbs_link *link, const struct handshake_verbs *peer,
                             char *text, size_t text_size)
{
    uint32_t own, theirs, pairs = 0;
    char why[PROTO_TEXT_MAX] = "", all[PROTO_TEXT_MAX] = "";

    while (verbs_gid_match(link->nic, peer, pairs, &own, &theirs))
        pairs++;
    for (uint32_t nth = 0; nth < pairs; nth++) {
        (void)verbs_gid_match(link->nic, peer, (nth + peer->gid_pairs) % pairs, &own, &theirs);
        if (link_connect_queues(link, peer, own, theirs, why, sizeof(why)) == TS_OK) {
            link_choose_gid(link, own);
            link->mine.gid_chosen = theirs;
            link->mine.gid_pairs = pairs;
            if (nth > 0)
                worker_error(link->nic->worker, &link->nic->worker->peer_limit,
                             "%s reaches %s by another pair of GIDs than the best; by index: %s",
                             link->nic->name, link->link.endpoint->address, all);
            return TS_OK;
        }
        snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%u: %s", nth > 0 ? "; " : "",
                 link->nic->gid[own].index, strerror(errno));
        if (link_reset_queues(link, why, sizeof(why)) != TS_OK)
            break;
    }
    if (pairs == 0)
        link_explain_gids(link, text, text_size);
    else
        snprintf(text, text_size, "%.120s; by index of our GID: %.100s", why, all);
    return TS_ERR_UNREACHABLE;
}

int verbs_link_answer(struct link *base, const struct handshake_verbs *peer, char *text,
                      size_t text_size)
{
    struct verbs_link *link = verbs_of(base);

    link_settle(link, peer);
    link->mine.data_qps = link->data_count;
    link->mine.notify_qp = link->notify != NULL ? link->notify->qp->qp_num : 0;
    return link_connect_best(link, peer, text, text_size);
}

int verbs_link_confirm(struct link *base, const struct handshake_verbs *peer, char *text,
                       size_t text_size)
{
    struct verbs_link *link = verbs_of(base);
    uint32_t own = peer->gid_chosen;

    if (own >= link->mine.gid_count || own >= link->nic->gid_count ||
        memcmp(link->nic->gid[own].gid.raw, link->mine.gid[own], 16) != 0) {
        snprintf(text, text_size, "%s: its GIDs changed during the handshake", link->nic->name);
        return TS_ERR_UNREACHABLE;
    }
    if (peer->data_qps > link->data_count || peer->gid_count != 1) {
        snprintf(text, text_size, "the peer answered with queue pairs that were not offered");
        return TS_ERR_PROTOCOL;
    }
    link_settle(link, peer);
    link_choose_gid(link, own);
    return link_connect_queues(link, peer, own, 0, text, text_size);
}

int verbs_link_carry(struct link *base, int socket)
{
    struct verbs_link *link = verbs_of(base);
    struct frame ready = {.type = FRAME_READY};

    link->link.notify_text = link->notify_text;
    link->carrier = tcp_link_open(link->link.endpoint, socket);
    if (link->carrier == NULL)
        return TS_ERR_NO_MEMORY;
    if (!link->initiator)
        return TS_OK; /* speaks when it was spoken to: then the peer's QPs are ready, too */
    if (verbs_send(base, &ready, NULL, 0, NULL, 0) != TS_OK)
        return TS_ERR_NO_MEMORY;
    if (link->notify == NULL)
        verbs_link_linked(link); /* else when the peer's QP has answered */
    return TS_OK;
}
