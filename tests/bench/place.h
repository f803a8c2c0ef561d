/* Which process runs on which CPU.  Nothing is left to the scheduler, and every row says it.
 *
 * Places are numbers that the figures choose; they are dealt to the CPUs in turn, so on a machine
 * with two CPUs places 0 and 2 are the same one.
 */
#ifndef TESUP_TESTS_BENCH_PLACE_H
#define TESUP_TESTS_BENCH_PLACE_H

#include <stdbool.h>
#include <sys/types.h>

void place_init(void);
unsigned place_cpus(void);
int place_cpu(unsigned place);
/* pid 0: the calling thread. */
void place_pin(pid_t pid, unsigned place);

#endif
