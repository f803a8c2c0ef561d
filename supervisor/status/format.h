/* Values of the counters as text for a terminal. */
#ifndef TESUP_SUPERVISOR_STATUS_FORMAT_H
#define TESUP_SUPERVISOR_STATUS_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define STATUS_TIME_MAX 32

/* "42s", "3m12s", "5h03m", "2d04h", "365d"; "-" when `since` is 0. */
void status_format_age(uint64_t since_ns, uint64_t now_ns, char *text, size_t size);
/* At most five places: "0", "1023", "1.5K", "20.0G", "512M". */
void status_format_bytes(uint64_t bytes, char *text, size_t size);
/* At most five places, powers of 1000: "99999", "123K", "1.2M". */
void status_format_count(uint64_t number, char *text, size_t size);
/* The same per second: "0.5", "312", "1.2M"; bytes: "1.5K". */
void status_format_rate(double rate, char *text, size_t size);
void status_format_byte_rate(double rate, char *text, size_t size);
/* "0", "0.4us", "12us", "3.1ms", "2.5s", "120s". */
void status_format_duration(uint64_t ns, char *text, size_t size);
/* "2025-01-31T12:00:00.123Z". */
void status_format_time(uint64_t wall_ns, char text[STATUS_TIME_MAX]);
/* Bytes that are no printable ASCII become \xNN: names come from jobs and peers. */
void status_format_safe(const char *from, char *text, size_t size);

#endif
