#include "tests/harness/worker/stranger.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/harness/worker/host.h"

#define NOBODY 65534u

enum order_kind { ORDER_UNMAP = 1, ORDER_EXEC, ORDER_EXEC_RELATED, ORDER_LOOK, ORDER_LOSE };

struct order {
    uint64_t kind, offset, size;
};

/* Has the child's memory and descriptors of its own: `done` must end when the child execs. */
static int relative_live(void *done)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the child, whatever program it is then */
    close(*(int *)done);
    return pause();
}

static bool relative_start(int *done)
{
    static uint8_t stack[16384];

    return clone(relative_live, stack + sizeof(stack), CLONE_VM, done) > 0;
}

static bool lose(enum stranger_loss loss)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

    if (loss == STRANGER_UID)
        return setresuid(NOBODY, NOBODY, NOBODY) == 0;
    if (loss == STRANGER_NAMESPACE)
        return unshare(CLONE_NEWUSER) == 0;
    if (syscall(SYS_capget, &header, data) < 0)
        return false;
    data[0].effective = data[0].permitted &= ~(1u << CAP_SYS_PTRACE);
    return syscall(SYS_capset, &header, data) == 0;
}

/* The child's life: no heap, no stdio, it was forked out of a test. */
static void stranger_live(int orders, int done, uint8_t *memory)
{
    char name[] = "cat";
    char *const arguments[] = {name, NULL};
    struct order order;

    while (read(orders, &order, sizeof(order)) == (ssize_t)sizeof(order)) {
        uint8_t answer = 0;

        if (order.kind == ORDER_UNMAP)
            answer = munmap(memory + order.offset, order.size) == 0;
        else if (order.kind == ORDER_LOOK)
            answer = memory[order.offset];
        else if (order.kind == ORDER_LOSE)
            answer = lose((enum stranger_loss)order.offset);
        else if (order.kind == ORDER_EXEC_RELATED && !relative_start(&done))
            answer = 0;
        else if (dup2(orders, 0) == 0)
            execv("/bin/cat", arguments); /* `done` is close-on-exec: its end says that it ran */
        if (write(done, &answer, 1) != 1)
            break;
    }
    _exit(0);
}

void stranger_start(struct stranger *stranger, uint64_t size, uint8_t fill)
{
    int orders[2], done[2];
    uint8_t *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    host_require(memory != MAP_FAILED && pipe2(orders, O_CLOEXEC) == 0 &&
                     pipe2(done, O_CLOEXEC) == 0,
                 "memory and pipes for a child");
    memset(memory, fill, size);
    stranger->pid = fork();
    host_require(stranger->pid >= 0, "a child");
    if (stranger->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(orders[1]);
        stranger_live(orders[0], done[1], memory);
    }
    munmap(memory, size);
    close(orders[0]);
    close(done[1]);
    stranger->order = orders[1];
    stranger->done = done[0];
    stranger->base = (uintptr_t)memory;
}

static uint8_t stranger_order(struct stranger *stranger, const struct order *order)
{
    struct pollfd ready = {.fd = stranger->done, .events = POLLIN};
    uint8_t answer = 0;
    ssize_t got;

    host_require(write(stranger->order, order, sizeof(*order)) == (ssize_t)sizeof(*order),
                 "a child that listens");
    host_require(poll(&ready, 1, HOST_WAIT_MS) == 1, "a child that answers in time");
    got = read(stranger->done, &answer, 1);
    host_require(got == (order->kind == ORDER_EXEC || order->kind == ORDER_EXEC_RELATED ? 0 : 1),
                 "a child that obeys");
    return answer;
}

void stranger_unmap(struct stranger *stranger, uint64_t offset, uint64_t size)
{
    const struct order order = {.kind = ORDER_UNMAP, .offset = offset, .size = size};

    host_require(stranger_order(stranger, &order) == 1, "pages that can be unmapped");
}

uint8_t stranger_look(struct stranger *stranger, uint64_t offset)
{
    const struct order order = {.kind = ORDER_LOOK, .offset = offset};

    return stranger_order(stranger, &order);
}

void stranger_exec(struct stranger *stranger)
{
    const struct order order = {.kind = ORDER_EXEC};

    stranger_order(stranger, &order);
}

void stranger_exec_related(struct stranger *stranger)
{
    const struct order order = {.kind = ORDER_EXEC_RELATED};

    stranger_order(stranger, &order);
}

void stranger_lose(struct stranger *stranger, enum stranger_loss loss)
{
    const struct order order = {.kind = ORDER_LOSE, .offset = loss};

    host_require(stranger_order(stranger, &order) == 1, "rights that can be given up");
}

void stranger_end(struct stranger *stranger)
{
    close(stranger->order); /* the end of its input is the end of either program */
    close(stranger->done);
    if (stranger->pid > 0)
        host_require(waitpid(stranger->pid, NULL, 0) == stranger->pid, "a child that ends");
    stranger->pid = 0;
}
