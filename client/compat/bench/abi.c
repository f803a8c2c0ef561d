/* Blocks through libtransfer_engine.so, as its programs move them. */
#include <stdio.h>
#include <stdlib.h>
#include <transfer_engine_c.h>

#include "client/compat/bench/bench.h"

static transfer_engine_t engine;
static int target;

static int abi_begin(struct bench_side *side)
{
    char *name = side->board->name[BENCH_ABI];
    const char *socket = side->options->sockets[side->target];

    if (socket != NULL)
        setenv("TESUP_SOCKET", socket, 1);
    engine = createTransferEngine("P2PHANDSHAKE", side->options->host, "", 0, 1);
    if (engine == NULL || registerLocalMemory(engine, side->bytes, side->options->max, "*", 1) != 0)
        return bench_fail("the engine cannot be used");
    if (side->target)
        return getLocalIpAndPort(engine, name, BENCH_NAME_MAX);
    target = openSegment(engine, name);
    return target >= 0 ? 0 : bench_fail("%s cannot be opened", name);
}

static int abi_finish(batch_id_t batch)
{
    struct transfer_status status = {.status = STATUS_WAITING};
    struct bench_spin spin = {0};

    while (getTransferStatus(engine, batch, 0, &status) == 0 && status.status == STATUS_WAITING)
        if (!bench_spin(&spin))
            return bench_fail("a transfer does not end");
    if (status.status != STATUS_COMPLETED)
        return bench_fail("a transfer ended with status %d", status.status);
    return freeBatchID(engine, batch) == 0 ? 0 : bench_fail("a batch cannot be freed");
}

static int abi_move(struct bench_side *side, enum bench_op op, uint64_t length)
{
    static char name[] = "bench", msg[] = "a block";
    struct transfer_request entry = {
        .opcode = op == BENCH_READ ? OPCODE_READ : OPCODE_WRITE,
        .source = side->bytes,
        .target_id = target,
        .target_offset = side->board->address,
        .length = length,
    };
    batch_id_t batch = allocateBatchID(engine, 1);

    if (submitTransferWithNotify(engine, batch, &entry, 1, (notify_msg_t){name, msg}) != 0)
        return bench_fail("a transfer is refused");
    return abi_finish(batch);
}

static int abi_take(struct bench_side *side, uint64_t length)
{
    notify_msg_t *notes;
    int count;

    (void)side;
    (void)length;
    notes = getNotifsFromEngine(engine, &count);
    freeNotifsMsgBuf(notes, count);
    return count;
}

static void abi_end(void)
{
    if (engine != NULL)
        destroyTransferEngine(engine);
}

const struct bench_method bench_abi = {"libtransfer_engine", abi_begin, abi_move, abi_take,
                                       abi_end};
