/* Values of the counters as text for a terminal. */
#ifndef TESUP_SUPERVISOR_STATUS_FORMAT_H
#define TESUP_SUPERVISOR_STATUS_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define STATUS_TIME_MAX 32

/* "42s", "3m12s", "5h03m", "2d04h"; "-" when `since` is 0. */
void status_format_age(uint64_t since_ns, uint64_t now_ns, char *text, size_t size);
/* "0", "512", "1.5K", "20.0G". */
void status_format_bytes(uint64_t bytes, char *text, size_t size);
/* "2025-01-31T12:00:00.123Z". */
void status_format_time(uint64_t wall_ns, char text[STATUS_TIME_MAX]);
/* Bytes that are no printable ASCII become \xNN: names come from jobs and peers. */
void status_format_safe(const char *from, char *text, size_t size);

#endif
