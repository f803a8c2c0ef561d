#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "tests/bench/report.h"

static void cpu_read(char *text, size_t size)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[256];

    snprintf(text, size, "unknown CPU");
    while (file && fgets(line, sizeof(line), file)) {
        const char *colon = strchr(line, ':');

        if (strncmp(line, "model name", 10) != 0 || colon == NULL)
            continue;
        snprintf(text, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    if (file)
        fclose(file);
}

void machine_read(struct machine *machine, const char *commit)
{
    struct utsname name;
    time_t now = time(NULL);
    struct tm parts;

    *machine = (struct machine){.cpus = place_cpus(), .commit = commit};
    cpu_read(machine->cpu, sizeof(machine->cpu));
    assert_int_equal(uname(&name), 0);
    snprintf(machine->kernel, sizeof(machine->kernel), "%s %.60s", name.sysname, name.release);
    strftime(machine->when, sizeof(machine->when), "%Y-%m-%d %H:%M UTC", gmtime_r(&now, &parts));
    assert_int_equal(getloadavg(&machine->load, 1), 1);
}
