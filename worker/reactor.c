#include "worker/reactor.h"

#include <errno.h>
#include <unistd.h>

#include "shm/clock.h"

#define REACTOR_BATCH 64

int reactor_init(struct reactor *reactor)
{
    *reactor = (struct reactor){.epoll = epoll_create1(EPOLL_CLOEXEC)};
    return reactor->epoll < 0 ? -1 : 0;
}

void reactor_fini(struct reactor *reactor)
{
    close(reactor->epoll);
}

int reactor_watch(struct reactor *reactor, struct source *source, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};
    int op = EPOLL_CTL_MOD;

    if (source->events == events)
        return 0;
    if (source->events == 0)
        op = EPOLL_CTL_ADD;
    else if (events == 0)
        op = EPOLL_CTL_DEL;
    if (epoll_ctl(reactor->epoll, op, source->fd, &event) < 0)
        return -1;
    source->events = events;
    for (int i = 0; events == 0 && i < reactor->dispatch_count; i++)
        if (reactor->dispatching[i] == source)
            reactor->dispatching[i] = NULL;
    return 0;
}

int reactor_wait(struct reactor *reactor, int timeout_ms)
{
    struct epoll_event events[REACTOR_BATCH];
    struct source *sources[REACTOR_BATCH];
    int count = epoll_wait(reactor->epoll, events, REACTOR_BATCH, timeout_ms);

    reactor->looked = clock_now();
    if (count < 0)
        return errno == EINTR ? 0 : -1;
    if (count == 0) {
        reactor->patience = reactor->patience < REACTOR_PATIENCE_MAX / 2
                                ? reactor->patience * 2 + REACTOR_PATIENCE_MIN
                                : REACTOR_PATIENCE_MAX;
        return 0;
    }
    reactor->patience = 0;
    reactor->woken = reactor->looked;
    for (int i = 0; i < count; i++)
        sources[i] = events[i].data.ptr;
    reactor->dispatching = sources;
    reactor->dispatch_count = count;
    for (int i = 0; i < count; i++)
        if (sources[i] != NULL)
            sources[i]->ready(sources[i], events[i].events);
    reactor->dispatching = NULL;
    reactor->dispatch_count = 0;
    return count;
}
