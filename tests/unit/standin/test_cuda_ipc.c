/* Memory and events of one process in another: by IPC handle and by descriptor. */
#include "tests/unit/standin/cuda_fixture.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/standin/dmabuf.h"

#define SIZE        (5UL << 20)
#define GRANULARITY (2UL << 20)

static void talk(int line, const void *bytes, size_t size)
{
    EXPECT(write(line, bytes, size) == (ssize_t)size);
}

static void listen_to(int line, void *bytes, size_t size)
{
    struct pollfd ready = {.fd = line, .events = POLLIN};

    EXPECT(poll(&ready, 1, WAIT_MS) == 1);
    EXPECT(read(line, bytes, size) == (ssize_t)size);
}

/* Both sides begin without the driver: a process that has it cannot fork. */
static int pair_run(void (*owner)(int line), void (*guest)(int line))
{
    int lines[2], status;
    pid_t pid;

    EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, lines) == 0);
    pid = fork();
    if (pid == 0) {
        close(lines[0]);
        guest(lines[1]);
        exit(0);
    }
    close(lines[1]);
    owner(lines[0]);
    close(lines[0]);
    EXPECT(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- IPC handles ---- */

static void memory_is_lent(int line)
{
    struct cuda_ipc_memory handle;
    struct cuda_ipc_event event_handle;
    struct cuda_event *event;
    unsigned char byte;
    cuda_pointer device;

    cuda_begin();
    OK(cuda.cuMemAlloc(&device, SIZE));
    OK(cuda.cuEventCreate(&event, CUDA_EVENT_DISABLE_TIMING | CUDA_EVENT_INTERPROCESS));
    OK(cuda.cuIpcGetMemHandle(&handle, device));
    OK(cuda.cuIpcGetEventHandle(&event_handle, event));
    EXPECT(cuda.cuIpcOpenMemHandle(&device, handle, CUDA_IPC_LAZY_PEER_ACCESS) ==
           CUDA_INVALID_CONTEXT); /* one's own */
    OK(cuda.cuMemsetD8Async(device, 0x77, SIZE, NULL));
    OK(cuda.cuEventRecord(event, NULL));
    talk(line, &handle, sizeof(handle));
    talk(line, &event_handle, sizeof(event_handle));
    listen_to(line, &byte, 1);
    OK(cuda.cuMemcpyDtoH(&byte, device + SIZE - 1, 1));
    EXPECT(byte == 0x33);
    OK(cuda.cuMemFree(device));
    OK(cuda.cuEventDestroy(event));
    talk(line, "", 1);
    listen_to(line, &byte, 1);
    cuda_end();
}

static void memory_is_borrowed(int line)
{
    struct cuda_ipc_memory handle, forged;
    struct cuda_ipc_event event_handle;
    struct cuda_event *event;
    struct cuda_stream *stream;
    cuda_pointer mine, again;
    unsigned char byte = 0x33;

    listen_to(line, &handle, sizeof(handle));
    listen_to(line, &event_handle, sizeof(event_handle));
    cuda_begin();
    OK(cuda.cuIpcOpenMemHandle(&mine, handle, CUDA_IPC_LAZY_PEER_ACCESS));
    OK(cuda.cuIpcOpenMemHandle(&again, handle, CUDA_IPC_LAZY_PEER_ACCESS));
    EXPECT(mine == again);
    OK(cuda.cuIpcOpenEventHandle(&event, event_handle));
    OK(cuda.cuStreamCreate(&stream, CUDA_STREAM_NON_BLOCKING));
    OK(cuda.cuStreamWaitEvent(stream, event, 0));
    OK(cuda.cuStreamSynchronize(stream));
    OK(cuda.cuMemcpyDtoH(&byte, mine, 1));
    EXPECT(byte == 0x77);
    byte = 0x33;
    OK(cuda.cuMemcpyHtoD(mine + SIZE - 1, &byte, 1));
    OK(cuda.cuIpcCloseMemHandle(mine));
    OK(cuda.cuIpcCloseMemHandle(mine));
    OK(cuda.cuEventDestroy(event));
    OK(cuda.cuStreamDestroy(stream));
    for (size_t i = 0; i < 24; i += 3) { /* what kind, which process, which number */
        forged = handle;
        forged.reserved[i] ^= 0x40;
        EXPECT(cuda.cuIpcOpenMemHandle(&mine, forged, CUDA_IPC_LAZY_PEER_ACCESS) != CUDA_OK);
    }
    talk(line, "", 1);
    listen_to(line, &byte, 1);
    EXPECT(cuda.cuIpcOpenMemHandle(&mine, handle, CUDA_IPC_LAZY_PEER_ACCESS) ==
           CUDA_INVALID_HANDLE); /* freed */
    talk(line, "", 1);
    cuda_end();
}

static void pair_lends(void *unused)
{
    (void)unused;
    EXPECT(pair_run(memory_is_lent, memory_is_borrowed) == 0);
}

static void memory_and_events_are_opened_by_another_process(void **state)
{
    (void)state;
    assert_int_equal(standin_child(pair_lends, NULL, NULL), 0);
}

static void freed_too_early(int line)
{
    struct cuda_ipc_memory handle;
    cuda_pointer device;
    char byte;

    cuda_begin();
    OK(cuda.cuMemAlloc(&device, SIZE));
    OK(cuda.cuIpcGetMemHandle(&handle, device));
    talk(line, &handle, sizeof(handle));
    listen_to(line, &byte, 1);
    OK(cuda.cuMemFree(device));
    cuda_end();
}

static void opened_and_killed(int line)
{
    struct cuda_ipc_memory handle;
    cuda_pointer mine;

    cuda_begin();
    listen_to(line, &handle, sizeof(handle));
    OK(cuda.cuIpcOpenMemHandle(&mine, handle, CUDA_IPC_LAZY_PEER_ACCESS));
    talk(line, "", 1);
    listen_to(line, &handle, 1); /* until the other side is gone */
}

static void pair_frees_early(void *unused)
{
    (void)unused;
    pair_run(freed_too_early, opened_and_killed);
}

/* Undefined by the driver's documentation: the stand-in says no, unless it is told to let it be. */
static void memory_that_is_open_elsewhere_is_not_freed(void **state)
{
    (void)state;
    assert_int_equal(standin_child(pair_frees_early, NULL, NULL), ABORTED);
    assert_int_equal(standin_child(pair_frees_early, NULL,
                                   (const char *const[]){"STANDIN_CUDA_FREE_EXPORTED=allow", NULL}),
                     0);
}

static void owner_dies(int line)
{
    struct cuda_ipc_memory handle;
    cuda_pointer device;
    char byte;

    cuda_begin();
    OK(cuda.cuMemAlloc(&device, SIZE));
    OK(cuda.cuMemsetD8Async(device, 0x11, SIZE, NULL));
    OK(cuda.cuCtxSynchronize());
    OK(cuda.cuIpcGetMemHandle(&handle, device));
    talk(line, &handle, sizeof(handle));
    listen_to(line, &byte, 1);
    _exit(0);
}

/* What was opened stays readable; what was not can no longer be opened. */
static void guest_lives_on(int line)
{
    struct cuda_ipc_memory handle;
    cuda_pointer mine;
    char byte;

    cuda_begin();
    listen_to(line, &handle, sizeof(handle));
    OK(cuda.cuIpcOpenMemHandle(&mine, handle, CUDA_IPC_LAZY_PEER_ACCESS));
    talk(line, "", 1);
    EXPECT(read(line, &byte, 1) == 0);
    OK(cuda.cuMemcpyDtoH(&byte, mine, 1));
    EXPECT(byte == 0x11);
    OK(cuda.cuIpcCloseMemHandle(mine));
    EXPECT(cuda.cuIpcOpenMemHandle(&mine, handle, CUDA_IPC_LAZY_PEER_ACCESS) ==
           CUDA_INVALID_HANDLE);
    cuda_end();
}

static void pair_owner_dies(void *unused)
{
    (void)unused;
    EXPECT(pair_run(guest_lives_on, owner_dies) == 0);
}

static void a_handle_dies_with_its_process(void **state)
{
    (void)state;
    assert_int_equal(standin_child(pair_owner_dies, NULL, NULL), 0);
}

static void guest_sees_no_such_device(int line)
{
    struct cuda_ipc_memory handle;
    cuda_pointer mine;

    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    cuda_begin();
    listen_to(line, &handle, sizeof(handle));
    EXPECT(cuda.cuIpcOpenMemHandle(&mine, handle, CUDA_IPC_LAZY_PEER_ACCESS) ==
           CUDA_INVALID_DEVICE);
    talk(line, "", 1);
    cuda_end();
}

static void pair_other_device(void *unused)
{
    (void)unused;
    EXPECT(pair_run(freed_too_early, guest_sees_no_such_device) == 0);
}

static void memory_of_an_invisible_device_is_refused(void **state)
{
    (void)state;
    assert_int_equal(standin_child(pair_other_device, NULL, NULL), 0);
}

/* ---- VMM ---- */

static void descriptor_send(int line, int fd)
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
    EXPECT(sendmsg(line, &message, 0) == 1);
}

static int descriptor_receive(int line)
{
    char control[CMSG_SPACE(sizeof(int))], byte;
    struct iovec bytes = {&byte, 1};
    struct msghdr message = {.msg_iov = &bytes,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    int fd;

    EXPECT(recvmsg(line, &message, MSG_CMSG_CLOEXEC) == 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    return fd;
}

static const struct cuda_access_description access_all = {
    .location = {.type = CUDA_LOCATION_DEVICE},
    .flags = CUDA_ACCESS_READ_WRITE,
};

static void pieces_are_lent(int line)
{
    struct cuda_allocation properties = {
        .type = CUDA_ALLOCATION_PINNED,
        .requestedHandleTypes = CUDA_HANDLE_POSIX_FD,
        .location = {.type = CUDA_LOCATION_DEVICE},
    };
    cuda_memory pieces[2], held;
    cuda_pointer device, base;
    struct standin_dmabuf dmabuf;
    unsigned char bytes[100];
    size_t size;
    int fd;

    cuda_begin();
    OK(cuda.cuMemAddressReserve(&device, 2 * GRANULARITY, 0, 0, 0));
    for (unsigned int i = 0; i < 2; i++) {
        OK(cuda.cuMemCreate(&pieces[i], GRANULARITY, &properties, 0));
        OK(cuda.cuMemMap(device + i * GRANULARITY, GRANULARITY, 0, pieces[i], 0));
    }
    OK(cuda.cuMemSetAccess(device, 2 * GRANULARITY, &access_all, 1));
    /* One range of two pieces: across the border, and as one dmabuf. */
    OK(cuda.cuMemsetD8Async(device + GRANULARITY - 50, 0x42, 100, NULL));
    OK(cuda.cuMemcpyDtoH(bytes, device + GRANULARITY - 50, 100));
    EXPECT(bytes[0] == 0x42 && bytes[99] == 0x42);
    OK(cuda.cuMemGetAddressRange(&base, &size, device + GRANULARITY));
    EXPECT(base == device + GRANULARITY && size == GRANULARITY);
    OK(cuda.cuPointerGetAttribute(&size, CUDA_POINTER_RANGE_SIZE, device + 1));
    EXPECT(size == 2 * GRANULARITY);
    OK(cuda.cuMemGetHandleForAddressRange(&fd, device, 2 * GRANULARITY, CUDA_RANGE_DMABUF_FD, 0));
    EXPECT(pread(fd, &dmabuf, sizeof(dmabuf), 0) == sizeof(dmabuf) && dmabuf.pieces == 2);
    close(fd);
    OK(cuda.cuMemRetainAllocationHandle(&held, (void *)(uintptr_t)(device + GRANULARITY + 5)));
    EXPECT(held == pieces[1]);
    OK(cuda.cuMemExportToShareableHandle(&fd, held, CUDA_HANDLE_POSIX_FD, 0));
    OK(cuda.cuMemRelease(held));
    descriptor_send(line, fd);
    close(fd);
    listen_to(line, bytes, 1);
    OK(cuda.cuMemcpyDtoH(bytes, device + GRANULARITY, 1));
    EXPECT(bytes[0] == 0x24);
    OK(cuda.cuMemUnmap(device, 2 * GRANULARITY));
    OK(cuda.cuMemRelease(pieces[0]));
    OK(cuda.cuMemRelease(pieces[1]));
    OK(cuda.cuMemAddressFree(device, 2 * GRANULARITY));
    cuda_end();
}

static void pieces_are_borrowed(int line)
{
    cuda_memory imported;
    cuda_pointer mine;
    unsigned char byte = 0;
    int fd = descriptor_receive(line), other = memfd_create("no-gpu", MFD_CLOEXEC);

    cuda_begin();
    EXPECT(cuda.cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)other,
                                               CUDA_HANDLE_POSIX_FD) == CUDA_INVALID_VALUE);
    EXPECT(ftruncate(other, 1 << 20) == 0);
    EXPECT(cuda.cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)other,
                                               CUDA_HANDLE_POSIX_FD) == CUDA_INVALID_VALUE);
    close(other);
    OK(cuda.cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd, CUDA_HANDLE_POSIX_FD));
    close(fd);
    OK(cuda.cuMemAddressReserve(&mine, GRANULARITY, 0, 0, 0));
    OK(cuda.cuMemMap(mine, GRANULARITY, 0, imported, 0));
    OK(cuda.cuMemRelease(imported)); /* the mapping keeps it */
    OK(cuda.cuMemSetAccess(mine, GRANULARITY, &access_all, 1));
    OK(cuda.cuMemcpyDtoH(&byte, mine, 1));
    EXPECT(byte == 0x42);
    byte = 0x24;
    OK(cuda.cuMemcpyHtoD(mine, &byte, 1));
    OK(cuda.cuMemUnmap(mine, GRANULARITY));
    OK(cuda.cuMemAddressFree(mine, GRANULARITY));
    talk(line, "", 1);
    cuda_end();
}

static void pair_lends_pieces(void *unused)
{
    (void)unused;
    EXPECT(pair_run(pieces_are_lent, pieces_are_borrowed) == 0);
}

static void pieces_are_imported_by_another_process(void **state)
{
    (void)state;
    assert_int_equal(standin_child(pair_lends_pieces, NULL, NULL), 0);
}

/* ---- dmabuf ---- */

static void small_memory_as_dmabuf(void *pcie)
{
    cuda_pointer device, page;
    struct standin_dmabuf dmabuf;
    enum cuda_result result;
    int fd;

    cuda_begin();
    OK(cuda.cuMemAlloc(&device, 5000));
    EXPECT(device % 4096 != 0); /* as the driver's small ones */
    page = device & ~4095ULL;
    result =
        cuda.cuMemGetHandleForAddressRange(&fd, page, 8192, CUDA_RANGE_DMABUF_FD, CUDA_DMABUF_PCIE);
    EXPECT(result == (pcie ? CUDA_OK : CUDA_NOT_SUPPORTED));
    if (!pcie)
        OK(cuda.cuMemGetHandleForAddressRange(&fd, page, 8192, CUDA_RANGE_DMABUF_FD, 0));
    EXPECT(pread(fd, &dmabuf, sizeof(dmabuf), 0) == sizeof(dmabuf));
    EXPECT(dmabuf.address == page && dmabuf.size == 8192 && dmabuf.pcie == (pcie ? 1 : 0));
    EXPECT(lseek(fd, 0, SEEK_END) == 8192);
    close(fd);
    OK(cuda.cuMemFree(device));
    cuda_end();
}

static void a_dmabuf_is_of_whole_pages(void **state)
{
    int yes = 1;

    (void)state;
    assert_int_equal(standin_child(small_memory_as_dmabuf, NULL, NULL), 0);
    assert_int_equal(standin_child(small_memory_as_dmabuf, &yes,
                                   (const char *const[]){"STANDIN_CUDA_DMABUF=pcie", NULL}),
                     0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_and_events_are_opened_by_another_process),
        cmocka_unit_test(memory_that_is_open_elsewhere_is_not_freed),
        cmocka_unit_test(a_handle_dies_with_its_process),
        cmocka_unit_test(memory_of_an_invisible_device_is_refused),
        cmocka_unit_test(pieces_are_imported_by_another_process),
        cmocka_unit_test(a_dmabuf_is_of_whole_pages),
    };

    (void)argc;
    standin_use(argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
