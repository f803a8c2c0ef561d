/* The insides of the stand-in libcuda.so.1, for tests only: see docs/gpu.md, "Stand-in".
 *
 * One lock for everything; streams drop it while they copy, wait or call back.
 */
#ifndef TESUP_TESTS_STANDIN_CUDA_H
#define TESUP_TESTS_STANDIN_CUDA_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/cuda.h"
#include "shm/list.h"
#include "tests/standin/counters.h"

/* Defines each function under the name that the driver exports, with the prototype of ours. */
#define STANDIN_DECLARE(need, name, symbol, since, arguments) \
    __attribute__((visibility("default"))) enum cuda_result name arguments __asm__(symbol);
CUDA_FUNCTIONS(STANDIN_DECLARE)
#undef STANDIN_DECLARE

#define STANDIN_PAGE        4096UL
#define STANDIN_GRANULARITY (2UL << 20)
#define STANDIN_DEVICES     16

/* ---- machine.c ---- */

/* The caller broke a rule: says which, and aborts. */
void standin_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
const char *standin_env(const char *name, const char *otherwise);

struct standin_device {
    char bus_id[16]; /* "0000:17:00.0" */
    int mig;         /* instance, or -1 */
    struct cuda_uuid uuid;
};

/* All that the machine has, by STANDIN_CUDA_DEVICES. */
int standin_devices_read(struct standin_device *devices, int size);
/* The code with which the device is lost (STANDIN_CUDA_LOST names a file: lines "BUS_ID CODE"), or
 * CUDA_OK. */
enum cuda_result standin_device_lost(const struct standin_device *device);

/* ---- core.c ---- */

extern struct standin_counters *standin_count;

void standin_lock(void);
void standin_unlock(void);
/* Everybody waits for everything: with the lock, until somebody tells. */
void standin_wait(void);
void standin_tell(void);
/* What starts takes STANDIN_CUDA_START_MS; other threads may call the driver meanwhile. */
void standin_start_pause(void);
/* At the start of each call: takes the lock unless the call has to fail at once. */
enum cuda_result standin_enter(const char *call);
enum cuda_result standin_leave(enum cuda_result result);
/* True while this thread is in a host function: it may not call the driver. */
extern __thread bool standin_in_host_function;

#define STANDIN_ENTER(call)                              \
    do {                                                 \
        enum cuda_result refused_ = standin_enter(call); \
        if (refused_ != CUDA_OK)                         \
            return refused_;                             \
    } while (0)

/* ---- fail.c: STANDIN_CUDA_FAIL="CALL:N:CODE,CALL@N:CODE" ---- */

/* The code that the N-th CALL has to return; CUDA_OK: none. */
enum cuda_result standin_fail_call(const char *call);
/* The same for CALL@N: the work fails when the stream comes to it. */
enum cuda_result standin_fail_work(const char *call);
/* After these nothing works any more in the context. */
bool standin_is_sticky(enum cuda_result code);

/* ---- device.c ---- */

/* Those that this process sees, by CUDA_VISIBLE_DEVICES. */
extern struct standin_device standin_devices[STANDIN_DEVICES];
extern int standin_device_count;
void standin_devices_init(void);
/* -1: not visible here. */
cuda_device standin_device_find(const struct cuda_uuid *uuid);

/* ---- context.c ---- */

struct cuda_context {
    cuda_device device;
    unsigned int retained;
    enum cuda_result dead; /* the sticky error, or CUDA_OK */
    struct cuda_stream *null_stream;
    struct list streams;
    bool peers[STANDIN_DEVICES];
};

/* The caller's context; dies where there is none. */
struct cuda_context *standin_context(const char *call);
struct cuda_context *standin_context_of(cuda_device device);
/* The caller's context, if it has one, is of no use from now on. */
void standin_context_kill(enum cuda_result code);
/* CUDA_OK and the caller's context in *context, or its sticky error. */
enum cuda_result standin_context_live(const char *call, struct cuda_context **context);
/* The sticky error of the context or its lost device. */
enum cuda_result standin_context_dead(struct cuda_context *context);

/* ---- memory.c ---- */

enum standin_kind {
    STANDIN_DEVICE, /* cuMemAlloc */
    STANDIN_OPENED, /* cuIpcOpenMemHandle */
    STANDIN_MAPPED, /* cuMemMap */
    STANDIN_MANAGED,
    STANDIN_PINNED,
    STANDIN_REGISTERED,
};

/* Memory that the driver knows.  What is on the device is a memfd whose bytes only the stand-in
 * reaches; `address` lies where nothing is mapped. */
struct standin_block {
    struct list node;
    enum standin_kind kind;
    cuda_pointer address;
    size_t size;
    char *bytes;
    void *mapped; /* of the whole memfd */
    size_t mapped_size;
    int fd;
    uint64_t nonce, id;
    cuda_device device;
    struct cuda_context *context;
    unsigned int pending; /* operations that are queued or run */
    unsigned int opened;  /* STANDIN_OPENED: how often */
    bool sync_memops, readable, writable;
    struct standin_handle *handle;           /* STANDIN_MAPPED */
    struct standin_reservation *reservation; /* STANDIN_MAPPED */
    unsigned int flags;                      /* of the pinned */
};

/* Behind the bytes of each memfd: who opens it knows what it is. */
struct standin_trailer {
    char magic[8]; /* STANDIN_MAGIC */
    uint64_t nonce, size, offset;
    uint32_t kind, handle_types;
    struct cuda_uuid uuid;
    uint64_t freed;
};
#define STANDIN_MAGIC "cudamem"

extern struct list standin_blocks;

bool standin_is_on_device(const struct standin_block *block);
/* The block that holds the address, or NULL. */
struct standin_block *standin_block_find(cuda_pointer address);
/* All of [address, address + size) lies in blocks without a gap; dies if not. */
void standin_range_check(const char *call, cuda_pointer address, size_t size);
/* Counts an operation on each block of the range, which must not be freed then: +1 or -1. */
void standin_range_hold(cuda_pointer address, size_t size, int change);
/* The bytes at address and how many of them go on in one piece. */
char *standin_reach(const char *call, cuda_pointer address, size_t *size, bool write);
/* Addresses where nothing is mapped. */
cuda_pointer standin_addresses_take(size_t size, size_t alignment);
/* A memfd of `size` bytes and the trailer. */
int standin_memory_make(struct standin_block *block, size_t size, size_t offset,
                        uint32_t handle_types);
/* Maps a memfd that another process made; false: it is none of ours. */
bool standin_memory_open(struct standin_block *block, int fd, struct standin_trailer *trailer);
struct standin_trailer *standin_trailer_of(const struct standin_block *block);
/* Unmaps and frees; the block must be idle. */
void standin_block_free(const char *call, struct standin_block *block);
struct standin_block *standin_block_new(enum standin_kind kind, cuda_device device);

/* ---- stream.c ---- */

struct standin_work;
struct standin_twin;
typedef void (*standin_run)(struct standin_work *work);

struct standin_work {
    struct list node;
    standin_run run;  /* without the lock; not at all when the context is dead */
    standin_run done; /* with it, in any case; or NULL */
    struct cuda_stream *stream;
    const char *call;
    cuda_pointer to, from;
    bool pageable;
    size_t size;
    unsigned char value;
    struct cuda_event *event;
    uint32_t target;
    struct cuda_stream *other;
    uint64_t other_done; /* what `other` must have done before */
    void (*function)(void *context);
    void *context;
    const struct standin_twin *twin;
    uint64_t arguments[16];
    unsigned int grid[3], block[3];
};

struct cuda_stream {
    struct list node; /* of the context */
    struct cuda_context *context;
    struct list queue;
    uint64_t submitted, done, random;
    bool blocking, destroyed;
    pthread_t thread;
    struct cuda_stream *next; /* of those whose thread has ended */
};

struct standin_work *standin_work_new(const char *call, struct cuda_stream *stream,
                                      standin_run run);
/* Checks the handle; NULL is the context's own stream. */
struct cuda_stream *standin_stream_check(const char *call, struct cuda_stream *stream);
void standin_stream_submit(struct standin_work *work);
/* With the lock: until all that was submitted is done. */
void standin_stream_wait(struct cuda_stream *stream);
void standin_context_wait(struct cuda_context *context);
/* The context ends: until each of its streams is gone. */
void standin_streams_end(struct cuda_context *context);

/* ---- event.c ---- */

/* In shared memory for events that other processes open. */
struct standin_event_state {
    char magic[8]; /* STANDIN_EVENT_MAGIC */
    uint64_t nonce;
    uint32_t recorded, completed;
};
#define STANDIN_EVENT_MAGIC "cudaevt"

struct cuda_event {
    struct list node;
    struct standin_event_state *state;
    unsigned int flags, references;
    int fd;       /* of the state, or -1 */
    int exporter; /* process that made it, 0: this one */
    cuda_device device;
    bool destroyed;
};

void standin_event_release(struct cuda_event *event);

/* ---- ipc.c ---- */

/* What the 64 bytes of an IPC handle are here. */
struct standin_ipc {
    char magic[8];
    int32_t process, fd;
    uint64_t nonce, size;
    struct cuda_uuid uuid;
};

/* Opens the memfd behind a handle; -1: the process or the memory is gone. */
int standin_ipc_open(const struct standin_ipc *ipc);

/* ---- vmm.c ---- */

struct standin_handle {
    struct list node;
    cuda_memory id;
    unsigned int references, mappings;
    bool imported;
    struct standin_block *memory; /* the memfd, in no list */
    struct cuda_allocation properties;
    size_t size;
};

struct standin_reservation {
    struct list node;
    cuda_pointer address;
    size_t size;
};

/* ---- kernels.c ---- */

/* Device memory that a kernel is given. */
struct standin_range {
    unsigned char address; /* number of the argument */
    unsigned char size;    /* the same, if `bytes` does not say it */
    size_t bytes;
};

/* A kernel's twin on the host: what the device would have done.  It reaches device memory by
 * standin_reach. */
struct standin_twin {
    const char *name;
    void (*run)(const struct standin_work *launch);
    unsigned int parameters; /* that the PTX has to list, 8 bytes each */
    unsigned int range_count;
    struct standin_range ranges[2];
};

const struct standin_twin *standin_twin_find(const char *kernel);
size_t standin_range_size(const struct standin_work *launch, const struct standin_range *range);

#endif
