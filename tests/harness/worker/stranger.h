/* A child process with private memory: whose end, exec and unmapping the worker must survive. */
#ifndef TESUP_TESTS_HARNESS_WORKER_STRANGER_H
#define TESUP_TESTS_HARNESS_WORKER_STRANGER_H

#include <stdint.h>
#include <sys/types.h>

struct stranger {
    pid_t pid;
    int order, done; /* one byte each */
    uint64_t base;   /* of its memory */
};

/* Forks a child with `size` bytes of private memory, filled with `fill`. */
void stranger_start(struct stranger *stranger, uint64_t size, uint8_t fill);
/* Returns when it is done. */
void stranger_unmap(struct stranger *stranger, uint64_t offset, uint64_t size);
void stranger_exec(struct stranger *stranger);
/* exec, while a relative that shares its memory (CLONE_VM) keeps that alive until the end. */
void stranger_exec_related(struct stranger *stranger);
/* Gives up what the test's own process may do, one of these. Only root can do the first two. */
enum stranger_loss { STRANGER_UID, STRANGER_CAPABILITY, STRANGER_NAMESPACE };
void stranger_lose(struct stranger *stranger, enum stranger_loss loss);
/* The byte at `offset`, by its own look. */
uint8_t stranger_look(struct stranger *stranger, uint64_t offset);
void stranger_end(struct stranger *stranger);

#endif
