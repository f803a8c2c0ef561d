/* Memory of processes, shared pages divided among those who map them. */
#ifndef TESUP_TESTS_BENCH_MEMORY_H
#define TESUP_TESTS_BENCH_MEMORY_H

#include <sys/types.h>

/* Proportional set size in KiB. */
double memory_pss_kib(pid_t pid);

#endif
