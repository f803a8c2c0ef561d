/* What the driver knows of memory, and where the bytes of the device's are.
 *
 * Each allocation on a device is a memfd.  The stand-in maps it for itself; the address that the
 * program gets lies in a reserved range where every access faults. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/standin/cuda.h"

#define ADDRESSES (1UL << 38)

struct list standin_blocks = {&standin_blocks, &standin_blocks};

/* The last ones that were freed: to tell a late access from a wild one. */
static struct {
    cuda_pointer address;
    size_t size;
} freed[256];
static unsigned int freed_count;

cuda_pointer standin_addresses_take(size_t size, size_t alignment)
{
    static cuda_pointer start, next;
    cuda_pointer taken;

    if (!start) {
        void *range =
            mmap(NULL, ADDRESSES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (range == MAP_FAILED)
            standin_die("cannot reserve addresses: %s", strerrordesc_np(errno));
        start = (cuda_pointer)(uintptr_t)range;
        next = start;
    }
    /* An address never comes back, so that whatever comes late is seen; and a page between two
     * allocations is nobody's. */
    taken = (next + alignment - 1) & ~(cuda_pointer)(alignment - 1);
    next = taken + ((size + 2 * STANDIN_PAGE - 1) & ~(STANDIN_PAGE - 1));
    if (next > start + ADDRESSES)
        standin_die("the reserved addresses are used up");
    return taken;
}

bool standin_is_on_device(const struct standin_block *block)
{
    return block->kind == STANDIN_DEVICE || block->kind == STANDIN_OPENED ||
           block->kind == STANDIN_MAPPED || block->kind == STANDIN_MANAGED;
}

struct standin_block *standin_block_find(cuda_pointer address)
{
    list_each (node, following, &standin_blocks) {
        struct standin_block *block = list_entry(node, struct standin_block, node);

        if (address >= block->address && address - block->address < block->size)
            return block;
    }
    return NULL;
}

static void __attribute__((noreturn)) range_die(const char *call, cuda_pointer address, size_t size)
{
    const struct standin_block *block = standin_block_find(address);

    if (block)
        standin_die("%s: %zu bytes at 0x%llx end behind the allocation of %zu bytes at 0x%llx",
                    call, size, address, block->size, block->address);
    for (size_t i = 0; i < sizeof(freed) / sizeof(freed[0]); i++) {
        if (address >= freed[i].address && address - freed[i].address < freed[i].size)
            standin_die("%s: the memory at 0x%llx was freed before", call, address);
    }
    standin_die("%s: 0x%llx is in no allocation of this process", call, address);
}

void standin_range_check(const char *call, cuda_pointer address, size_t size)
{
    while (size) {
        const struct standin_block *block = standin_block_find(address);
        size_t part;

        if (!block || !standin_is_on_device(block))
            range_die(call, address, size);
        part = block->size - (address - block->address);
        if (part < size && (block->kind != STANDIN_MAPPED || !standin_block_find(address + part)))
            range_die(call, address, size);
        part = part < size ? part : size;
        address += part;
        size -= part;
    }
}

void standin_range_hold(cuda_pointer address, size_t size, int change)
{
    while (size) {
        struct standin_block *block = standin_block_find(address);
        size_t part = block ? block->size - (address - block->address) : 0;

        if (!block)
            range_die("the end of an operation", address, size);
        part = part < size ? part : size;
        block->pending += (unsigned int)change;
        address += part;
        size -= part;
    }
}

char *standin_reach(const char *call, cuda_pointer address, size_t *size, bool write)
{
    const struct standin_block *block;
    size_t part;

    standin_lock();
    block = standin_block_find(address);
    if (!block)
        range_die(call, address, *size);
    if (!(write ? block->writable : block->readable))
        standin_die("%s: 0x%llx is mapped, but cuMemSetAccess does not let the device %s it", call,
                    address, write ? "write" : "read");
    part = block->size - (address - block->address);
    *size = part < *size ? part : *size;
    standin_unlock();
    return block->bytes + (address - block->address);
}

struct standin_block *standin_block_new(enum standin_kind kind, cuda_device device)
{
    static uint64_t next_id = 1000;
    struct standin_block *block = calloc(1, sizeof(*block));

    if (!block)
        standin_die("no memory for the stand-in itself");
    block->kind = kind;
    block->device = device;
    block->fd = -1;
    block->id = next_id++;
    block->readable = block->writable = true;
    list_init(&block->node);
    return block;
}

struct standin_trailer *standin_trailer_of(const struct standin_block *block)
{
    return (struct standin_trailer *)(void *)((char *)block->mapped + block->mapped_size -
                                              STANDIN_PAGE);
}

static void *memory_map(struct standin_block *block)
{
    block->mapped =
        mmap(NULL, block->mapped_size, PROT_READ | PROT_WRITE, MAP_SHARED, block->fd, 0);
    return block->mapped == MAP_FAILED ? NULL : block->mapped;
}

int standin_memory_make(struct standin_block *block, size_t size, size_t offset,
                        uint32_t handle_types)
{
    struct standin_trailer *trailer;

    block->size = size;
    block->mapped_size = ((offset + size + STANDIN_PAGE - 1) & ~(STANDIN_PAGE - 1)) + STANDIN_PAGE;
    block->fd = memfd_create("standin-gpu", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (block->fd < 0 || ftruncate(block->fd, (off_t)block->mapped_size) || !memory_map(block) ||
        fcntl(block->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) ||
        getrandom(&block->nonce, sizeof(block->nonce), 0) != sizeof(block->nonce)) {
        if (block->fd >= 0)
            close(block->fd);
        return -1;
    }
    block->bytes = (char *)block->mapped + offset;
    trailer = standin_trailer_of(block);
    memcpy(trailer->magic, STANDIN_MAGIC, sizeof(trailer->magic));
    trailer->nonce = block->nonce;
    trailer->size = size;
    trailer->offset = offset;
    trailer->kind = block->kind;
    trailer->handle_types = handle_types;
    trailer->uuid = standin_devices[block->device].uuid;
    return 0;
}

bool standin_memory_open(struct standin_block *block, int fd, struct standin_trailer *trailer)
{
    struct stat status;

    if (fstat(fd, &status) || status.st_size < (off_t)(2 * STANDIN_PAGE))
        return false;
    block->fd = fd;
    block->mapped_size = (size_t)status.st_size;
    if (!memory_map(block))
        return false;
    *trailer = *standin_trailer_of(block);
    if (memcmp(trailer->magic, STANDIN_MAGIC, sizeof(trailer->magic)) != 0 ||
        trailer->offset + trailer->size > block->mapped_size - STANDIN_PAGE) {
        munmap(block->mapped, block->mapped_size);
        return false;
    }
    block->size = trailer->size;
    block->bytes = (char *)block->mapped + trailer->offset;
    block->nonce = trailer->nonce;
    return true;
}

void standin_block_free(const char *call, struct standin_block *block)
{
    if (block->pending)
        standin_die("%s: 0x%llx is freed with %u operations on it under way", call, block->address,
                    block->pending);
    freed[freed_count % (sizeof(freed) / sizeof(freed[0]))].address = block->address;
    freed[freed_count % (sizeof(freed) / sizeof(freed[0]))].size = block->size;
    freed_count++;
    list_remove(&block->node);
    if (block->mapped)
        munmap(block->mapped, block->mapped_size);
    if (block->fd >= 0)
        close(block->fd);
    free(block);
}
