#include "supervisor/worker/link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/list.h"

#define RETRY_MS 20u

struct link_item {
    struct link_item *next;
    int fds[WIRE_FDS_MAX];
    int fd_count;
    struct wire_header header;
    uint8_t body[];
};

static void link_ready(struct loop_source *source, uint32_t events);
static void link_timer(struct timer *timer);

int worker_link_open(struct worker_link *link, struct loop *loop, int fd)
{
    link->loop = loop;
    link->queued = 0;
    link->timer.fire = link_timer;
    if (loop_add(loop, &link->source, fd, EPOLLIN, link_ready) < 0)
        return -1;
    link->fd = fd;
    return 0;
}

static void item_free(struct link_item *item)
{
    for (int i = 0; i < item->fd_count; i++)
        close(item->fds[i]);
    free(item);
}

static struct link_item *queue_take(struct worker_link *link)
{
    struct link_item *item = link->first;

    link->first = item->next;
    link->queued--;
    return item;
}

void worker_link_close(struct worker_link *link)
{
    if (link->fd < 0)
        return;
    loop_remove(link->loop, &link->source);
    timer_clear(&link->loop->timers, &link->timer);
    close(link->fd);
    link->fd = -1;
    while (link->first != NULL)
        item_free(queue_take(link));
}

static struct link_item *item_new(const struct wire_message *message)
{
    struct link_item *item = malloc(sizeof(*item) + message->header.length);

    if (item == NULL)
        return NULL;
    item->next = NULL;
    item->header = message->header;
    item->fd_count = 0;
    memcpy(item->body, message->body.bytes, message->header.length);
    for (int i = 0; i < message->fd_count; i++) {
        int fd = fcntl(message->fds[i], F_DUPFD_CLOEXEC, 0);

        if (fd < 0) {
            item_free(item);
            return NULL;
        }
        item->fds[item->fd_count++] = fd;
    }
    return item;
}

static int item_send(int fd, const struct link_item *item)
{
    struct wire_message message;

    message.header = item->header;
    message.fd_count = item->fd_count;
    memcpy(message.fds, item->fds, sizeof(message.fds));
    memcpy(message.body.bytes, item->body, item->header.length);
    return wire_send(fd, &message);
}

/* The kernel is short of something for the moment; the socket itself may be writable. */
static bool error_passes(int error)
{
    return error == ETOOMANYREFS || error == ENOMEM || error == ENOBUFS;
}

/* A message is lost to this worker: it must start over.  Told by the timer, because callers of
 * worker_link_send hold the owner's objects. */
static void link_break(struct worker_link *link)
{
    link->progress_ns = 0;
    loop_timer_set(link->loop, &link->timer, 0);
}

static void link_queue(struct worker_link *link, const struct wire_message *message)
{
    struct link_item *item;

    if (link->queued >= WORKER_LINK_QUEUE_MAX) {
        link_break(link);
        return;
    }
    item = item_new(message);
    if (item == NULL) {
        link_break(link);
        return;
    }
    if (link->first == NULL) {
        link->first = item;
        link->progress_ns = clock_now();
        loop_change(link->loop, &link->source, EPOLLIN | EPOLLOUT);
        loop_timer_set(link->loop, &link->timer, WORKER_LINK_STUCK_MS);
    } else {
        link->last->next = item;
    }
    link->last = item;
    link->queued++;
}

void worker_link_send(struct worker_link *link, const struct wire_message *message)
{
    int rc = TS_AGAIN;

    if (link->fd < 0)
        return;
    if (link->first == NULL)
        rc = wire_send(link->fd, message);
    if (rc == TS_AGAIN || (rc == TS_ERR_SYSTEM && error_passes(errno)))
        link_queue(link, message);
    else if (rc == TS_ERR_SYSTEM)
        link_break(link);
    /* TS_ERR_GONE: it is dying; its exit is seen next, and its successor gets everything. */
}

static void link_flush(struct worker_link *link)
{
    while (link->first != NULL) {
        int rc = item_send(link->fd, link->first);

        if (rc == TS_AGAIN)
            return;
        if (rc == TS_ERR_SYSTEM && error_passes(errno)) {
            loop_change(link->loop, &link->source, EPOLLIN);
            loop_timer_set(link->loop, &link->timer, RETRY_MS);
            return;
        }
        if (rc == TS_ERR_SYSTEM) {
            link_break(link);
            return;
        }
        item_free(queue_take(link));
        link->progress_ns = clock_now();
    }
    timer_clear(&link->loop->timers, &link->timer);
    loop_change(link->loop, &link->source, EPOLLIN);
    link->drained(link);
}

static void link_timer(struct timer *timer)
{
    struct worker_link *link = list_entry(timer, struct worker_link, timer);
    uint64_t now = clock_now(), limit = WORKER_LINK_STUCK_MS * CLOCK_NS_PER_MS;

    if (link->progress_ns == 0) {
        link->broken(link, "a message could not be queued for it");
        return;
    }
    if (now - link->progress_ns >= limit) {
        link->broken(link, "it took no message for 30 s");
        return;
    }
    loop_timer_set(link->loop, &link->timer, WORKER_LINK_STUCK_MS);
    loop_change(link->loop, &link->source, EPOLLIN | EPOLLOUT);
    link_flush(link);
}

void worker_link_receive(struct worker_link *link, int max)
{
    struct wire_message message;

    while (link->fd >= 0 && max-- > 0) {
        int rc = wire_receive(link->fd, &message);

        if (rc == TS_AGAIN)
            return;
        if (rc == TS_ERR_GONE) {
            loop_remove(link->loop, &link->source); /* its exit is seen by the pidfd */
            return;
        }
        if (rc != TS_OK) {
            link->broken(link, "it sent a message that makes no sense");
            return;
        }
        link->received(link, &message);
        wire_message_close(&message);
    }
}

static void link_ready(struct loop_source *source, uint32_t events)
{
    struct worker_link *link = list_entry(source, struct worker_link, source);

    if ((events & EPOLLOUT) != 0)
        link_flush(link);
    if (link->fd >= 0 && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)
        worker_link_receive(link, WORKER_LINK_BATCH);
}
