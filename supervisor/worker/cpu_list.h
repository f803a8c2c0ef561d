/* Lists of CPUs as text, such as "0-3,8". */
#ifndef TESUP_SUPERVISOR_WORKER_CPU_LIST_H
#define TESUP_SUPERVISOR_WORKER_CPU_LIST_H

#include <stdbool.h>

bool cpu_list_contains(const char *list, int cpu);

#endif
