#include "supervisor/doctor/doctor.h"

#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- this process ---- */

static bool has_capability(unsigned capability)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};

    return syscall(SYS_capget, &header, data) == 0 &&
           (data[capability / 32].effective & (1u << capability % 32)) != 0;
}

static uint64_t limit_of(__rlimit_resource_t resource)
{
    struct rlimit limit = {0};

    if (getrlimit(resource, &limit) != 0)
        return 0;
    return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

void doctor_init(struct doctor *doctor)
{
    memset(doctor, 0, sizeof(*doctor));
    doctor->root = "";
    doctor->memlock = has_capability(CAP_IPC_LOCK) ? UINT64_MAX : limit_of(RLIMIT_MEMLOCK);
    doctor->files = limit_of(RLIMIT_NOFILE);
    doctor->may_read_other = has_capability(CAP_SYS_PTRACE);
    if (sched_getaffinity(0, sizeof(doctor->cpus), &doctor->cpus) != 0)
        CPU_ZERO(&doctor->cpus);
}

void doctor_run(struct doctor *doctor)
{
    doctor_check_host(doctor);
    doctor_check_nics(doctor);
    doctor_check_gpus(doctor);
}

enum doctor_verdict doctor_worst(const struct doctor *doctor)
{
    enum doctor_verdict worst = DOCTOR_OK;

    for (size_t i = 0; i < doctor->count; i++)
        if (doctor->findings[i].verdict > worst)
            worst = doctor->findings[i].verdict;
    return worst;
}

/* ---- findings ---- */

struct doctor_finding *doctor_add(struct doctor *doctor, enum doctor_verdict verdict,
                                  const char *what, const char *format, ...)
{
    struct doctor_finding *finding;
    va_list args;

    if (doctor->count == DOCTOR_FINDINGS)
        return NULL;
    finding = &doctor->findings[doctor->count++];
    finding->verdict = verdict;
    snprintf(finding->what, sizeof(finding->what), "%s", what);
    va_start(args, format);
    vsnprintf(finding->text, sizeof(finding->text), format, args);
    va_end(args);
    return finding;
}

void doctor_remedy(struct doctor_finding *finding, const char *format, ...)
{
    va_list args;

    if (finding == NULL)
        return;
    va_start(args, format);
    vsnprintf(finding->remedy, sizeof(finding->remedy), format, args);
    va_end(args);
}

/* ---- files ---- */

__attribute__((format(printf, 4, 0))) static bool
read_line(const struct doctor *doctor, char *line, size_t size, const char *format, va_list args)
{
    char path[PATH_MAX];
    int head = snprintf(path, sizeof(path), "%s", doctor->root);
    FILE *file;
    bool good;

    vsnprintf(path + head, sizeof(path) - (size_t)head, format, args);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    good = fgets(line, (int)size, file) != NULL;
    fclose(file);
    if (good)
        line[strcspn(line, "\n")] = '\0';
    return good;
}

bool doctor_read(const struct doctor *doctor, char *line, size_t size, const char *format, ...)
{
    va_list args;
    bool good;

    va_start(args, format);
    good = read_line(doctor, line, size, format, args);
    va_end(args);
    return good;
}

long long doctor_number(const struct doctor *doctor, long long otherwise, const char *format, ...)
{
    char line[64], *end;
    long long number;
    va_list args;
    bool good;

    va_start(args, format);
    good = read_line(doctor, line, sizeof(line), format, args);
    va_end(args);
    if (!good)
        return otherwise;
    errno = 0;
    number = strtoll(line, &end, 0);
    return end == line || errno != 0 ? otherwise : number;
}

bool doctor_exists(const struct doctor *doctor, const char *path)
{
    char whole[PATH_MAX];

    snprintf(whole, sizeof(whole), "%s%s", doctor->root, path);
    return access(whole, F_OK) == 0;
}

static int is_entry(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

size_t doctor_each(struct doctor *doctor, const char *folder,
                   void (*each)(struct doctor *doctor, const char *name, void *context),
                   void *context)
{
    struct dirent **entries = NULL;
    char path[PATH_MAX];
    int count;

    snprintf(path, sizeof(path), "%s%s", doctor->root, folder);
    count = scandir(path, &entries, is_entry, versionsort);
    for (int i = 0; i < count; i++) {
        each(doctor, entries[i]->d_name, context);
        free(entries[i]);
    }
    free(entries);
    return count > 0 ? (size_t)count : 0;
}
