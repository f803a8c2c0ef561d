/* Binding the calling process to CPUs and to the memory of a node. */
#ifndef TESUP_SUPERVISOR_WORKER_BIND_H
#define TESUP_SUPERVISOR_WORKER_BIND_H

#include <stddef.h>
#include <sys/types.h>

/* To a list of CPUs such as "0-3,8". 0, or -1 with errno. */
int bind_cpus(const char *cpus);
/* Memory comes from this node while it has some. 0, or -1 with errno; ENOTSUP: the call was taken
 * and did nothing, as some sandboxes do. */
int bind_memory(int node);
/* What the kernel says of `pid`; text is "" when it may run on these CPUs and no others. */
void bind_cpus_check(pid_t pid, const char *cpus, char *text, size_t text_size);

#endif
