#include "client/bench/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

uint64_t clock_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * CLOCK_NS_PER_S + (uint64_t)now.tv_nsec;
}

void clock_identify(struct message_clock *clock)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

    memset(clock->boot_id, 0, sizeof(clock->boot_id));
    memset(clock->time_namespace, 0, sizeof(clock->time_namespace));
    if (file) {
        if (!fgets(clock->boot_id, sizeof(clock->boot_id), file))
            clock->boot_id[0] = '\0';
        fclose(file);
    }
    /* A kernel without time namespaces has no such link: then both are empty, and equal. */
    if (readlink("/proc/self/ns/time", clock->time_namespace, sizeof(clock->time_namespace) - 1) <
        0)
        clock->time_namespace[0] = '\0';
}

bool clock_is_same(const struct message_clock *a, const struct message_clock *b)
{
    return a->boot_id[0] != '\0' && memcmp(a->boot_id, b->boot_id, sizeof(a->boot_id)) == 0 &&
           memcmp(a->time_namespace, b->time_namespace, sizeof(a->time_namespace)) == 0;
}
