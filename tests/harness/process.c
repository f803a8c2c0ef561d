#include "tests/harness/test.h"

#include "tests/harness/process.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

size_t process_children(pid_t pid, pid_t *children, size_t max)
{
    char path[64], line[256] = "";
    char *at = line, *end;
    size_t count = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
    file = fopen(path, "re");
    assert_non_null(file);
    if (!fgets(line, sizeof(line), file))
        line[0] = '\0';
    fclose(file);
    for (long child; count < max && (child = strtol(at, &end, 10)) > 0; at = end)
        children[count++] = (pid_t)child;
    return count;
}

unsigned process_fd_count(pid_t pid)
{
    char path[32];
    unsigned count = 0;
    struct dirent *entry;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    dir = opendir(path);
    assert_non_null(dir);
    while ((entry = readdir(dir)))
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

unsigned process_memfd_count(pid_t pid)
{
    char path[32], line[512];
    unsigned count = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file))
        count += strstr(line, "/memfd:") != NULL;
    fclose(file);
    return count;
}

unsigned long process_anon_kib(pid_t pid)
{
    char path[32], line[256];
    unsigned long kib = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file))
        if (strncmp(line, "RssAnon:", 8) == 0)
            kib = strtoul(line + 8, NULL, 10);
    fclose(file);
    return kib;
}

uint64_t process_space(pid_t pid)
{
    char path[32], line[128];
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    fclose(file);
    return strtoul(line, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Not from stat, which counts in ticks of 10 ms. */
uint64_t process_cpu_ms(pid_t pid)
{
    struct timespec used;
    clockid_t clock;

    assert_int_equal(clock_getcpuclockid(pid, &clock), 0);
    assert_int_equal(clock_gettime(clock, &used), 0);
    return (uint64_t)used.tv_sec * 1000 + (uint64_t)used.tv_nsec / 1000000;
}
