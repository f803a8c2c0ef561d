/* Yama: who may reach the memory of another process, and what to do when nobody may. */
#ifndef TESUP_SHM_YAMA_H
#define TESUP_SHM_YAMA_H

#include <stddef.h>
#include <sys/types.h>

#define YAMA_SCOPE_PATH "/proc/sys/kernel/yama/ptrace_scope"

/* 0: as without Yama; 1: named processes only; 2: CAP_SYS_PTRACE only; 3: nobody.  What `path`
 * says; 0 when there is no such file, 1 when it says something else. */
int yama_scope(const char *path);

/* The sentence for a process whose memory the kernel did not let us reach: cause and remedy. */
void yama_explain(int scope, pid_t pid, char *text, size_t size);

#endif
