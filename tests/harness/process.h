/* What /proc tells about a process. */
#ifndef TESUP_TESTS_HARNESS_PROCESS_H
#define TESUP_TESTS_HARNESS_PROCESS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Its children now, the oldest first; returns how many, at most `max`. */
size_t process_children(pid_t pid, pid_t *children, size_t max);
unsigned process_fd_count(pid_t pid);
/* Mappings of memfds: rings, regions, counters. */
unsigned process_memfd_count(pid_t pid);
/* Resident memory that is its own. */
unsigned long process_anon_kib(pid_t pid);
/* Address space in bytes: what RLIMIT_AS counts. */
uint64_t process_space(pid_t pid);
/* User and system time so far. */
uint64_t process_cpu_ms(pid_t pid);

#endif
