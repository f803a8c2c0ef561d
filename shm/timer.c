#include "shm/timer.h"

#include <stdlib.h>

#include "shm/err.h"

void timer_heap_init(struct timer_heap *heap)
{
    *heap = (struct timer_heap){.count = 0};
}

void timer_heap_fini(struct timer_heap *heap)
{
    free(heap->entries);
    timer_heap_init(heap);
}

static void heap_place(struct timer_heap *heap, size_t at, struct timer *timer)
{
    heap->entries[at] = timer;
    timer->place = at;
}

static void heap_sift_up(struct timer_heap *heap, size_t at)
{
    struct timer *timer = heap->entries[at];

    while (at > 1 && heap->entries[at / 2]->when > timer->when) {
        heap_place(heap, at, heap->entries[at / 2]);
        at /= 2;
    }
    heap_place(heap, at, timer);
}

static void heap_sift_down(struct timer_heap *heap, size_t at)
{
    struct timer *timer = heap->entries[at];

    while (at * 2 <= heap->count) {
        size_t child = at * 2;

        if (child < heap->count && heap->entries[child + 1]->when < heap->entries[child]->when)
            child++;
        if (heap->entries[child]->when >= timer->when)
            break;
        heap_place(heap, at, heap->entries[child]);
        at = child;
    }
    heap_place(heap, at, timer);
}

int timer_set(struct timer_heap *heap, struct timer *timer, uint64_t when)
{
    if (timer->place != 0) {
        timer->when = when;
        heap_sift_up(heap, timer->place);
        heap_sift_down(heap, timer->place);
        return TS_OK;
    }
    if (heap->count + 2 > heap->room) {
        size_t room = heap->room > 0 ? heap->room * 2 : 64;
        struct timer **entries = realloc(heap->entries, room * sizeof(*entries));

        if (entries == NULL)
            return TS_ERR_NO_MEMORY;
        heap->entries = entries;
        heap->room = room;
    }
    timer->when = when;
    heap_place(heap, ++heap->count, timer);
    heap_sift_up(heap, heap->count);
    return TS_OK;
}

void timer_clear(struct timer_heap *heap, struct timer *timer)
{
    size_t at = timer->place;
    struct timer *last;

    if (at == 0)
        return;
    timer->place = 0;
    last = heap->entries[heap->count--];
    if (last == timer)
        return;
    heap_place(heap, at, last);
    heap_sift_up(heap, at);
    heap_sift_down(heap, last->place);
}

uint64_t timer_heap_next(const struct timer_heap *heap)
{
    return heap->count > 0 ? heap->entries[1]->when : UINT64_MAX;
}

int timer_heap_run(struct timer_heap *heap, uint64_t now)
{
    int fired = 0;

    while (heap->count > 0 && heap->entries[1]->when <= now) {
        struct timer *timer = heap->entries[1];

        timer_clear(heap, timer);
        timer->fire(timer);
        fired++;
    }
    return fired;
}
