/* A program as NIXL's Mooncake plugin is one: an engine, one buffer, and what it does with them. */
#ifndef TESUP_TESTS_COMPAT_AGENT_H
#define TESUP_TESTS_COMPAT_AGENT_H

#include "tests/harness/test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <transfer_engine_c.h>

#include "tests/harness/daemon.h"

#define KIB        UINT64_C(1024)
#define MIB        (UINT64_C(1) << 20)
#define AGENT_NAME 64

struct agent {
    transfer_engine_t engine;
    char name[AGENT_NAME];
    uint8_t *bytes;
    size_t size;
    notify_msg_t *notes; /* that came together with one that was waited for */
    int note_count, note_next;
};

/* Engine at loopback, served by `daemon`, and `size` bytes of malloc'ed memory. */
void agent_begin(struct agent *agent, const struct daemon *daemon, size_t size);
void agent_end(struct agent *agent);
int agent_open(const struct agent *agent, const char *name);

/* `count` equal parts of [0, length) of our buffer and of the memory at `address` there, with a
 * notification unless `msg` is NULL. The batch. */
batch_id_t agent_submit(const struct agent *agent, int opcode, int target, uint64_t address,
                        uint64_t length, size_t count, const char *msg);
/* Polls until every task of the batch has ended; STATUS_COMPLETED only if all have, and moved
 * `length` bytes. */
int agent_finish(const struct agent *agent, batch_id_t batch, size_t count, uint64_t length);
/* Both, and freeBatchID. */
int agent_do(const struct agent *agent, int opcode, int target, uint64_t address, uint64_t length,
             size_t count, const char *msg);

/* The next notification is this one, of `name`. */
void agent_expect_note(struct agent *agent, const char *name, const char *msg);
/* None is there. */
void agent_expect_silence(struct agent *agent);

#endif
