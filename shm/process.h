/* Who a process is, beyond its number: pids are reused. */
#ifndef TESUP_SHM_PROCESS_H
#define TESUP_SHM_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

/* Start time in clock ticks after boot (field 22 of /proc/PID/stat); 0 when it is gone. */
uint64_t process_start_time(pid_t pid);
/* Command name, at most 15 bytes; "" when it is gone. */
void process_comm(pid_t pid, char comm[16]);
/* A pidfd (close-on-exec), or -1 with errno. */
int process_pidfd(pid_t pid);
int process_pidfd_signal(int pidfd, int signal);

#endif
