#include "supervisor/loop.h"

#include <errno.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/log.h"

int loop_init(struct loop *loop)
{
    loop->stop = false;
    loop->batch_count = 0;
    timer_heap_init(&loop->timers);
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    return loop->epoll < 0 ? -1 : 0;
}

void loop_fini(struct loop *loop)
{
    if (loop->epoll >= 0)
        close(loop->epoll);
    loop->epoll = -1;
    timer_heap_fini(&loop->timers);
}

int loop_add(struct loop *loop, struct loop_source *source, int fd, uint32_t events,
             void (*ready)(struct loop_source *source, uint32_t events))
{
    struct epoll_event event = {.events = events, .data.ptr = source};

    source->fd = fd;
    source->ready = ready;
    source->watched = epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
    return source->watched ? 0 : -1;
}

void loop_change(struct loop *loop, struct loop_source *source, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};

    if (source->watched)
        epoll_ctl(loop->epoll, EPOLL_CTL_MOD, source->fd, &event);
}

void loop_remove(struct loop *loop, struct loop_source *source)
{
    if (!source->watched)
        return;
    source->watched = false;
    epoll_ctl(loop->epoll, EPOLL_CTL_DEL, source->fd, NULL);
    /* Its owner may be freed next, while an event for it is already in our hands. */
    for (int i = 0; i < loop->batch_count; i++)
        if (loop->batch[i].data.ptr == source)
            loop->batch[i].data.ptr = NULL;
}

void loop_timer_set(struct loop *loop, struct timer *timer, uint64_t ms)
{
    if (timer_set(&loop->timers, timer, clock_now() + ms * CLOCK_NS_PER_MS) != TS_OK)
        log_error("out of memory: a deadline of %llu ms is not watched", (unsigned long long)ms);
}

int loop_run(struct loop *loop)
{
    while (!loop->stop) {
        uint64_t next = timer_heap_next(&loop->timers);
        int wait = next == UINT64_MAX ? -1 : clock_ms_until(next, clock_now());
        int count = epoll_wait(loop->epoll, loop->batch, LOOP_BATCH, wait);

        if (count < 0 && errno != EINTR)
            return -1;
        loop->batch_count = count > 0 ? count : 0;
        for (int i = 0; i < loop->batch_count; i++) {
            struct loop_source *source = loop->batch[i].data.ptr;

            if (source != NULL)
                source->ready(source, loop->batch[i].events);
        }
        loop->batch_count = 0;
        timer_heap_run(&loop->timers, clock_now());
    }
    return 0;
}
