#include "shm/uverbs.h"

#include <string.h>
#include <sys/ioctl.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl.h>

#define DRIVERS_MAX 64u /* more than any kernel has */

/* One call of a method of the device object with up to three attributes. */
union call {
    struct ib_uverbs_ioctl_hdr header; /* ends in its attributes */
    uint8_t room[sizeof(struct ib_uverbs_ioctl_hdr) + 3 * sizeof(struct ib_uverbs_attr)];
};

static void call_init(union call *call, uint32_t driver, uint16_t method)
{
    memset(call, 0, sizeof(*call));
    call->header.object_id = UVERBS_OBJECT_DEVICE;
    call->header.method_id = method;
    call->header.driver_id = driver;
}

/* Up to eight bytes of input travel in the attribute itself. */
static void call_attr(union call *call, uint16_t id, const void *bytes, uint16_t size, int input)
{
    struct ib_uverbs_attr *attr = &call->header.attrs[call->header.num_attrs++];

    attr->attr_id = id;
    attr->len = size;
    attr->flags = UVERBS_ATTR_F_MANDATORY;
    if (input && size <= sizeof(attr->data))
        memcpy(&attr->data, bytes, size);
    else
        attr->data = (uintptr_t)bytes;
}

static int call_run(int fd, union call *call)
{
    call->header.length =
        (uint16_t)(sizeof(call->header) + call->header.num_attrs * sizeof(struct ib_uverbs_attr));
    return ioctl(fd, RDMA_VERBS_IOCTL, &call->header);
}

/* A harmless question that every kernel with this interface answers: a wrong driver is EINVAL. */
static int driver_try(int fd, uint32_t driver)
{
    const uint64_t port = 1;
    struct ib_uverbs_query_port_resp_ex answer;
    union call call;

    call_init(&call, driver, UVERBS_METHOD_QUERY_PORT);
    call_attr(&call, UVERBS_ATTR_QUERY_PORT_PORT_NUM, &port, sizeof(port), 1);
    call_attr(&call, UVERBS_ATTR_QUERY_PORT_RESP, &answer, sizeof(answer), 0);
    return call_run(fd, &call);
}

uint32_t uverbs_driver_find(int fd)
{
    for (uint32_t driver = 0; driver < DRIVERS_MAX; driver++)
        if (driver_try(fd, driver) == 0)
            return driver;
    return UVERBS_DRIVER_NONE;
}

int uverbs_mr_register(const struct uverbs_domain *domain, uint64_t start, uint64_t length,
                       uint32_t access, struct uverbs_mr *mr)
{
    const uint64_t command = IB_USER_VERBS_CMD_REG_MR;
    struct ib_uverbs_reg_mr in = {.start = start,
                                  .length = length,
                                  .hca_va = start,
                                  .pd_handle = domain->handle,
                                  .access_flags = access};
    struct ib_uverbs_reg_mr_resp out = {.mr_handle = 0};
    union call call;

    call_init(&call, domain->driver, UVERBS_METHOD_INVOKE_WRITE);
    call_attr(&call, UVERBS_ATTR_WRITE_CMD, &command, sizeof(command), 1);
    call_attr(&call, UVERBS_ATTR_CORE_IN, &in, sizeof(in), 1);
    call_attr(&call, UVERBS_ATTR_CORE_OUT, &out, sizeof(out), 0);
    if (call_run(domain->fd, &call) != 0)
        return -1;
    *mr = (struct uverbs_mr){.handle = out.mr_handle, .lkey = out.lkey, .rkey = out.rkey};
    return 0;
}

int uverbs_mr_deregister(int fd, uint32_t driver, uint32_t handle)
{
    const uint64_t command = IB_USER_VERBS_CMD_DEREG_MR;
    const struct ib_uverbs_dereg_mr in = {.mr_handle = handle};
    union call call;

    call_init(&call, driver, UVERBS_METHOD_INVOKE_WRITE);
    call_attr(&call, UVERBS_ATTR_WRITE_CMD, &command, sizeof(command), 1);
    call_attr(&call, UVERBS_ATTR_CORE_IN, &in, sizeof(in), 1);
    return call_run(fd, &call);
}
