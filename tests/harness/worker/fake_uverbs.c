/* The kernel's side of an open device: what is asked by ioctl, without the library (shm/uverbs.h).
 * Takes the place of libc's ioctl at link time; whatever is not about a device here goes on to the
 * kernel. */
#include <errno.h>
#include <stdarg.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl.h>

#include "tests/harness/worker/fake_verbs_inside.h"

#define DRIVER 9u /* none that uverbs_driver_find tries first */

int fake_uverbs_open(void)
{
    return eventfd(0, EFD_CLOEXEC);
}

static struct fake_nic *nic_open_as(int fd)
{
    for (unsigned i = 0; i < FAKE_NICS; i++)
        if (fake_nics[i].open && fake_nics[i].context.cmd_fd == fd)
            return &fake_nics[i];
    return NULL;
}

/* Where an attribute's bytes are: up to eight of an input are in it. */
static void *attr_bytes(struct ib_uverbs_ioctl_hdr *call, uint16_t index, uint16_t id, size_t size)
{
    struct ib_uverbs_attr *attr = &call->attrs[index];

    fake_require(index < call->num_attrs && attr->attr_id == id && attr->len == size &&
                     attr->flags == UVERBS_ATTR_F_MANDATORY && attr->attr_data.reserved == 0,
                 "attributes of an ioctl");
    if (size <= sizeof(attr->data))
        return &attr->data;
    return (void *)(uintptr_t)attr->data;
}

static int refuse(int error)
{
    errno = error;
    return -1;
}

static int mr_register(struct fake_nic *nic, struct ib_uverbs_ioctl_hdr *call)
{
    const struct ib_uverbs_reg_mr *in = attr_bytes(call, 1, UVERBS_ATTR_CORE_IN, sizeof(*in));
    struct ib_uverbs_reg_mr_resp *out = attr_bytes(call, 2, UVERBS_ATTR_CORE_OUT, sizeof(*out));
    struct ibv_mr *mr;

    fake_require(call->num_attrs == 3, "three attributes to register memory with");
    if (nic->pd == NULL || in->pd_handle != nic->pd->handle || in->hca_va != in->start)
        return refuse(EINVAL);
    mr = fake_mr_make(nic->pd, (void *)(uintptr_t)in->start, in->length, in->access_flags);
    if (mr == NULL)
        return -1;
    *out =
        (struct ib_uverbs_reg_mr_resp){.mr_handle = mr->handle, .lkey = mr->lkey, .rkey = mr->rkey};
    return 0;
}

static int mr_deregister(struct fake_nic *nic, struct ib_uverbs_ioctl_hdr *call)
{
    const struct ib_uverbs_dereg_mr *in = attr_bytes(call, 1, UVERBS_ATTR_CORE_IN, sizeof(*in));

    fake_require(call->num_attrs == 2, "two attributes to deregister memory with");
    list_each (node, following, &nic->mrs) {
        struct fake_mr *mr = list_entry(node, struct fake_mr, member);

        if (mr->mr.handle != in->mr_handle)
            continue;
        fake_mr_free(&mr->mr);
        return 0;
    }
    nic->seen.strangers++;
    return refuse(ENOENT);
}

static int on_call(struct fake_nic *nic, struct ib_uverbs_ioctl_hdr *call)
{
    const uint64_t *command;

    fake_require(call->length == sizeof(*call) + call->num_attrs * sizeof(struct ib_uverbs_attr) &&
                     call->object_id == UVERBS_OBJECT_DEVICE && call->reserved1 == 0 &&
                     call->reserved2 == 0,
                 "the header of an ioctl");
    if (nic->seen.old_kernel)
        return refuse(ENOTTY);
    if (call->driver_id != DRIVER)
        return refuse(EINVAL);
    if (call->method_id == UVERBS_METHOD_QUERY_PORT)
        return 0;
    fake_require(call->method_id == UVERBS_METHOD_INVOKE_WRITE, "a method that is in use");
    command = attr_bytes(call, 0, UVERBS_ATTR_WRITE_CMD, sizeof(*command));
    fake_require(*command == IB_USER_VERBS_CMD_REG_MR || *command == IB_USER_VERBS_CMD_DEREG_MR,
                 "a command that is in use");
    return *command == IB_USER_VERBS_CMD_REG_MR ? mr_register(nic, call) : mr_deregister(nic, call);
}

int ioctl(int fd, unsigned long request, ...)
{
    struct fake_nic *nic = request == RDMA_VERBS_IOCTL ? nic_open_as(fd) : NULL;
    va_list arguments;
    void *argument;
    int rc;

    va_start(arguments, request);
    argument = va_arg(arguments, void *);
    va_end(arguments);
    if (nic == NULL)
        return (int)syscall(SYS_ioctl, fd, request, argument);
    FAKE_LOCKED(rc = on_call(nic, argument));
    return rc;
}
