/* A progress bar on standard error, when that is a terminal; otherwise nothing. */
#ifndef TESUP_BENCH_PROGRESS_H
#define TESUP_BENCH_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool shown; /* standard error is a terminal */
    uint64_t drawn_ns;
    uint32_t row, rows; /* rows of the sweep that are done; all of them */
    char label[32];     /* "write 64K" */
};

void progress_start(struct progress *progress, uint32_t rows);
void progress_row_start(struct progress *progress, const char *label);
/* `done` of `total` iterations of the current row; draws ten times a second at most. */
void progress_update(struct progress *progress, uint64_t done, uint64_t total);
void progress_row_end(struct progress *progress);
void progress_clear(struct progress *progress);

#endif
