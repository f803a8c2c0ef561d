#include "tests/harness/test.h"

#include "tests/harness/qpbreak.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl.h>

#include "shm/uverbs.h"
#include "tests/harness/wait.h"

#define HANDLES_MAX 1024u
#define DEVICE_PATH "/dev/infiniband/uverbs"

/* The number of that descriptor in the worker; -1: it has no device open. */
static int device_find(pid_t worker)
{
    char path[64], entry[320], target[128];
    struct dirent *item;
    int found = -1;
    DIR *folder;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)worker);
    folder = opendir(path);
    while (folder != NULL && found < 0 && (item = readdir(folder)) != NULL) {
        ssize_t size;

        snprintf(entry, sizeof(entry), "%s/%s", path, item->d_name);
        size = readlink(entry, target, sizeof(target) - 1);
        if (size > 0 && strncmp(target, DEVICE_PATH, strlen(DEVICE_PATH)) == 0)
            found = (int)strtol(item->d_name, NULL, 10);
    }
    if (folder != NULL)
        closedir(folder);
    return found;
}

static int device_copy(pid_t worker)
{
    int number = device_find(worker);
    int process = (int)syscall(SYS_pidfd_open, worker, 0);
    int copy = number >= 0 ? (int)syscall(SYS_pidfd_getfd, process, number, 0) : -1;

    if (copy < 0)
        fail_msg("cannot copy the device descriptor of worker %d", (int)worker);
    close(process);
    return copy;
}

/* One command of the write interface; `out` may be NULL. */
static int device_command(int fd, uint32_t driver, uint64_t command, const void *in,
                          uint16_t in_size, void *out, uint16_t out_size)
{
    union {
        struct ib_uverbs_ioctl_hdr header; /* ends in its attributes */
        uint8_t room[sizeof(struct ib_uverbs_ioctl_hdr) + 3 * sizeof(struct ib_uverbs_attr)];
    } call = {.header = {.object_id = UVERBS_OBJECT_DEVICE,
                         .method_id = UVERBS_METHOD_INVOKE_WRITE,
                         .driver_id = driver,
                         .num_attrs = out != NULL ? 3 : 2}};
    struct ib_uverbs_attr *attr = call.header.attrs;

    attr[0] = (struct ib_uverbs_attr){.attr_id = UVERBS_ATTR_WRITE_CMD,
                                      .len = sizeof(command),
                                      .flags = UVERBS_ATTR_F_MANDATORY,
                                      .data = command};
    attr[1] = (struct ib_uverbs_attr){.attr_id = UVERBS_ATTR_CORE_IN,
                                      .len = in_size,
                                      .flags = UVERBS_ATTR_F_MANDATORY,
                                      .data = (uintptr_t)in};
    if (out != NULL)
        attr[2] = (struct ib_uverbs_attr){.attr_id = UVERBS_ATTR_CORE_OUT,
                                          .len = out_size,
                                          .flags = UVERBS_ATTR_F_MANDATORY,
                                          .data = (uintptr_t)out};
    call.header.length =
        (uint16_t)(sizeof(call.header) + call.header.num_attrs * sizeof(struct ib_uverbs_attr));
    return ioctl(fd, RDMA_VERBS_IOCTL, &call);
}

/* Is it a queue pair that sends, and not to that one? */
static bool handle_fits(int fd, uint32_t driver, uint32_t handle, uint32_t other)
{
    const struct ib_uverbs_query_qp in = {.qp_handle = handle,
                                          .attr_mask = IBV_QP_STATE | IBV_QP_DEST_QPN};
    struct ib_uverbs_query_qp_resp out = {.qp_state = 0};

    return device_command(fd, driver, IB_USER_VERBS_CMD_QUERY_QP, &in, sizeof(in), &out,
                          sizeof(out)) == 0 &&
           out.qp_state == IBV_QPS_RTS && out.dest_qp_num != other;
}

void qpbreak(pid_t worker, uint32_t other)
{
    struct wait wait = wait_begin("a queue pair to break", WAIT_MS);
    int fd = device_copy(worker);
    uint32_t driver = uverbs_driver_find(fd), handle = 0;
    struct ib_uverbs_modify_qp in = {.attr_mask = IBV_QP_STATE, .qp_state = IBV_QPS_ERR};

    while (!handle_fits(fd, driver, handle, other)) {
        handle = (handle + 1) % HANDLES_MAX;
        if (handle == 0)
            wait_step(&wait);
    }
    in.qp_handle = handle;
    if (device_command(fd, driver, IB_USER_VERBS_CMD_MODIFY_QP, &in, sizeof(in), NULL, 0) != 0)
        fail_msg("cannot break a queue pair of worker %d", (int)worker);
    close(fd);
}
