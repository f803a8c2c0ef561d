#include "tests/bench/bench.h"

#include <stdio.h>
#include <string.h>

#include "tests/bench/memory.h"

double memory_pss_kib(pid_t pid)
{
    char path[48], line[256];
    double kib = -1;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
    file = fopen(path, "re");
    assert_non_null(file);
    while (kib < 0 && fgets(line, sizeof(line), file))
        if (sscanf(line, "Pss: %lf", &kib) != 1) /* NOLINT(cert-err34-c): the kernel's own */
            kib = -1;
    fclose(file);
    assert_true(kib >= 0);
    return kib;
}
