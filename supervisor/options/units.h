/* Numbers with units as people write them: sizes (4K, 1M), durations (200ms, 2s), plain counts.
 *
 * Each parser returns 0, or -1 with the reason in `why`, a phrase that quotes the text.
 */
#ifndef TESUP_SUPERVISOR_OPTIONS_UNITS_H
#define TESUP_SUPERVISOR_OPTIONS_UNITS_H

#include <stddef.h>
#include <stdint.h>

int units_count_parse(const char *text, uint64_t *value, char *why, size_t why_size);
/* Bytes, or with K, M, G (powers of 1024; KiB, MiB, GiB too). */
int units_size_parse(const char *text, uint64_t *bytes, char *why, size_t why_size);
/* The unit is required: ms or s. Milliseconds out. */
int units_duration_parse(const char *text, uint64_t *ms, char *why, size_t why_size);

/* The shortest exact form: 262144 -> "256K", 1500 ms -> "1500ms", 2000 ms -> "2s". */
void units_size_format(uint64_t bytes, char *text, size_t size);
void units_duration_format(uint64_t ms, char *text, size_t size);

#endif
