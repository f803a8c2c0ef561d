#include "client/compat/mooncake/slot.h"

#include <unistd.h>

#include "client/compat/mooncake/engine.h"
#include "client/compat/mooncake/say.h"

static struct slot slots[SLOT_COUNT];
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER; /* `taken`, `generations` */
static uint64_t generations;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void slot_init(struct slot *slot)
{
    pthread_mutex_init(&slot->lock, NULL);
    pthread_cond_init(&slot->changed, NULL);
}

/* In the child nobody holds the locks that other threads of the parent may have held. */
static void slots_on_fork(void)
{
    pthread_mutex_init(&slots_lock, NULL);
    for (unsigned i = 0; i < SLOT_COUNT; i++) {
        struct slot *slot = &slots[i];

        slot_init(slot);
        slot->pins = 0;
        if (slot->engine == NULL)
            continue;
        slot->foreign = true;
        engine_on_fork(slot->engine);
    }
}

static void slots_begin(void)
{
    for (unsigned i = 0; i < SLOT_COUNT; i++)
        slot_init(&slots[i]);
    pthread_atfork(NULL, NULL, slots_on_fork);
}

transfer_engine_t slot_add(struct engine *engine)
{
    struct slot *slot = NULL;

    pthread_once(&once, slots_begin);
    pthread_mutex_lock(&slots_lock);
    for (unsigned i = 0; i < SLOT_COUNT && slot == NULL; i++)
        if (!slots[i].taken)
            slot = &slots[i];
    if (slot == NULL) {
        pthread_mutex_unlock(&slots_lock);
        return NULL;
    }
    slot->taken = true;
    pthread_mutex_lock(&slot->lock);
    slot->generation = ++generations;
    slot->foreign = false;
    slot->engine = engine;
    engine->slot = slot;
    pthread_mutex_unlock(&slot->lock);
    pthread_mutex_unlock(&slots_lock);
    return (transfer_engine_t)(uintptr_t)(slot->generation * SLOT_COUNT + (uint64_t)(slot - slots));
}

/* The slot of a handle, locked, if the handle is the one of now; else NULL. */
static struct slot *slot_find(transfer_engine_t handle)
{
    uint64_t number = (uint64_t)(uintptr_t)handle;
    struct slot *slot = &slots[number % SLOT_COUNT];

    pthread_once(&once, slots_begin);
    pthread_mutex_lock(&slot->lock);
    if (slot->engine != NULL && slot->generation == number / SLOT_COUNT)
        return slot;
    pthread_mutex_unlock(&slot->lock);
    return NULL;
}

int slot_enter(transfer_engine_t handle, const char *call, struct engine **engine)
{
    struct slot *slot = slot_find(handle);
    bool foreign;

    if (slot == NULL && handle == NULL)
        return refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, call,
                      "the engine is NULL: createTransferEngine failed, or was not called");
    if (slot == NULL)
        return refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, call,
                      "%p is no engine of this process, or was destroyed", handle);
    foreign = slot->foreign;
    *engine = slot->engine;
    if (!foreign)
        return 0;
    pthread_mutex_unlock(&slot->lock);
    return refuse(TRANSFER_ENGINE_CONTEXT, call,
                  "the engine belongs to the process that forked this one; create one here");
}

void slot_leave(struct engine *engine)
{
    pthread_mutex_unlock(&engine->slot->lock);
}

void slot_release(struct engine *engine)
{
    engine->slot->pins++;
    pthread_mutex_unlock(&engine->slot->lock);
}

static bool slot_unpin(struct engine *engine)
{
    struct slot *slot = engine->slot;

    slot->pins--;
    if (slot->engine == engine)
        return true;
    pthread_cond_broadcast(&slot->changed);
    return false;
}

bool slot_retake(struct engine *engine)
{
    pthread_mutex_lock(&engine->slot->lock);
    return slot_unpin(engine);
}

bool slot_wait(struct engine *engine)
{
    engine->slot->pins++;
    pthread_cond_wait(&engine->slot->changed, &engine->slot->lock);
    return slot_unpin(engine);
}

void slot_wake(struct engine *engine)
{
    pthread_cond_broadcast(&engine->slot->changed);
}

int slot_remove(transfer_engine_t handle, const char *call, struct engine **out, bool *foreign)
{
    struct slot *slot = slot_find(handle);
    struct engine *engine;

    if (slot == NULL)
        return refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, call,
                      "%p is no engine of this process, or was destroyed before", handle);
    engine = slot->engine;
    *foreign = slot->foreign;
    slot->engine = NULL;
    pthread_cond_broadcast(&slot->changed);
    while (slot->pins > 0)
        pthread_cond_wait(&slot->changed, &slot->lock);
    pthread_mutex_unlock(&slot->lock);
    *out = engine;
    return 0;
}

void slot_free(struct slot *slot)
{
    pthread_mutex_lock(&slots_lock);
    slot->taken = false;
    pthread_mutex_unlock(&slots_lock);
}
