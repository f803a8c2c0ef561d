/* The address space of another process: bytes out of it and into it.
 *
 * The slow way is /proc/PID/mem, opened at registration.  Such a descriptor belongs to the address
 * space and not to the pid: after exec or exit it moves nothing, and a reused pid never gets it
 * (proc_pid_mem(5)).  It copies page by page, with a stop in a page of the kernel's.
 *
 * The fast way is process_vm_readv(2), which names a pid: between any look and the call that
 * process may have become another program.  So each call first reads a mark, and then the bytes;
 * one call has one address space from beginning to end.
 *  - The mark is AT_RANDOM, 16 bytes that the kernel makes up at each exec (getauxval(3)), taken
 *    through the descriptor.  If it is there, the bytes are of that program or of a fork of it;
 *  - the process is there after the call, so its pid was nobody else's during the call: no fork;
 *  - whatever else happens, also if the mark is gone for good, the slow way decides.  The fast one
 *    only says yes.
 * What came without a mark is thrown away before anybody could see it: the fast way is for
 * memory that is ours alone.
 *
 * A job can forge its mark: let a relative (CLONE_VM) keep the old space, exec a program with
 * privileges, and have the mark among its arguments.  Then only the kernel's own check (ptrace(2))
 * is left, and it must not grant us more than the job: the fast way is for jobs of our own uid, in
 * our user namespace, that have all capabilities that we have.  What a job gives up after it has
 * registered does not count.
 *
 * There is no fast way to write: bytes that went to the wrong program cannot be taken back.
 */
#ifndef TESUP_WORKER_SPACE_H
#define TESUP_WORKER_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SPACE_MARK     16u
#define SPACE_FAST_MIN (64u * 1024u) /* below, proving it costs more than it gains */

struct space {
    int fd;    /* /proc/PID/mem; -1 none */
    int pidfd; /* for the fast way; -1: there is none */
    pid_t pid;
    uint64_t mark_at;
    uint8_t mark[SPACE_MARK];
};

#define SPACE_NONE ((struct space){.fd = -1, .pidfd = -1})

/* Of that process as it is now. 0 or -1 with errno. */
int space_open(struct space *space, pid_t pid);
/* By its descriptor, which becomes the space's, also on an error. -1: it is none.
 * The descriptor alone says which process: a pid from elsewhere may mean another one here. */
int space_adopt(struct space *space, int fd);
void space_close(struct space *space);

/* TS_OK, TS_ERR_GONE: it has no users any more (exec, exit), TS_ERR_FAULT: not mapped. */
int space_load(const struct space *space, void *buffer, uint64_t from, size_t length);
/* The same into memory that others see, too. */
int space_load_seen(const struct space *space, void *buffer, uint64_t from, size_t length);
int space_store(const struct space *space, uint64_t to, const void *buffer, size_t length);

/* Finds out whether there is a fast way. The space is open. (space_fast.c) */
void space_fast_init(struct space *space);
/* True: the bytes are there, and are those of the space. */
bool space_fast_load(const struct space *space, void *buffer, uint64_t from, size_t length);

#endif
