#include "tests/harness/worker/stranger.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/harness/worker/host.h"

enum order_kind { ORDER_UNMAP = 1, ORDER_EXEC, ORDER_LOOK };

struct order {
    uint64_t kind, offset, size;
};

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
        else if (order.kind == ORDER_EXEC && dup2(orders, 0) == 0)
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
    host_require(got == (order->kind == ORDER_EXEC ? 0 : 1), "a child that obeys");
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

void stranger_end(struct stranger *stranger)
{
    close(stranger->order); /* the end of its input is the end of either program */
    close(stranger->done);
    if (stranger->pid > 0)
        host_require(waitpid(stranger->pid, NULL, 0) == stranger->pid, "a child that ends");
    stranger->pid = 0;
}
