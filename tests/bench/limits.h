/* What the machine itself can do, measured beside the figures: each call is one sample.
 * `here` and `there` are places (place.h). */
#ifndef TESUP_TESTS_BENCH_LIMITS_H
#define TESUP_TESTS_BENCH_LIMITS_H

#include <stddef.h>

/* One word in one cache line that two CPUs take from each other: ns for there and back. */
double limit_line_ns(unsigned here, unsigned there);
/* Two processes that sleep in read(2) on their eventfds and wake each other: ns there and back. */
double limit_eventfd_ns(unsigned here, unsigned there);
/* Two processes with one loopback TCP connection and blocking calls: `forth` bytes one way,
 * `back` bytes the other way, in ns. */
double limit_tcp_ns(unsigned here, unsigned there, size_t forth, size_t back);
/* One block (bulk.h) through such a connection, and one byte back when all are there: GB/s. */
double limit_stream_gbs(unsigned here, unsigned there);
/* memcpy(3) of one block between two mappings of shared memory: GB/s. */
double limit_memcpy_gbs(unsigned here);
/* process_vm_writev(2) of one block into another process's private memory: GB/s. */
double limit_vm_gbs(unsigned here);

#endif
