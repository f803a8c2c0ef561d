/* The engines that live, behind handles that are never used twice.
 *
 * A handle is no address: number of the slot and a generation.  Its slot has the engine's lock and
 * is static, so a handle of a destroyed engine, or of none, is refused and never followed.  In a
 * child of the process that made the engine it is refused, too.
 */
#ifndef TESUP_COMPAT_MOONCAKE_SLOT_H
#define TESUP_COMPAT_MOONCAKE_SLOT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/compat/mooncake/include/transfer_engine_c.h"

#define SLOT_COUNT 64u

struct engine;

struct slot {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a pin was given back, or `busy` ended */
    struct engine *engine;  /* NULL: free, or its engine is being destroyed */
    uint64_t generation;
    unsigned pins; /* calls that are inside but have let go of the lock */
    bool taken;
    bool foreign; /* of the process that forked us */
};

/* Gives the engine a slot and a handle; NULL when all are taken. */
transfer_engine_t slot_add(struct engine *engine);

/* Locks the engine of a handle. 0, or a positive code after a sentence about `call`. */
int slot_enter(transfer_engine_t handle, const char *call, struct engine **engine);
void slot_leave(struct engine *engine);

/* Lets go of the lock inside of a call; the engine stays. */
void slot_release(struct engine *engine);
/* Takes it back. False when the engine is being destroyed: leave soon. */
bool slot_retake(struct engine *engine);
/* Sleeps until something in the slot changed; result of slot_retake. */
bool slot_wait(struct engine *engine);
void slot_wake(struct engine *engine);

/* Takes the engine out: no new call finds it, and all calls inside have ended.  *foreign: it was
 * made by our parent. */
int slot_remove(transfer_engine_t handle, const char *call, struct engine **engine, bool *foreign);
/* The slot of such an engine may be given out again. */
void slot_free(struct slot *slot);

#endif
