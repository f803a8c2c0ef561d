/* Memory that moves: shared memory by descriptor, private memory by address. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/internal.h"
#include "shm/segment.h"
#include "shm/yama.h"

#define FILL_CHUNK (UINT64_C(8) << 20) /* short enough to end between two signals of a profiler */
#define ASIDE_MAX  256u

void region_free(struct region *region)
{
    if (region->mapping != NULL)
        munmap(region->mapping, region->mapped);
    if (region->fd >= 0)
        close(region->fd);
    for (int i = 0; region->gpu != NULL && i < region->gpu->fd_count; i++)
        close(region->gpu->fds[i]);
    free(region->gpu);
    free(region);
}

/* ---- with the supervisor ---- */

/* Lets the supervisor's workers reach our memory where Yama restricts that to a named process. */
static int private_allow(struct tesup_session *session)
{
    static _Atomic uint64_t allowed, allowed_forks; /* Yama knows one process, and not in a child */
    uint64_t before = atomic_peek(&allowed);

    if (yama_scope(YAMA_SCOPE_PATH) == 0)
        return TS_OK;
    if (before != 0 && before != session->supervisor_pid &&
        atomic_peek(&allowed_forks) == session->forks && kill((pid_t)before, 0) == 0)
        return error_set(TS_ERR_UNSUPPORTED,
                         "this process let supervisor %llu reach its private memory, and Yama "
                         "(" YAMA_SCOPE_PATH
                         ") allows one only; for a second one use tesup_mem_alloc or "
                         "tesup_mem_register_fd",
                         (unsigned long long)before);
    if (prctl(PR_SET_PTRACER, (unsigned long)session->supervisor_pid, 0ul, 0ul, 0ul) < 0)
        return error_system("PR_SET_PTRACER for supervisor %u", session->supervisor_pid);
    atomic_set(&allowed, session->supervisor_pid);
    atomic_set(&allowed_forks, session->forks);
    return TS_OK;
}

static int region_request(struct tesup_session *session, const struct region *region,
                          uint32_t *wire)
{
    struct wire_message message;
    int rc;

    wire_message_init(&message, region->gpu != NULL ? WIRE_REGION_ADD_GPU : WIRE_REGION_ADD);
    message.body.region = (struct proto_region){.kind = region->kind,
                                                .access = region->access,
                                                .base = region->base,
                                                .offset = region->offset,
                                                .length = region->length};
    if (region->fd >= 0)
        message.fds[message.fd_count++] = region->fd;
    if (region->gpu != NULL) {
        message.body.region_gpu.gpu = region->gpu->ask;
        message.fd_count = region->gpu->fd_count;
        memcpy(message.fds, region->gpu->fds, sizeof(message.fds[0]) * (size_t)message.fd_count);
    }
    rc = control_call(session, &message, session->timeout_ms, "register memory");
    if (rc != TS_OK)
        return rc;
    *wire = message.body.reply.handle;
    wire_message_close(&message);
    if (*wire == 0)
        rc = error_set(TS_ERR_PROTOCOL, "the supervisor at %s gave 0 as a region's handle",
                       session->path);
    return rc;
}

int region_register(struct tesup_session *session, const struct region *region, uint32_t *wire)
{
    int rc = region->kind == REGION_KIND_PRIVATE ? private_allow(session) : TS_OK;

    if (rc != TS_OK)
        return rc;
    rc = region_request(session, region, wire);
    if (rc == TS_OK)
        region_grant(session, region, *wire);
    return rc;
}

/* Registers a new region under a handle that the application does not hold yet.  A successor may
 * give out a number that is in use for a region of its predecessor; peers use these numbers, so
 * they cannot be renamed: ask for another one, then return those that did not fit. */
static int region_add(struct tesup_session *session, struct region *region, uint32_t *handle)
{
    uint32_t aside[ASIDE_MAX];
    uint32_t count = 0, wire = 0;
    int rc;

    do {
        rc = region_register(session, region, &wire);
        if (rc != TS_OK)
            break;
        rc = book_add(&session->regions, wire, wire, region);
        if (rc == TS_OK)
            break;
        aside[count++] = wire;
        if (rc != TS_ERR_EXISTS)
            error_set(rc, "no memory to keep the region");
        else if (count == ASIDE_MAX)
            rc = error_set(TS_ERR_LIMIT, "no free handle for the region; detach and attach again");
    } while (rc == TS_ERR_EXISTS);
    for (uint32_t i = 0; i < count; i++)
        control_post_handle(session, WIRE_REGION_DEL, aside[i]);
    if (rc == TS_OK)
        *handle = wire;
    return rc;
}

int region_enter(struct tesup_session *session, struct region *region, uint32_t *handle)
{
    int rc = control_begin(session);

    if (rc == TS_OK) {
        rc = region_add(session, region, handle);
        control_end(session);
    }
    if (rc != TS_OK)
        region_free(region);
    return rc;
}

struct region *region_new(uint32_t kind, uint32_t access, uint64_t length)
{
    struct region *region = calloc(1, sizeof(*region));

    if (region == NULL) {
        error_set(TS_ERR_NO_MEMORY, "no memory to keep a region");
        return NULL;
    }
    region->kind = kind;
    region->access = access;
    region->length = length;
    region->fd = -1;
    return region;
}

int region_check(struct tesup_session *session, uint64_t length, uint32_t access, const void *out)
{
    int rc = session_guard(session);

    if (rc != TS_OK)
        return rc;
    if (out == NULL)
        return error_set(TS_ERR_INVALID, "a region needs a place for its handle");
    if (length == 0)
        return error_set(TS_ERR_INVALID, "a region of 0 bytes makes no sense");
    if ((access & ~REGION_ACCESS_MASK) != 0)
        return error_set(TS_ERR_INVALID,
                         "access is %#x; TESUP_ACCESS_REMOTE_READ and _WRITE are allowed", access);
    return TS_OK;
}

/* ---- shared memory of our own ---- */

/* ftruncate(2) over this limit would not fail but kill us by SIGXFSZ. */
static int alloc_check_limit(uint64_t size)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        size > limit.rlim_cur)
        return error_set(
            TS_ERR_LIMIT,
            "%llu bytes of shared memory are more than RLIMIT_FSIZE allows (%llu): "
            "raise it with `ulimit -f %llu` (1024-byte units) or `ulimit -f unlimited`",
            (unsigned long long)size, (unsigned long long)limit.rlim_cur,
            (unsigned long long)(size + 1023) / 1024);
    return TS_OK;
}

/* Takes the pages now: later, a page that cannot be had is a SIGBUS at first touch. */
static int alloc_fill(int fd, uint64_t size)
{
    for (uint64_t at = 0; at < size; at += FILL_CHUNK) {
        uint64_t chunk = size - at < FILL_CHUNK ? size - at : FILL_CHUNK;

        while (fallocate(fd, 0, (off_t)at, (off_t)chunk) < 0)
            if (errno != EINTR)
                return error_system("%llu bytes of shared memory", (unsigned long long)size);
    }
    return TS_OK;
}

static int alloc_map(struct region *region, uint64_t size)
{
    int rc = alloc_check_limit(size);

    if (rc != TS_OK)
        return rc;
    region->fd = segment_create("tesup-mem", size);
    if (region->fd < 0)
        return error_system("%llu bytes of shared memory", (unsigned long long)size);
    rc = alloc_fill(region->fd, size);
    if (rc != TS_OK)
        return rc;
    region->mapping = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, region->fd, 0);
    if (region->mapping == MAP_FAILED) {
        region->mapping = NULL;
        return error_system("mapping %llu bytes of shared memory", (unsigned long long)size);
    }
    region->mapped = size;
    region->base = (uint64_t)(uintptr_t)region->mapping;
    return TS_OK;
}

int tesup_mem_alloc(struct tesup_session *session, size_t length, uint32_t access, void **address,
                    tesup_region_t *handle)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct region *region;
    void *mapping;
    int rc = region_check(session, length, access, handle);

    if (rc != TS_OK)
        return rc;
    if (address == NULL || length > INT64_MAX - page)
        return error_set(TS_ERR_INVALID, "tesup_mem_alloc needs a place for the address and a "
                                         "length that fits a file");
    region = region_new(REGION_KIND_SHARED, access, length);
    if (region == NULL)
        return TS_ERR_NO_MEMORY;
    rc = alloc_map(region, (length + page - 1) / page * page);
    if (rc != TS_OK) {
        region_free(region);
        return rc;
    }
    mapping = region->mapping;
    rc = region_enter(session, region, handle);
    if (rc == TS_OK)
        *address = mapping;
    return rc;
}

/* ---- memory of the application ---- */

static int register_check_file(int fd, uint64_t offset, uint64_t length, uint32_t access)
{
    struct segment_facts facts;

    if (segment_inspect(fd, &facts) < 0)
        return errno == EINVAL ? error_set(TS_ERR_UNSUPPORTED,
                                           "file %d is no memfd, shared memory or hugetlb file", fd)
                               : error_system("looking at file %d", fd);
    if (offset > facts.size || length > facts.size - offset)
        return error_set(TS_ERR_INVALID,
                         "offset %llu + length %llu lie outside of file %d, which has %llu bytes",
                         (unsigned long long)offset, (unsigned long long)length, fd,
                         (unsigned long long)facts.size);
    if (!facts.writable && (access & TESUP_ACCESS_REMOTE_WRITE) != 0)
        return error_set(TS_ERR_DENIED,
                         "file %d is open for reading only; TESUP_ACCESS_REMOTE_WRITE needs O_RDWR",
                         fd);
    return TS_OK;
}

int tesup_mem_register_fd(struct tesup_session *session, int fd, uint64_t offset, uint64_t length,
                          const void *base, uint32_t access, tesup_region_t *handle)
{
    struct region *region;
    int rc = region_check(session, length, access, handle);

    if (rc == TS_OK)
        rc = register_check_file(fd, offset, length, access);
    if (rc != TS_OK)
        return rc;
    region = region_new(REGION_KIND_SHARED, access, length);
    if (region == NULL)
        return TS_ERR_NO_MEMORY;
    region->offset = offset;
    region->base = (uint64_t)(uintptr_t)base;
    region->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (region->fd < 0) {
        rc = error_system("duplicating file %d", fd);
        region_free(region);
        return rc;
    }
    return region_enter(session, region, handle);
}

int tesup_mem_register(struct tesup_session *session, void *address, uint64_t length,
                       uint32_t access, tesup_region_t *handle)
{
    struct region *region;
    int rc = region_check(session, length, access, handle);

    if (rc != TS_OK)
        return rc;
    if (address == NULL || length > UINT64_MAX - (uint64_t)(uintptr_t)address)
        return error_set(TS_ERR_INVALID, "%p + %llu bytes is no range of memory", address,
                         (unsigned long long)length);
    if (gpu_owns(address))
        return tesup_mem_register_gpu(session, address, length, access, handle);
    region = region_new(REGION_KIND_PRIVATE, access, length);
    if (region == NULL)
        return TS_ERR_NO_MEMORY;
    region->base = (uint64_t)(uintptr_t)address;
    if (session->huge_pages)
        huge_pages_make(region->base, length);
    return region_enter(session, region, handle);
}

/* ---- the end of a region ---- */

/* A lost supervisor's regions went with its workers. */
static int region_revoke(struct tesup_session *session, uint32_t wire)
{
    int rc = control_call_handle(session, WIRE_REGION_DEL, wire, "unregister memory");

    if (rc == TS_ERR_NO_DAEMON)
        session_outlive_workers(session);
    /* GONE: an earlier try timed out here but ended there. */
    return rc == TS_ERR_NO_DAEMON || rc == TS_ERR_GONE ? TS_OK : rc;
}

static int region_end(struct tesup_session *session, uint32_t handle, bool allocated)
{
    const struct region *region;
    uint32_t wire = 0;
    int rc = session_guard(session);
    bool attached;

    if (rc != TS_OK)
        return rc;
    attached = control_begin(session) == TS_OK;
    if (!attached) {
        session_outlive_workers(session);
        pthread_mutex_lock(&session->lock);
    }
    region = book_find(&session->regions, handle, &wire);
    if (region == NULL)
        rc = error_set(TS_ERR_GONE, "region %#x is not registered (any more)", handle);
    else if (allocated != (region->mapping != NULL))
        rc = error_set(TS_ERR_INVALID, "region %#x is freed by %s", handle,
                       allocated ? "tesup_mem_unregister" : "tesup_mem_free");
    else if (attached && wire != 0)
        rc = region_revoke(session, wire);
    if (rc == TS_OK)
        region_free(book_take(&session->regions, handle));
    control_end(session);
    return rc;
}

int tesup_mem_free(struct tesup_session *session, tesup_region_t region)
{
    return region_end(session, region, true);
}

int tesup_mem_unregister(struct tesup_session *session, tesup_region_t region)
{
    return region_end(session, region, false);
}
