/* Memory of a GPU, as the job has it: found by CUDA's own word for it, shared by handles.
 *
 * CUDA is asked only where the process has loaded it.  No call here waits for work on the GPU. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/internal.h"
#include "shm/cuda.h"

/* What CUDA says of a pointer. */
struct gpu_facts {
    unsigned int type; /* CUDA_MEMORY_* */
    bool managed;
    int ordinal;
    struct cuda_context *context; /* NULL: of none (VMM, pools) */
    cuda_pointer start;           /* of its allocation */
    size_t size;
    unsigned long long buffer;
};

/* The part of the address space that registering changes. */
struct gpu_view {
    struct cuda_driver driver;
    cuda_device device;
    bool retained; /* the device's primary context, for want of another */
    bool pushed;
};

static int gpu_refused(const struct cuda_driver *driver, int code, const char *call,
                       enum cuda_result result, const char *remedy)
{
    return error_set(code, "%s: %s%s%s", call, cuda_name(driver, result), remedy[0] ? ": " : "",
                     remedy);
}

bool gpu_owns(const void *address)
{
    struct cuda_driver driver;
    unsigned int type = 0;
    char text[200];
    bool owns = false;

    if (cuda_driver_load(&driver, CUDA_LOADED_ONLY, text, sizeof(text)) != TS_OK)
        return false;
    owns = driver.cuPointerGetAttribute(&type, CUDA_POINTER_MEMORY_TYPE,
                                        (cuda_pointer)(uintptr_t)address) == CUDA_OK &&
           type == CUDA_MEMORY_DEVICE;
    cuda_driver_unload(&driver);
    return owns;
}

/* ---- facts ---- */

static enum cuda_result facts_ask(const struct cuda_driver *driver, cuda_pointer at,
                                  struct gpu_facts *facts)
{
    unsigned int managed = 0;
    enum cuda_pointer_attribute names[] = {
        CUDA_POINTER_MEMORY_TYPE, CUDA_POINTER_IS_MANAGED, CUDA_POINTER_DEVICE_ORDINAL,
        CUDA_POINTER_CONTEXT,     CUDA_POINTER_BUFFER_ID,  CUDA_POINTER_RANGE_START,
        CUDA_POINTER_RANGE_SIZE,
    };
    void *values[] = {&facts->type,   &managed,      &facts->ordinal, &facts->context,
                      &facts->buffer, &facts->start, &facts->size};
    enum cuda_result result;

    *facts = (struct gpu_facts){.ordinal = -1};
    result = driver->cuPointerGetAttributes(sizeof(names) / sizeof(names[0]), names, values, at);
    facts->managed = managed != 0;
    return result;
}

static int facts_check(const struct cuda_driver *driver, const void *pointer, uint64_t length,
                       struct gpu_facts *facts)
{
    cuda_pointer at = (cuda_pointer)(uintptr_t)pointer;
    enum cuda_result result = facts_ask(driver, at, facts);
    uint64_t skip = at - facts->start;

    if (result != CUDA_OK && result != CUDA_INVALID_VALUE)
        return gpu_refused(driver, TS_ERR_UNSUPPORTED, "cuPointerGetAttributes", result, "");
    if (result != CUDA_OK || facts->type == 0)
        return error_set(TS_ERR_INVALID,
                         "%p is no memory of CUDA's (%s): was it freed, or is it of another "
                         "process?",
                         pointer, cuda_name(driver, CUDA_INVALID_VALUE));
    if (facts->managed)
        return error_set(TS_ERR_UNSUPPORTED,
                         "%p is managed memory, which moves between devices: use cudaMalloc",
                         pointer);
    if (facts->type != CUDA_MEMORY_DEVICE)
        return error_set(TS_ERR_INVALID,
                         "%p is memory of the host: register it with tesup_mem_register", pointer);
    if (facts->context == NULL) /* pieces side by side: share_vmm looks at each */
        return TS_OK;
    if (at < facts->start || skip > facts->size || length > facts->size - skip)
        return error_set(TS_ERR_INVALID,
                         "%p + %llu bytes end past their allocation, which has %llu bytes at %#llx",
                         pointer, (unsigned long long)length, (unsigned long long)facts->size,
                         (unsigned long long)facts->start);
    return TS_OK;
}

/* ---- a context ---- */

static void view_leave(struct gpu_view *view)
{
    struct cuda_context *context;

    if (view->pushed)
        view->driver.cuCtxPopCurrent(&context);
    if (view->retained)
        view->driver.cuDevicePrimaryCtxRelease(view->device);
    cuda_driver_unload(&view->driver);
}

/* Makes the memory's context current, for the time being. */
static int view_enter(struct gpu_view *view, const struct gpu_facts *facts)
{
    struct cuda_context *context = facts->context;
    enum cuda_result result = view->driver.cuDeviceGet(&view->device, facts->ordinal);

    if (result != CUDA_OK)
        return gpu_refused(&view->driver, TS_ERR_UNSUPPORTED, "cuDeviceGet", result, "");
    if (context == NULL) {
        result = view->driver.cuDevicePrimaryCtxRetain(&context, view->device);
        if (result != CUDA_OK)
            return gpu_refused(&view->driver, TS_ERR_UNSUPPORTED, "cuDevicePrimaryCtxRetain",
                               result, "");
        view->retained = true;
    }
    result = view->driver.cuCtxPushCurrent(context);
    view->pushed = result == CUDA_OK;
    return view->pushed
               ? TS_OK
               : gpu_refused(&view->driver, TS_ERR_UNSUPPORTED, "cuCtxPushCurrent", result, "");
}

/* ---- ways ---- */

/* One piece of a reservation, which one handle backs: the descriptor of its handle. */
static int share_piece(const struct cuda_driver *driver, cuda_pointer at, int *fd)
{
    cuda_memory memory;
    enum cuda_result result = driver->cuMemRetainAllocationHandle(&memory, (void *)(uintptr_t)at);

    if (result != CUDA_OK)
        return gpu_refused(driver, TS_ERR_UNSUPPORTED, "cuMemRetainAllocationHandle", result,
                           "memory of a pool (cudaMallocAsync) cannot be shared: use cudaMalloc");
    result = driver->cuMemExportToShareableHandle(fd, memory, CUDA_HANDLE_POSIX_FD, 0);
    driver->cuMemRelease(memory);
    return result == CUDA_OK
               ? TS_OK
               : gpu_refused(driver, TS_ERR_UNSUPPORTED, "cuMemExportToShareableHandle", result,
                             "cuMemCreate it with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, or use "
                             "cudaMalloc (PyTorch: expandable_segments:False)");
}

/* The piece with `at` in it; drivers that do not tell pieces apart have one for the allocation.
 * False: nothing is mapped there. */
static bool piece_find(const struct cuda_driver *driver, cuda_pointer at, cuda_pointer *start,
                       size_t *size)
{
    if (driver->cuPointerGetAttribute(start, CUDA_POINTER_MAPPING_BASE, at) != CUDA_OK ||
        driver->cuPointerGetAttribute(size, CUDA_POINTER_MAPPING_SIZE, at) != CUDA_OK ||
        *start == 0) {
        if (driver->cuPointerGetAttribute(start, CUDA_POINTER_RANGE_START, at) != CUDA_OK ||
            driver->cuPointerGetAttribute(size, CUDA_POINTER_RANGE_SIZE, at) != CUDA_OK)
            return false;
    }
    return at >= *start && at - *start < *size;
}

/* Memory of cuMemCreate: piece after piece, until the region's end. */
static int share_vmm(const struct cuda_driver *driver, struct region *region)
{
    struct region_gpu *gpu = region->gpu;
    cuda_pointer at = region->base, end = region->base + region->length;
    int rc = TS_OK;

    gpu->ask.ways |= PROTO_GPU_VMM;
    while (at < end && rc == TS_OK) {
        cuda_pointer start = 0;
        size_t size = 0;

        if (!piece_find(driver, at, &start, &size) || (at != region->base && at != start))
            return error_set(TS_ERR_INVALID,
                             "nothing is mapped at %#llx, within %#llx + %llu bytes",
                             (unsigned long long)at, (unsigned long long)region->base,
                             (unsigned long long)region->length);
        if (gpu->ask.pieces == PROTO_GPU_PIECES_MAX)
            return error_set(TS_ERR_LIMIT,
                             "%#llx + %llu bytes are of more than %u handles of cuMemCreate: "
                             "register them in parts, or use cudaMalloc (PyTorch: "
                             "expandable_segments:False)",
                             (unsigned long long)region->base, (unsigned long long)region->length,
                             PROTO_GPU_PIECES_MAX);
        if (at == region->base)
            gpu->ask.offset = at - start;
        rc = share_piece(driver, at, &gpu->fds[gpu->fd_count]);
        if (rc == TS_OK) {
            gpu->ask.piece[gpu->ask.pieces++] = size;
            gpu->fd_count++;
        }
        at = start + size;
    }
    return rc;
}

static int share_memory(const struct cuda_driver *driver, const struct gpu_facts *facts,
                        struct region *region)
{
    const char *call = "cuIpcGetMemHandle";
    struct cuda_ipc_memory handle;
    unsigned int sync = 1;
    enum cuda_result result;

    static_assert(sizeof(handle) == sizeof(region->gpu->ask.ipc), "an IPC handle");
    if (facts->context == NULL)
        return share_vmm(driver, region);
    result = driver->cuIpcGetMemHandle(&handle, facts->start);
    if (result == CUDA_OK) {
        memcpy(region->gpu->ask.ipc, &handle, sizeof(handle));
        region->gpu->ask.ways |= PROTO_GPU_IPC;
        call = "cuPointerSetAttribute";
        result = driver->cuPointerSetAttribute(&sync, CUDA_POINTER_SYNC_MEMOPS, facts->start);
    }
    return result == CUDA_OK ? TS_OK
                             : gpu_refused(driver, TS_ERR_UNSUPPORTED, call, result,
                                           "only memory of cudaMalloc and cuMemCreate is shared");
}

/* What a NIC can register.  It is no condition: without it bytes go through the host. */
static void share_dmabuf(const struct cuda_driver *driver, const struct gpu_facts *facts,
                         struct region *region)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t begin = region->base / page * page;
    uint64_t end = (region->base + region->length + page - 1) / page * page;
    enum cuda_result result = CUDA_NOT_SUPPORTED;
    struct region_gpu *gpu = region->gpu;
    int fd = -1;

    if (driver->cuMemGetHandleForAddressRange != NULL &&
        (facts->context == NULL || (begin >= facts->start && end <= facts->start + facts->size))) {
        result = driver->cuMemGetHandleForAddressRange(&fd, begin, end - begin,
                                                       CUDA_RANGE_DMABUF_FD, CUDA_DMABUF_PCIE);
        if (result != CUDA_OK) /* only some machines have that mapping */
            result = driver->cuMemGetHandleForAddressRange(&fd, begin, end - begin,
                                                           CUDA_RANGE_DMABUF_FD, 0);
    }
    gpu->ask.dmabuf_result = (uint32_t)result;
    if (result != CUDA_OK)
        return;
    gpu->fds[gpu->fd_count++] = fd;
    gpu->ask.dmabuf_offset = region->base - begin;
    gpu->ask.ways |= PROTO_GPU_DMABUF;
}

static int region_share(struct gpu_view *view, const struct gpu_facts *facts, struct region *region)
{
    struct cuda_uuid uuid;
    enum cuda_result result = view->driver.cuDeviceGetUuid(&uuid, view->device);
    int rc;

    if (result != CUDA_OK)
        return gpu_refused(&view->driver, TS_ERR_UNSUPPORTED, "cuDeviceGetUuid", result, "");
    region->gpu = calloc(1, sizeof(*region->gpu));
    if (region->gpu == NULL)
        return error_set(TS_ERR_NO_MEMORY, "no memory to keep a region");
    memcpy(region->gpu->ask.uuid, uuid.bytes, sizeof(region->gpu->ask.uuid));
    region->gpu->ask.buffer = facts->buffer;
    region->gpu->ask.offset = region->base - facts->start;
    rc = share_memory(&view->driver, facts, region);
    if (rc == TS_OK)
        share_dmabuf(&view->driver, facts, region);
    return rc;
}

int tesup_mem_register_gpu(struct tesup_session *session, void *pointer, uint64_t length,
                           uint32_t access, tesup_region_t *handle)
{
    struct gpu_view view = {.device = -1};
    struct gpu_facts facts;
    struct region *region = NULL;
    char text[PROTO_TEXT_MAX];
    int rc = region_check(session, length, access, handle);

    if (rc != TS_OK)
        return rc;
    rc = cuda_driver_load(&view.driver, CUDA_LOADED_ONLY, text, sizeof(text));
    if (rc != TS_OK)
        return error_set(TS_ERR_UNSUPPORTED, "no GPU memory can be registered: %s", text);
    rc = facts_check(&view.driver, pointer, length, &facts);
    if (rc == TS_OK)
        rc = view_enter(&view, &facts);
    if (rc != TS_OK)
        goto leave;
    region = region_new(REGION_KIND_GPU, access, length);
    if (region == NULL) {
        rc = TS_ERR_NO_MEMORY;
        goto leave;
    }
    region->base = (uint64_t)(uintptr_t)pointer;
    rc = region_share(&view, &facts, region);
leave:
    view_leave(&view);
    if (rc == TS_OK)
        return region_enter(session, region, handle);
    if (region != NULL)
        region_free(region);
    return rc;
}
