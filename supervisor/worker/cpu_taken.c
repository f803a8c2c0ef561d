#include "supervisor/worker/cpu_taken.h"

#include <ctype.h>
#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "shm/process.h"

static void mark_if_pinned(struct topology *topology, pid_t pid)
{
    char comm[16];
    cpu_set_t cpus;

    process_comm(pid, comm);
    if (strcmp(comm, "tesup-worker") != 0 || sched_getaffinity(pid, sizeof(cpus), &cpus) < 0 ||
        CPU_COUNT(&cpus) != 1)
        return;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &cpus))
            topology_mark_taken(topology, cpu);
}

void cpu_taken_mark(struct topology *topology)
{
    DIR *proc = opendir("/proc");
    const struct dirent *entry;

    if (proc == NULL)
        return;
    while ((entry = readdir(proc)) != NULL)
        if (isdigit((unsigned char)entry->d_name[0]))
            mark_if_pinned(topology, (pid_t)strtol(entry->d_name, NULL, 10));
    closedir(proc);
}
