/* What was measured, for people, for Markdown, and as JSON. */
#ifndef TESUP_TESTS_BENCH_REPORT_H
#define TESUP_TESTS_BENCH_REPORT_H

#include <stdio.h>

struct machine {
    char cpu[128];
    unsigned cpus; /* that we may use */
    char kernel[128];
    char when[32];
    double load; /* average of the last minute, before the run */
    const char *commit;
};

void machine_read(struct machine *machine, const char *commit);

void report_text(FILE *file, const struct machine *machine);
void report_markdown(FILE *file, const struct machine *machine);
int report_json(const char *path, const struct machine *machine);

#endif
