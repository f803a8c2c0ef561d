/* Memory in another process and in a NIC: IPC handles, descriptors, dmabuf. */
#include <errno.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/probe.h"

#define PATIENCE_MS 30000
#define SHARED      (4UL << 20)

extern char **environ;

/* The program again, with one end of a socket. */
static pid_t guest_start(const char *what, int *line)
{
    char number[16];
    char *argv[] = {(char[]){"gpu-probe"}, NULL, number, NULL};
    char name[16];
    int lines[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, lines))
        return -1;
    snprintf(name, sizeof(name), "%s", what);
    argv[1] = name;
    snprintf(number, sizeof(number), "%d", lines[1]);
    if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ))
        pid = -1;
    close(lines[1]);
    *line = lines[0];
    return pid;
}

/* One byte within the patience; the guest answers 'y'. */
static bool answer_is_yes(int line)
{
    struct pollfd wait = {.fd = line, .events = POLLIN};
    char byte = 'n';

    return poll(&wait, 1, PATIENCE_MS) == 1 && read(line, &byte, 1) == 1 && byte == 'y';
}

static bool guest_end(pid_t pid, int line)
{
    int status;

    close(line); /* a guest that waits sees it */
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void guest_judge(struct probe *probe, const char *name, pid_t pid, int line)
{
    bool yes = answer_is_yes(line);
    unsigned char byte = 0;

    if (!guest_end(pid, line) || !yes) {
        probe_say(name, "fail", "the other process did not find the bytes");
        return;
    }
    PROBE_STEP(probe, name, cuMemcpyDtoH(&byte, probe->device + SHARED - 1, 1));
    if (byte == 0x5a)
        probe_say(name, "pass", "read and written by another process");
    else
        probe_say(name, "fail", "what the other process wrote did not arrive");
}

void probe_ipc(struct probe *probe)
{
    struct cuda_ipc_memory handle;
    pid_t pid;
    int line;

    PROBE_STEP(probe, "IPC handle", cuIpcGetMemHandle(&handle, probe->device));
    probe_fill(probe->host, SHARED, 11);
    PROBE_STEP(probe, "IPC handle", cuMemcpyHtoD(probe->device, probe->host, SHARED));
    pid = guest_start("ipc", &line);
    if (pid < 0 || send(line, &handle, sizeof(handle), MSG_NOSIGNAL) != sizeof(handle)) {
        probe_say("IPC handle", "fail", "no second process: %s", strerrordesc_np(errno));
        return;
    }
    guest_judge(probe, "IPC handle", pid, line);
}

static bool fd_send(int line, int fd)
{
    char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
    struct iovec bytes = {&byte, 1};
    struct msghdr message = {.msg_iov = &bytes,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    return sendmsg(line, &message, MSG_NOSIGNAL) == 1;
}

static int fd_receive(int line)
{
    char control[CMSG_SPACE(sizeof(int))], byte;
    struct iovec bytes = {&byte, 1};
    struct msghdr message = {.msg_iov = &bytes,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    int fd = -1;

    if (recvmsg(line, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    return fd;
}

static const struct cuda_access_description access_all = {
    .location = {.type = CUDA_LOCATION_DEVICE},
    .flags = CUDA_ACCESS_READ_WRITE,
};

static void mapping_end(struct probe *probe, cuda_pointer address)
{
    PROBE_STEP(probe, "VMM descriptor", cuMemUnmap(address, SHARED));
    PROBE_STEP(probe, "VMM descriptor", cuMemAddressFree(address, SHARED));
}

void probe_vmm(struct probe *probe)
{
    const struct cuda_allocation properties = {.type = CUDA_ALLOCATION_PINNED,
                                               .requestedHandleTypes = CUDA_HANDLE_POSIX_FD,
                                               .location = {.type = CUDA_LOCATION_DEVICE}};
    cuda_pointer address, whole = probe->device;
    cuda_memory memory;
    pid_t pid;
    int fd, line;

    PROBE_STEP(probe, "VMM descriptor", cuMemCreate(&memory, SHARED, &properties, 0));
    PROBE_STEP(probe, "VMM descriptor", cuMemAddressReserve(&address, SHARED, 0, 0, 0));
    PROBE_STEP(probe, "VMM descriptor", cuMemMap(address, SHARED, 0, memory, 0));
    PROBE_STEP(probe, "VMM descriptor", cuMemSetAccess(address, SHARED, &access_all, 1));
    PROBE_STEP(probe, "VMM descriptor",
               cuMemExportToShareableHandle(&fd, memory, CUDA_HANDLE_POSIX_FD, 0));
    PROBE_STEP(probe, "VMM descriptor", cuMemRelease(memory));
    probe_fill(probe->host, SHARED, 11);
    PROBE_STEP(probe, "VMM descriptor", cuMemcpyHtoD(address, probe->host, SHARED));
    pid = guest_start("vmm", &line);
    if (pid < 0 || !fd_send(line, fd)) {
        probe_say("VMM descriptor", "fail", "no second process: %s", strerrordesc_np(errno));
        return;
    }
    close(fd);
    probe->device = address;
    guest_judge(probe, "VMM descriptor", pid, line);
    probe->device = whole;
    mapping_end(probe, address);
}

/* PCIe mapping first, as the library does; then plain. */
void probe_dmabuf(struct probe *probe)
{
    const char *kind = "PCIe mapping";
    enum cuda_result result;
    int fd, supported = 0;

    PROBE_STEP(probe, "dmabuf", cuDeviceGetAttribute(&supported, CUDA_DEVICE_DMABUF_SUPPORTED, 0));
    if (!supported || !probe->cuda.cuMemGetHandleForAddressRange) {
        probe_say("dmabuf", "absent",
                  "the driver exports none (open kernel modules and Linux 5.12 are needed)");
        return;
    }
    result = probe->cuda.cuMemGetHandleForAddressRange(&fd, probe->device, SHARED,
                                                       CUDA_RANGE_DMABUF_FD, CUDA_DMABUF_PCIE);
    if (result != CUDA_OK) {
        kind = "plain";
        PROBE_STEP(
            probe, "dmabuf",
            cuMemGetHandleForAddressRange(&fd, probe->device, SHARED, CUDA_RANGE_DMABUF_FD, 0));
    }
    probe_say("dmabuf", "pass", "%ld bytes, %s", (long)lseek(fd, 0, SEEK_END), kind);
    close(fd);
}

void probe_flush(struct probe *probe)
{
    int ordering, options;

    PROBE_STEP(probe, "RDMA flush",
               cuDeviceGetAttribute(&ordering, CUDA_DEVICE_RDMA_WRITES_ORDERING, 0));
    PROBE_STEP(probe, "RDMA flush",
               cuDeviceGetAttribute(&options, CUDA_DEVICE_RDMA_FLUSH_OPTIONS, 0));
    if (!(options & CUDA_FLUSH_OPTION_HOST) || !probe->cuda.cuFlushGPUDirectRDMAWrites) {
        probe_say("RDMA flush", "absent", "no flush from the host, ordering %d", ordering);
        return;
    }
    PROBE_STEP(probe, "RDMA flush",
               cuFlushGPUDirectRDMAWrites(CUDA_FLUSH_CURRENT_CONTEXT, CUDA_FLUSH_TO_OWNER));
    probe_say("RDMA flush", "pass", "ordering %d%s", ordering,
              ordering >= CUDA_WRITES_ORDERING_OWNER ? ": no flush is needed" : "");
}

/* ---- the other process ---- */

static bool guest_map(struct probe *probe, const char *what, int line, cuda_pointer *address)
{
    struct cuda_ipc_memory handle;
    cuda_memory memory;
    int fd;

    if (strcmp(what, "ipc") == 0)
        return recv(line, &handle, sizeof(handle), MSG_WAITALL) == sizeof(handle) &&
               probe->cuda.cuIpcOpenMemHandle(address, handle, CUDA_IPC_LAZY_PEER_ACCESS) ==
                   CUDA_OK;
    fd = fd_receive(line);
    return fd >= 0 &&
           probe->cuda.cuMemImportFromShareableHandle(&memory, (void *)(intptr_t)fd,
                                                      CUDA_HANDLE_POSIX_FD) == CUDA_OK &&
           close(fd) == 0 && probe->cuda.cuMemAddressReserve(address, SHARED, 0, 0, 0) == CUDA_OK &&
           probe->cuda.cuMemMap(*address, SHARED, 0, memory, 0) == CUDA_OK &&
           probe->cuda.cuMemRelease(memory) == CUDA_OK &&
           probe->cuda.cuMemSetAccess(*address, SHARED, &access_all, 1) == CUDA_OK;
}

static bool guest_unmap(struct probe *probe, const char *what, cuda_pointer address)
{
    if (strcmp(what, "ipc") == 0)
        return probe->cuda.cuIpcCloseMemHandle(address) == CUDA_OK;
    return probe->cuda.cuMemUnmap(address, SHARED) == CUDA_OK &&
           probe->cuda.cuMemAddressFree(address, SHARED) == CUDA_OK;
}

static bool guest_check(struct probe *probe, cuda_pointer address, unsigned char *bytes)
{
    const unsigned char mark = 0x5a;

    return probe->cuda.cuMemcpyDtoH(bytes, address, SHARED) == CUDA_OK &&
           probe_is_filled(bytes, SHARED, 11) &&
           probe->cuda.cuMemcpyHtoD(address + SHARED - 1, &mark, 1) == CUDA_OK;
}

int probe_guest(struct probe *probe, const char *what, int line)
{
    static unsigned char bytes[SHARED];
    cuda_pointer address;
    bool well;

    if (probe->cuda.cuDevicePrimaryCtxRetain(&probe->context, 0) != CUDA_OK ||
        probe->cuda.cuCtxSetCurrent(probe->context) != CUDA_OK)
        return 1;
    well = guest_map(probe, what, line, &address) && guest_check(probe, address, bytes) &&
           guest_unmap(probe, what, address);
    probe->cuda.cuCtxSetCurrent(NULL);
    well = probe->cuda.cuDevicePrimaryCtxRelease(0) == CUDA_OK && well;
    return send(line, well ? "y" : "n", 1, MSG_NOSIGNAL) == 1 && well ? 0 : 1;
}
