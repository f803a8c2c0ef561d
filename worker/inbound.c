#include "worker/inbound.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/err.h"
#include "worker/channel.h"
#include "worker/region.h"
#include "worker/remote.h"

#define NOTIFY_BUDGET_MAX (64u * 1024u * 1024u) /* credit that one segment gives out in all */
#define WINDOW_BEST       (256u * 1024u)        /* of one sender, while there are few */

/* A notification that waits for room in the mailbox. */
struct parked {
    struct list link;
    struct notify_record record;
    uint8_t bytes[]; /* name, message */
};

static void inbound_answer(struct endpoint *endpoint, uint32_t sender_remote, int status,
                           uint32_t open, uint64_t window, const char *text)
{
    struct frame frame = {.type = FRAME_OPENED,
                          .request = sender_remote,
                          .open = open,
                          .status = (int16_t)status,
                          .value = window,
                          .length = (uint32_t)strlen(text)};

    endpoint->link->ops->send(endpoint->link, &frame, text, frame.length, NULL, 0);
}

/* A sender's window: generous while there are few, never less than one full notification while a
 * quarter of the window is kept back (inbound_return_credit). */
static uint64_t inbound_window(const struct session *session, uint32_t notify_max)
{
    uint64_t least = notify_cost(notify_max, 0) * 4 / 3 + 1;
    uint64_t best = WINDOW_BEST > least ? WINDOW_BEST : least;
    uint64_t left =
        NOTIFY_BUDGET_MAX > session->notify_budget ? NOTIFY_BUDGET_MAX - session->notify_budget : 0;

    if (left < least)
        return 0;
    return left / 16 > best ? best : (left / 16 > least ? left / 16 : least);
}

/* May this sender open this segment?  The peer is authenticated and vouches for the uid. */
static int inbound_permit(const struct endpoint *endpoint, const struct session *session,
                          const struct frame_open *ask, char text[PROTO_TEXT_MAX])
{
    if (session == NULL) {
        snprintf(text, PROTO_TEXT_MAX, "no segment \"%.63s\" at %.150s", ask->segment,
                 endpoint->worker->config.address);
        return TS_ERR_NOT_FOUND;
    }
    if ((session->flags & PROTO_SHARE_ALL) == 0 && ask->uid != session->uid && ask->uid != 0) {
        snprintf(text, PROTO_TEXT_MAX,
                 "segment \"%s\" belongs to uid %u and is not shared with uid %u", ask->segment,
                 session->uid, ask->uid);
        return TS_ERR_DENIED;
    }
    return TS_OK;
}

void inbound_open(struct endpoint *endpoint, const struct frame *frame,
                  const struct frame_open *ask)
{
    struct worker *worker = endpoint->worker;
    struct session *session = session_find_segment(worker, ask->segment);
    struct inbound *inbound = NULL;
    char text[PROTO_TEXT_MAX] = "";
    uint32_t notify_max = worker->config.notify_max;
    uint64_t window = 0;
    int rc = inbound_permit(endpoint, session, ask, text);

    if (rc == TS_OK) {
        window = inbound_window(session, notify_max);
        inbound = calloc(1, sizeof(*inbound));
        rc = window == 0 || inbound == NULL ? TS_ERR_LIMIT : TS_OK;
    }
    if (rc == TS_OK) {
        inbound->handle = table_add(&endpoint->inbounds, inbound);
        rc = inbound->handle == 0 ? TS_ERR_LIMIT : TS_OK;
    }
    if (rc != TS_OK) {
        if (rc == TS_ERR_LIMIT)
            snprintf(text, sizeof(text), "segment \"%s\" has too many senders", ask->segment);
        free(inbound);
        inbound_answer(endpoint, frame->request, rc, 0, 0, text);
        return;
    }
    inbound->endpoint = endpoint;
    inbound->session = session;
    inbound->sender_remote = frame->request;
    inbound->uid = ask->uid;
    inbound->window = inbound->credit = window;
    snprintf(inbound->sender, sizeof(inbound->sender), "%s", ask->sender);
    list_init(&inbound->parked);
    list_init(&inbound->waiting);
    list_init(&inbound->member);
    list_append(&session->inbound, &inbound->member);
    session->notify_budget += (uint32_t)window;
    if (!session->held)
        inbound_welcome(inbound);
}

void inbound_welcome(struct inbound *inbound)
{
    struct endpoint *endpoint = inbound->endpoint;

    if (inbound->welcomed || endpoint == NULL || endpoint->link == NULL ||
        endpoint->lost_status != TS_OK)
        return;
    inbound->welcomed = true;
    inbound_answer(endpoint, inbound->sender_remote, TS_OK, inbound->handle, inbound->window, "");
}

static void inbound_leave_session(struct inbound *inbound)
{
    while (!list_empty(&inbound->parked)) {
        struct parked *parked = list_entry(inbound->parked.next, struct parked, link);

        list_remove(&parked->link);
        free(parked);
        atomic_count(&inbound->session->worker->stats->notify_parked, (uint64_t)-1);
    }
    list_remove(&inbound->member);
    list_remove(&inbound->waiting);
    if (inbound->session != NULL)
        inbound->session->notify_budget -= (uint32_t)inbound->window;
    inbound->session = NULL;
}

void inbound_free(struct inbound *inbound)
{
    table_remove(&inbound->endpoint->inbounds, inbound->handle);
    inbound->endpoint = NULL;
    if (list_empty(&inbound->parked)) {
        inbound_leave_session(inbound);
        free(inbound);
    }
}

void inbound_end(struct inbound *inbound, int status)
{
    struct endpoint *endpoint = inbound->endpoint;
    struct frame frame = {
        .type = FRAME_GONE, .request = inbound->sender_remote, .status = (int16_t)status};

    inbound_leave_session(inbound);
    if (endpoint == NULL) {
        free(inbound);
        return;
    }
    if (endpoint->link == NULL || endpoint->lost_status != TS_OK || endpoint->worker->leaving)
        return;
    if (inbound->welcomed) {
        endpoint->link->ops->send(endpoint->link, &frame, NULL, 0, NULL, 0);
        return;
    }
    inbound_answer(endpoint, inbound->sender_remote, TS_ERR_NOT_FOUND, 0, 0, "its job has ended");
    inbound_free(inbound);
}

/* Credit goes back in quarters of the window, so that it costs few frames. */
static void inbound_return_credit(struct inbound *inbound, uint64_t bytes)
{
    struct endpoint *endpoint = inbound->endpoint;
    struct frame frame = {.type = FRAME_CREDIT, .request = inbound->sender_remote};

    inbound->owed += bytes;
    if (endpoint == NULL)
        return;
    if (inbound->owed < inbound->window / 4 || endpoint->link == NULL ||
        endpoint->lost_status != TS_OK)
        return;
    frame.value = inbound->owed;
    if (endpoint->link->ops->send(endpoint->link, &frame, NULL, 0, NULL, 0) != TS_OK)
        return;
    inbound->credit += inbound->owed;
    inbound->owed = 0;
}

static int inbound_deliver(struct inbound *inbound, const struct notify_record *record,
                           const uint8_t *body)
{
    struct session *session = inbound->session;
    int rc =
        channel_deliver(session->mailbox, record, inbound->sender, body, body + record->name_len);

    if (rc != TS_OK)
        return rc;
    atomic_count(&session->worker->stats->notify_delivered, 1);
    inbound_return_credit(inbound, notify_cost(record->name_len, record->msg_len));
    return TS_OK;
}

static int inbound_park(struct inbound *inbound, const struct notify_record *record,
                        const uint8_t *body)
{
    size_t size = (size_t)record->name_len + record->msg_len;
    struct parked *parked = malloc(sizeof(*parked) + size);

    if (parked == NULL)
        return TS_ERR_NO_MEMORY;
    parked->record = *record;
    memcpy(parked->bytes, body, size);
    list_append(&inbound->parked, &parked->link);
    if (list_empty(&inbound->waiting))
        list_append(&inbound->session->parked, &inbound->waiting);
    atomic_count(&inbound->session->worker->stats->notify_parked, 1);
    return TS_OK;
}

/* To the job, or to wait for room in its mailbox; of a WRITE that failed only when it is wanted. */
static int inbound_pass(struct inbound *inbound, const struct frame *frame,
                        const struct notify_record *record, const uint8_t *body, uint64_t cost)
{
    inbound->credit -= cost;
    if (frame->status != TS_OK && (frame->flags & FRAME_FLAG_ALWAYS) == 0) {
        inbound_return_credit(inbound, cost);
        return TS_OK;
    }
    if (list_empty(&inbound->parked) && inbound_deliver(inbound, record, body) == TS_OK)
        return TS_OK;
    return inbound_park(inbound, record, body);
}

int inbound_notify(struct inbound *inbound, const struct frame *frame, const uint8_t *payload)
{
    struct session *session = inbound->session;
    uint32_t name_len = frame->region, msg_len = frame->length - frame->region;
    uint64_t cost = notify_cost(name_len, msg_len);
    struct notify_record record = {.kind = NOTIFY_KIND_MESSAGE,
                                   .from_len = (uint16_t)strlen(inbound->sender),
                                   .name_len = name_len,
                                   .msg_len = msg_len,
                                   .status = frame->status,
                                   .bytes = frame->value};
    int rc;

    if (cost > inbound->credit ||
        (session != NULL && frame->length > session->worker->config.notify_max))
        return TS_ERR_PROTOCOL;
    if (session == NULL || session->killed || session->mailbox == NULL) {
        inbound->credit -= cost;
        return TS_OK; /* the sender is being told GONE */
    }
    record.size = (uint32_t)ring_record_size(record.from_len, name_len, msg_len);
    rc = inbound_pass(inbound, frame, &record, payload, cost);
    if (rc == TS_OK)
        atomic_count(&session->worker->stats->notify_received, 1);
    else
        inbound->credit += cost; /* it did not arrive: a link may bring it again */
    return rc;
}

int inbound_find_region(struct endpoint *endpoint, const struct frame *frame,
                        struct region **region, int *status)
{
    struct inbound *inbound;
    uint64_t offset = frame->offset;
    bool by_address = (frame->flags & FRAME_FLAG_ADDR) != 0;
    void *object = NULL;
    int rc = table_get(&endpoint->inbounds, frame->open, &object);

    if (rc == TS_ERR_NOT_FOUND)
        return TS_ERR_PROTOCOL;
    inbound = object;
    *status = rc != TS_OK || inbound->session == NULL ? TS_ERR_GONE : TS_OK;
    if (*status != TS_OK)
        return TS_OK;
    /* One look for either right; which one a transfer needs is checked with it. */
    *status = region_use_remote(inbound->session, frame->region, by_address, &offset, frame->value,
                                false, region);
    offset = frame->offset;
    if (*status == TS_ERR_DENIED)
        *status = region_use_remote(inbound->session, frame->region, by_address, &offset,
                                    frame->value, true, region);
    return TS_OK;
}

static int events_do_work(struct session *session)
{
    int done = 0;

    list_each (node, following, &session->events) {
        struct remote *remote = list_entry(node, struct remote, event);
        struct notify_record record = {.kind = NOTIFY_KIND_EVENT,
                                       .from_len = (uint16_t)strlen(remote->name),
                                       .status = remote->gone_status,
                                       .remote = remote->handle};

        record.size = (uint32_t)ring_record_size(record.from_len, 0, 0);
        if (channel_deliver(session->mailbox, &record, remote->name, "", "") != TS_OK)
            break;
        list_remove(&remote->event);
        done++;
    }
    return done;
}

int inbound_do_work(struct session *session)
{
    int done = 0;

    if (session->mailbox == NULL || session->killed)
        return 0;
    if (!list_empty(&session->events))
        done += events_do_work(session);
    while (!list_empty(&session->parked)) {
        struct inbound *inbound = list_entry(session->parked.next, struct inbound, waiting);
        struct parked *parked = list_entry(inbound->parked.next, struct parked, link);

        if (inbound_deliver(inbound, &parked->record, parked->bytes) != TS_OK)
            break;
        list_remove(&parked->link);
        free(parked);
        atomic_count(&session->worker->stats->notify_parked, (uint64_t)-1);
        /* Senders take turns. */
        list_remove(&inbound->waiting);
        if (!list_empty(&inbound->parked)) {
            list_append(&session->parked, &inbound->waiting);
        } else if (inbound->endpoint == NULL) {
            inbound_leave_session(inbound);
            free(inbound);
        }
        done++;
    }
    return done;
}
