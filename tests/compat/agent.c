#include "tests/compat/agent.h"

#include <stdlib.h>
#include <string.h>

#include "tests/harness/wait.h"

#define TASKS_MAX 64
#define LONG_MS   (4 * WAIT_MS) /* 64 MiB under a sanitizer, too */

void agent_begin(struct agent *agent, const struct daemon *daemon, size_t size)
{
    memset(agent, 0, sizeof(*agent));
    if (daemon != NULL)
        setenv("TESUP_SOCKET", daemon->socket, 1);
    agent->engine = createTransferEngine("P2PHANDSHAKE", "127.0.0.1", "", 0, 1);
    assert_non_null(agent->engine);
    assert_int_equal(getLocalIpAndPort(agent->engine, agent->name, sizeof(agent->name)), 0);
    agent->size = size;
    if (size == 0)
        return;
    agent->bytes = malloc(size);
    assert_non_null(agent->bytes);
    memset(agent->bytes, 0, size);
    assert_int_equal(registerLocalMemory(agent->engine, agent->bytes, size, "*", 1), 0);
}

void agent_end(struct agent *agent)
{
    if (agent->bytes != NULL)
        assert_int_equal(unregisterLocalMemory(agent->engine, agent->bytes), 0);
    destroyTransferEngine(agent->engine);
    freeNotifsMsgBuf(agent->notes, agent->note_count);
    free(agent->bytes);
    memset(agent, 0, sizeof(*agent));
}

int agent_open(const struct agent *agent, const char *name)
{
    int target = openSegment(agent->engine, name);

    assert_true(target >= 0);
    return target;
}

batch_id_t agent_submit(const struct agent *agent, int opcode, int target, uint64_t address,
                        uint64_t length, size_t count, const char *msg)
{
    struct transfer_request entries[TASKS_MAX];
    notify_msg_t note = {.name = (char *)agent->name, .msg = (char *)msg};
    batch_id_t batch = allocateBatchID(agent->engine, 1024);
    uint64_t part = length / count;

    assert_true(count <= TASKS_MAX);
    assert_true(batch != INVALID_BATCH);
    for (size_t i = 0; i < count; i++)
        entries[i] = (struct transfer_request){.opcode = opcode,
                                               .source = agent->bytes + i * part,
                                               .target_id = target,
                                               .target_offset = address + i * part,
                                               .length = part};
    assert_int_equal(msg != NULL
                         ? submitTransferWithNotify(agent->engine, batch, entries, count, note)
                         : submitTransfer(agent->engine, batch, entries, count),
                     0);
    return batch;
}

int agent_finish(const struct agent *agent, batch_id_t batch, size_t count, uint64_t length)
{
    struct wait wait = wait_begin("the end of a transfer", LONG_MS);
    int worst = STATUS_COMPLETED;
    uint64_t bytes = 0;

    for (size_t i = 0; i < count; i++) {
        struct transfer_status status = {.status = STATUS_INVALID};

        for (;;) {
            assert_int_equal(getTransferStatus(agent->engine, batch, i, &status), 0);
            if (status.status != STATUS_WAITING && status.status != STATUS_PENDING)
                break;
            wait_step(&wait);
        }
        if (status.status != STATUS_COMPLETED)
            worst = status.status;
        bytes += status.transferred_bytes;
    }
    if (worst == STATUS_COMPLETED)
        assert_int_equal(bytes, length);
    return worst;
}

int agent_do(const struct agent *agent, int opcode, int target, uint64_t address, uint64_t length,
             size_t count, const char *msg)
{
    batch_id_t batch = agent_submit(agent, opcode, target, address, length, count, msg);
    int status = agent_finish(agent, batch, count, length);

    assert_int_equal(freeBatchID(agent->engine, batch), 0);
    return status;
}

static void notes_take(struct agent *agent)
{
    assert_int_equal(freeNotifsMsgBuf(agent->notes, agent->note_count), 0);
    agent->note_next = 0;
    agent->notes = getNotifsFromEngine(agent->engine, &agent->note_count);
    assert_int_equal(agent->notes != NULL, agent->note_count > 0);
}

void agent_expect_note(struct agent *agent, const char *name, const char *msg)
{
    struct wait wait = wait_begin("a notification", LONG_MS);

    while (agent->note_next == agent->note_count) {
        notes_take(agent);
        if (agent->notes == NULL)
            wait_step(&wait);
    }
    assert_string_equal(agent->notes[agent->note_next].name, name);
    assert_string_equal(agent->notes[agent->note_next].msg, msg);
    agent->note_next++;
}

void agent_expect_silence(struct agent *agent)
{
    assert_int_equal(agent->note_next, agent->note_count);
    notes_take(agent);
    assert_null(agent->notes);
}
