/* Memory regions: keys, ranges and rights; and a gate, so that a registration can take long. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/harness/worker/fake_verbs_inside.h"
#include "tests/standin/dmabuf.h"

static uint32_t next_key = 0x1000;
static bool gate_closed;
static unsigned gate_waiting;
static pthread_cond_t gate_moved = PTHREAD_COND_INITIALIZER;

void fake_gate(bool closed)
{
    pthread_mutex_lock(&fake_lock);
    gate_closed = closed;
    pthread_cond_broadcast(&gate_moved);
    pthread_mutex_unlock(&fake_lock);
}

unsigned fake_gate_waiting(void)
{
    unsigned waiting;

    FAKE_LOCKED(waiting = gate_waiting);
    return waiting;
}

void fake_gate_pass(void)
{
    gate_waiting++;
    while (gate_closed)
        pthread_cond_wait(&gate_moved, &fake_lock);
    gate_waiting--;
}

struct ibv_mr *fake_mr_make(struct ibv_pd *pd, void *address, size_t length, unsigned access)
{
    struct fake_nic *nic = fake_nic_of(pd->context);
    struct fake_mr *mr;

    fake_gate_pass();
    if (fake_fails(nic, FAKE_REG_MR))
        return NULL;
    fake_require((access & ~(unsigned)(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING)) == 0,
                 "rights that are in use");
    if ((access & IBV_ACCESS_REMOTE_WRITE) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) {
        errno = EINVAL; /* ibv_reg_mr(3) */
        return NULL;
    }
    if (nic->seen.mrs == (unsigned)nic->seen.attr.max_mr) {
        errno = ENOMEM;
        return NULL;
    }
    mr = calloc(1, sizeof(*mr));
    mr->mr = (struct ibv_mr){.context = pd->context,
                             .pd = pd,
                             .addr = address,
                             .length = length,
                             .handle = next_key,
                             .lkey = next_key,
                             .rkey = next_key + 1};
    next_key += 0x100;
    mr->access = access;
    list_append(&nic->mrs, &mr->member);
    nic->seen.mrs++;
    nic->seen.pinned += length;
    return &mr->mr;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
    struct ibv_mr *mr;

    FAKE_LOCKED(mr = fake_mr_make(pd, address, length, (unsigned)access));
    return mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
                                unsigned int access)
{
    struct ibv_mr *mr;

    fake_require(iova == (uintptr_t)address, "addresses as they are");
    FAKE_LOCKED(mr = fake_mr_make(pd, address, length, access));
    return mr;
}

/* Of the stand-in for the CUDA driver (tests/standin/dmabuf.h). */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
                                 int fd, int access)
{
    struct fake_nic *nic = fake_nic_of(pd->context);
    const uint64_t page = 4096;
    struct standin_dmabuf head;
    struct ibv_mr *mr = NULL;
    struct stat facts;

    fake_require(fstat(fd, &facts) == 0 && pread(fd, &head, sizeof(head), 0) == sizeof(head) &&
                     memcmp(head.magic, STANDIN_DMABUF_MAGIC, sizeof(head.magic)) == 0,
                 "a descriptor of a dmabuf");
    fake_require(length > 0 && offset <= head.size && length <= head.size - offset,
                 "a range within the dmabuf");
    fake_require(iova % page == offset % page, "one offset in the page for both");
    fake_require(head.address + offset == iova, "the job's own address");
    pthread_mutex_lock(&fake_lock);
    if (!fake_fails(nic, FAKE_REG_DMABUF))
        mr = fake_mr_make(pd, (void *)(uintptr_t)iova, length, (unsigned)access);
    pthread_mutex_unlock(&fake_lock);
    return mr;
}

void fake_mr_free(struct ibv_mr *base)
{
    struct fake_nic *nic = fake_nic_of(base->context);
    struct fake_mr *mr = list_entry(base, struct fake_mr, mr);

    fake_require(!fake_mr_used(base), "memory that goes while a work request uses it");
    list_remove(&mr->member);
    nic->seen.mrs--;
    nic->seen.pinned -= base->length;
    free(mr);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    FAKE_LOCKED(fake_mr_free(mr));
    return 0;
}

struct ibv_mr *fake_mr_find(const struct ibv_pd *pd, uint32_t key, uint64_t address,
                            uint64_t length, unsigned access)
{
    struct fake_nic *nic = fake_nic_of(pd->context);

    list_each (node, following, &nic->mrs) {
        struct fake_mr *mr = list_entry(node, struct fake_mr, member);
        uint64_t base = (uintptr_t)mr->mr.addr;

        if ((mr->mr.lkey == key || mr->mr.rkey == key) && mr->mr.pd == pd && address >= base &&
            length <= mr->mr.length && address - base <= mr->mr.length - length &&
            (mr->access & access) == access)
            return &mr->mr;
    }
    return NULL;
}
