#include "supervisor/worker/bind.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "supervisor/worker/cpu_list.h"

#define CPUS_MAX   8192
#define NODES_MAX  1024
#define LONG_BITS  (8 * sizeof(unsigned long))
#define NODE_LONGS (NODES_MAX / LONG_BITS)

static size_t set_fill(const char *cpus, size_t bytes, cpu_set_t *set)
{
    CPU_ZERO_S(bytes, set);
    for (int cpu = 0; cpu < CPUS_MAX; cpu++)
        if (cpu_list_contains(cpus, cpu))
            CPU_SET_S((size_t)cpu, bytes, set);
    return (size_t)CPU_COUNT_S(bytes, set);
}

int bind_cpus(const char *cpus)
{
    size_t bytes = CPU_ALLOC_SIZE(CPUS_MAX);
    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
    int rc = -1;

    if (set == NULL)
        return -1;
    if (set_fill(cpus, bytes, set) == 0)
        errno = EINVAL;
    else
        rc = sched_setaffinity(0, bytes, set);
    CPU_FREE(set);
    return rc;
}

void bind_cpus_check(pid_t pid, const char *cpus, char *text, size_t text_size)
{
    size_t bytes = CPU_ALLOC_SIZE(CPUS_MAX);
    cpu_set_t *want = CPU_ALLOC(CPUS_MAX);
    cpu_set_t *have = CPU_ALLOC(CPUS_MAX);

    text[0] = '\0';
    if (want == NULL || have == NULL)
        goto out;
    set_fill(cpus, bytes, want);
    CPU_ZERO_S(bytes, have);
    if (sched_getaffinity(pid, bytes, have) < 0)
        snprintf(text, text_size, "cpu %s: affinity cannot be read: %s", cpus, strerror(errno));
    else if (!CPU_EQUAL_S(bytes, want, have))
        snprintf(text, text_size, "not pinned to cpu %s: it may run on %d cpus", cpus,
                 CPU_COUNT_S(bytes, have));
out:
    CPU_FREE(want);
    CPU_FREE(have);
}

/* Set, then read back. */
int bind_memory(int node)
{
    unsigned long want[NODE_LONGS] = {0}, have[NODE_LONGS] = {0};
    int mode = -1;

    if ((unsigned)node >= NODES_MAX) {
        errno = EINVAL;
        return -1;
    }
    want[(unsigned)node / LONG_BITS] = 1ul << ((unsigned)node % LONG_BITS);
    if (syscall(SYS_set_mempolicy, MPOL_PREFERRED, want, (unsigned long)NODES_MAX) < 0 ||
        syscall(SYS_get_mempolicy, &mode, have, (unsigned long)NODES_MAX, NULL, 0ul) < 0)
        return -1;
    if (mode == MPOL_PREFERRED && memcmp(want, have, sizeof(want)) == 0)
        return 0;
    errno = ENOTSUP;
    return -1;
}
