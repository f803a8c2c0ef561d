/* Limits and rules of the kernel that hold for every fabric. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "shm/yama.h"
#include "supervisor/doctor/doctor.h"

#define MIB           (UINT64_C(1) << 20)
#define GIB           (UINT64_C(1) << 30)
#define FILES_WANTED  4096u       /* a session needs three, a region one, a peer two */
#define MEMLOCK_LEAST (64u * MIB) /* what a worker pins for notifications alone */

static void check_memlock(struct doctor *doctor)
{
    bool rdma = doctor_exists(doctor, "/sys/class/infiniband");
    struct doctor_finding *finding;

    if (doctor->memlock == UINT64_MAX) {
        doctor_add(doctor, DOCTOR_OK, "memlock", "unlimited");
        return;
    }
    finding = doctor_add(doctor,
                         !rdma                             ? DOCTOR_OK
                         : doctor->memlock < MEMLOCK_LEAST ? DOCTOR_BAD
                                                           : DOCTOR_NOTE,
                         "memlock", "%llu KiB may be pinned%s",
                         (unsigned long long)(doctor->memlock / 1024),
                         rdma ? "; registering memory with an RDMA device pins all of it"
                              : "; enough without RDMA devices");
    if (rdma)
        doctor_remedy(finding, "LimitMEMLOCK=infinity in the unit, --ulimit memlock=-1 for a "
                               "container, or `ulimit -l unlimited`");
}

static void check_files(struct doctor *doctor)
{
    struct doctor_finding *finding;

    if (doctor->files >= FILES_WANTED) {
        doctor_add(doctor, DOCTOR_OK, "open files", "%llu", (unsigned long long)doctor->files);
        return;
    }
    finding = doctor_add(doctor, DOCTOR_NOTE, "open files",
                         "%llu; a session, a region and a peer need some each",
                         (unsigned long long)doctor->files);
    doctor_remedy(finding, "LimitNOFILE=%u in the unit, or `ulimit -n %u`", FILES_WANTED,
                  FILES_WANTED);
}

static void check_shared_memory(struct doctor *doctor)
{
    char path[PATH_MAX];
    struct statvfs facts;
    struct doctor_finding *finding;
    uint64_t size;

    snprintf(path, sizeof(path), "%s/dev/shm", doctor->root);
    if (statvfs(path, &facts) != 0) {
        finding = doctor_add(doctor, DOCTOR_NOTE, "/dev/shm",
                             "not there: jobs that share memory by shm_open(3) fail");
        doctor_remedy(finding, "mount -t tmpfs tmpfs /dev/shm");
        return;
    }
    size = (uint64_t)facts.f_blocks * facts.f_frsize;
    if (size >= GIB || strcmp(doctor->root, "") != 0) {
        doctor_add(doctor, DOCTOR_OK, "/dev/shm", "%llu MiB", (unsigned long long)(size / MIB));
        return;
    }
    finding = doctor_add(doctor, DOCTOR_NOTE, "/dev/shm",
                         "%llu MiB; tesup's own memory is not in it, that of shm_open(3) is",
                         (unsigned long long)(size / MIB));
    doctor_remedy(finding, "mount -o remount,size=50%% /dev/shm, or --shm-size for a container");
}

static void check_yama(struct doctor *doctor)
{
    char path[PATH_MAX];
    struct doctor_finding *finding;
    int scope;

    snprintf(path, sizeof(path), "%s" YAMA_SCOPE_PATH, doctor->root);
    scope = yama_scope(path);
    if (scope <= 1 || (scope == 2 && doctor->may_read_other)) {
        doctor_add(doctor, DOCTOR_OK, "private memory", "ptrace_scope %d lets workers reach it",
                   scope);
        return;
    }
    finding = doctor_add(doctor, DOCTOR_BAD, "private memory",
                         "ptrace_scope is %d: workers cannot reach malloc'ed memory of jobs over "
                         "tcp and local",
                         scope);
    if (scope == 2)
        doctor_remedy(finding, "sysctl kernel.yama.ptrace_scope=1, or tesup_mem_alloc in the job");
    else
        doctor_remedy(finding, "kernel.yama.ptrace_scope=1 in /etc/sysctl.d and a reboot (3 cannot "
                               "be lowered), or tesup_mem_alloc in the job");
}

/* "0-3,8": is one of them allowed? */
static bool list_meets(const char *list, const cpu_set_t *cpus)
{
    const char *at = list;

    while (isdigit((unsigned char)*at)) {
        char *end;
        long first = strtol(at, &end, 10), last = first;

        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        for (long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET((size_t)cpu, cpus))
                return true;
        at = *end == ',' ? end + 1 : end;
    }
    return false;
}

static void check_node(struct doctor *doctor, const char *name, void *context)
{
    char list[1024];
    struct doctor_finding *finding;

    (void)context;
    if (strncmp(name, "node", 4) != 0 || !isdigit((unsigned char)name[4]) ||
        !doctor_read(doctor, list, sizeof(list), "/sys/devices/system/node/%s/cpulist", name) ||
        list[0] == '\0')
        return; /* a node of memory alone has no worker */
    if (list_meets(list, &doctor->cpus)) {
        doctor_add(doctor, DOCTOR_OK, name, "CPUs %.200s", list);
        return;
    }
    finding = doctor_add(doctor, DOCTOR_BAD, name,
                         "none of its CPUs (%.100s) is allowed here: its workers run far from "
                         "their NIC",
                         list);
    doctor_remedy(finding, "widen AllowedCPUs= of the unit, --cpuset-cpus of the container, or "
                           "taskset's mask");
}

void doctor_check_host(struct doctor *doctor)
{
    check_memlock(doctor);
    check_files(doctor);
    check_shared_memory(doctor);
    check_yama(doctor);
    (void)doctor_each(doctor, "/sys/devices/system/node", check_node, NULL);
}
