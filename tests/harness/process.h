/* What /proc tells about a process. */
#ifndef TESUP_TESTS_HARNESS_PROCESS_H
#define TESUP_TESTS_HARNESS_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

unsigned process_fd_count(pid_t pid);
/* Mappings of memfds: rings, regions, counters. */
unsigned process_memfd_count(pid_t pid);
/* Address space in bytes: what RLIMIT_AS counts. */
uint64_t process_space(pid_t pid);
/* User and system time so far. */
uint64_t process_cpu_ms(pid_t pid);

#endif
