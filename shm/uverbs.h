/* Memory registration by the kernel's own interface to RDMA devices, without a device library.
 *
 * A worker owns a device's context and protection domain.  A job that the worker trusts registers
 * its private memory on that domain itself: the kernel pins the pages of whoever calls, so only the
 * job can.  It gets the context's file descriptor for as long as that takes; what it registered
 * stays when its copy is closed, and the worker deregisters by handle, also when the job is dead.
 *
 * uapi: rdma/rdma_user_ioctl_cmds.h, ib_user_ioctl_cmds.h (UVERBS_METHOD_INVOKE_WRITE) and
 * ib_user_verbs.h (IB_USER_VERBS_CMD_REG_MR, _DEREG_MR), stable since Linux 4.20.
 */
#ifndef TESUP_SHM_UVERBS_H
#define TESUP_SHM_UVERBS_H

#include <stdint.h>

#define UVERBS_DRIVER_NONE UINT32_MAX

/* Where to register: all from the worker. */
struct uverbs_domain {
    int fd;          /* of the context */
    uint32_t driver; /* enum rdma_driver_id */
    uint32_t handle; /* of the protection domain */
};

struct uverbs_mr {
    uint32_t handle, lkey, rkey;
};

/* The driver behind a context, which each call must name. UVERBS_DRIVER_NONE: the kernel is too old
 * to tell, or `fd` is no context. */
uint32_t uverbs_driver_find(int fd);
/* Registers [start, start + length) of the calling process for IBV_ACCESS_* `access`, with its own
 * addresses as the device's. 0, or -1 with errno: ENOMEM (memlock), EFAULT (not mapped, or
 * read-only), EINVAL (the driver wants more than the common part, or is another one). */
int uverbs_mr_register(const struct uverbs_domain *domain, uint64_t start, uint64_t length,
                       uint32_t access, struct uverbs_mr *mr);
/* 0, or -1 with errno. */
int uverbs_mr_deregister(int fd, uint32_t driver, uint32_t handle);

#endif
