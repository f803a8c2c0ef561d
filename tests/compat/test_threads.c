/* One engine and many threads: transfers, registrations, segments, notifications and questions all
 * at once; and an engine that is destroyed while others are inside. */
#include "tests/compat/agent.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/atomics.h"
#include "tests/harness/party.h"
#include "tests/harness/wait.h"

#define THREADS 6
#define ROUNDS  (TEST_SANITIZED ? 30 : 150)
#define PART    (64 * KIB)

static struct daemon host;
static struct agent left, right;
static int target;
static _Atomic uint64_t finished, stop;

struct worker {
    pthread_t thread;
    size_t index;
    unsigned failures;
};

/* Each moves its own part there and back, as a group with a notification. */
static void *mover_run(void *argument)
{
    struct worker *worker = argument;
    struct agent agent = left;
    uint8_t *there = right.bytes + worker->index * 2 * PART;
    char msg[64];

    agent.bytes = left.bytes + worker->index * 2 * PART;
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t seed = worker->index * 1000 + i;

        party_fill(agent.bytes, PART, seed);
        snprintf(msg, sizeof(msg), "%zu %u", worker->index, i);
        worker->failures += agent_do(&agent, OPCODE_WRITE, target, (uint64_t)(uintptr_t)there, PART,
                                     8, msg) != STATUS_COMPLETED;
        agent.bytes += PART;
        worker->failures += agent_do(&agent, OPCODE_READ, target, (uint64_t)(uintptr_t)there, PART,
                                     4, NULL) != STATUS_COMPLETED;
        worker->failures += memcmp(agent.bytes, agent.bytes - PART, PART) != 0;
        agent.bytes -= PART;
    }
    atomic_fetch_add(&finished, 1);
    return NULL;
}

/* Meanwhile the engine is asked for everything else. */
static void *other_run(void *argument)
{
    struct worker *worker = argument;
    static uint8_t memory[8192];
    char text[512];

    while (atomic_observe(&stop) == 0) { /* pairs with atomic_publish in test_many */
        worker->failures += registerLocalMemory(left.engine, memory, sizeof(memory), "*", 1) != 0;
        worker->failures += openSegmentNoCache(left.engine, right.name) != target;
        worker->failures += showLinks(left.engine, text, sizeof(text), 1) != 0;
        worker->failures += syncSegmentCache(right.engine) != 0;
        worker->failures += unregisterLocalMemory(left.engine, memory) != 0;
    }
    return NULL;
}

static unsigned notes_count(const struct agent *agent)
{
    int count;
    notify_msg_t *notes = getNotifsFromEngine(agent->engine, &count);

    freeNotifsMsgBuf(notes, count);
    return (unsigned)count;
}

static void test_many(void **state)
{
    struct wait wait = wait_begin("the movers' end", 8 * WAIT_MS);
    struct worker movers[THREADS] = {0}, other = {0};
    unsigned notes = 0;

    (void)state;
    for (size_t i = 0; i < THREADS; i++) {
        movers[i].index = i;
        assert_int_equal(pthread_create(&movers[i].thread, NULL, mover_run, &movers[i]), 0);
    }
    assert_int_equal(pthread_create(&other.thread, NULL, other_run, &other), 0);
    while (atomic_observe(&finished) < THREADS || notes < THREADS * ROUNDS) {
        unsigned more = notes_count(&right);

        notes += more;
        if (more == 0)
            wait_step(&wait);
    }
    atomic_publish(&stop, 1);
    pthread_join(other.thread, NULL);
    assert_int_equal(other.failures, 0);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(movers[i].thread, NULL);
        assert_int_equal(movers[i].failures, 0);
    }
    assert_int_equal(notes, THREADS * ROUNDS);
    agent_expect_silence(&right);
}

/* ---- destroyed under its users ---- */

static void *user_run(void *argument)
{
    struct worker *worker = argument;
    struct transfer_request entry = {OPCODE_WRITE, left.bytes, LOCAL_SEGMENT,
                                     (uint64_t)(uintptr_t)left.bytes + PART, PART};
    struct transfer_status status;
    notify_msg_t note = {.name = (char[]){"n"}, .msg = (char[]){"m"}};
    batch_id_t batch;

    while ((batch = allocateBatchID(left.engine, 1)) != INVALID_BATCH) {
        if (submitTransferWithNotify(left.engine, batch, &entry, 1, note) == 0)
            atomic_fetch_add(&finished, 1);
        while (getTransferStatus(left.engine, batch, 0, &status) == 0 &&
               status.status == STATUS_WAITING)
            ;
        freeBatchID(left.engine, batch);
        notes_count(&left);
    }
    worker->failures = getTransferStatus(left.engine, batch, 0, &status) == 0;
    return NULL;
}

static void test_destroyed(void **state)
{
    struct worker users[THREADS] = {0};

    (void)state;
    for (unsigned round = 0; round < 5; round++) {
        struct wait wait = wait_begin("the threads' transfers", WAIT_MS);

        atomic_set(&finished, 0);
        for (size_t i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&users[i].thread, NULL, user_run, &users[i]), 0);
        while (atomic_observe(&finished) < 20)
            wait_step(&wait);
        destroyTransferEngine(left.engine);
        for (size_t i = 0; i < THREADS; i++) {
            pthread_join(users[i].thread, NULL);
            assert_int_equal(users[i].failures, 0);
        }
        free(left.bytes);
        agent_begin(&left, &host, THREADS * 2 * PART);
    }
}

static int group_setup(void **state)
{
    if (daemon_group_setup(state) != 0)
        return -1;
    setenv("MC_LOG_LEVEL", "FATAL", 1); /* refusals are what is asked for */
    daemon_start(&host, "host", "");
    agent_begin(&left, &host, THREADS * 2 * PART);
    agent_begin(&right, &host, THREADS * 2 * PART);
    target = agent_open(&left, right.name);
    return 0;
}

static int group_teardown(void **state)
{
    agent_end(&left);
    agent_end(&right);
    daemon_stop(&host);
    return daemon_group_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_destroyed),
    };

    return cmocka_run_group_tests_name("threads", tests, group_setup, group_teardown);
}
