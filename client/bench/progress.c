#include "client/bench/progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/bench/clock.h"

#define PROGRESS_EVERY_NS (100 * CLOCK_NS_PER_MS)
#define PROGRESS_WIDTH    30u

void progress_start(struct progress *progress, uint32_t rows)
{
    *progress = (struct progress){.shown = isatty(STDERR_FILENO) == 1, .rows = rows};
}

void progress_row_start(struct progress *progress, const char *label)
{
    snprintf(progress->label, sizeof(progress->label), "%s", label);
}

void progress_update(struct progress *progress, uint64_t done, uint64_t total)
{
    char bar[PROGRESS_WIDTH + 1];

    if (!progress->shown || clock_now_ns() - progress->drawn_ns < PROGRESS_EVERY_NS)
        return;
    uint64_t filled = (progress->row * total + done) * PROGRESS_WIDTH / (total * progress->rows);
    for (uint32_t i = 0; i < PROGRESS_WIDTH; i++)
        bar[i] = i < filled ? '#' : '.';
    bar[PROGRESS_WIDTH] = '\0';
    fprintf(stderr, "\r[%s] %u/%u  %s  %llu/%llu\033[K", bar, progress->row + 1, progress->rows,
            progress->label, (unsigned long long)done, (unsigned long long)total);
    fflush(stderr);
    progress->drawn_ns = clock_now_ns();
}

void progress_row_end(struct progress *progress)
{
    progress->row++;
}

void progress_clear(struct progress *progress)
{
    if (progress->shown)
        fputs("\r\033[K", stderr);
}
