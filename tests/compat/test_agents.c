/* Two processes as NIXL makes them, over each fabric: READ and WRITE, small and large, one request
 * and 64, both ways, to themselves, with notifications, all bytes compared. */
#include "tests/compat/agent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/atomics.h"
#include "tests/harness/job.h"
#include "tests/harness/party.h"
#include "tests/harness/site.h"
#include "tests/harness/wait.h"

#define JOB_MS  120000u
#define BATCHES 2

static const size_t batches[BATCHES] = {1, 64};

struct meeting { /* what NIXL's agents send each other over a way of their own */
    const struct site *site;
    uint64_t largest;
    _Atomic uint64_t ready[2], done;
    char name[2][AGENT_NAME];
    uint64_t address[2];
};

struct side {
    struct meeting *meeting;
    unsigned index;
};

struct talk { /* one process's view of a meeting */
    struct agent agent;
    struct meeting *meeting;
    unsigned index;
    int target;
    const char *peer;
    uint64_t there;
};

static void talk_begin(struct talk *talk, const struct side *side)
{
    struct meeting *meeting = side->meeting;
    unsigned other = 1 - side->index;

    talk->meeting = meeting;
    talk->index = side->index;
    agent_begin(&talk->agent, side->index == 0 ? meeting->site->left : meeting->site->right,
                meeting->largest);
    memcpy(meeting->name[side->index], talk->agent.name, AGENT_NAME);
    meeting->address[side->index] = (uint64_t)(uintptr_t)talk->agent.bytes;
    atomic_publish(&meeting->ready[side->index], 1); /* pairs with wait_word of the other */
    wait_word(&meeting->ready[other], 1, "the other agent");
    talk->peer = meeting->name[other];
    talk->there = meeting->address[other];
    talk->target = agent_open(&talk->agent, talk->peer);
    assert_int_equal(agent_open(&talk->agent, talk->peer), talk->target);
}

static void step_name(char text[64], int opcode, uint64_t length, size_t count)
{
    snprintf(text, 64, "%s %llu %zu", opcode == OPCODE_READ ? "READ" : "WRITE",
             (unsigned long long)length, count);
}

/* The bytes of a step are those of its seed, whoever has them. */
static uint64_t step_seed(int opcode, uint64_t length, size_t count, unsigned from)
{
    return length * 8 + count * 2 + (uint64_t)opcode * 512 + from;
}

static void note_send(const struct talk *talk, char *msg)
{
    notify_msg_t note = {.name = (char *)talk->agent.name, .msg = msg};

    assert_int_equal(genNotifyInEngine(talk->agent.engine, (uint64_t)talk->target, note), 0);
}

static void step_initiate(struct talk *talk, int opcode, uint64_t length, size_t count)
{
    struct agent *agent = &talk->agent;
    uint64_t seed = step_seed(opcode, length, count, talk->index);
    char msg[64];

    step_name(msg, opcode, length, count);
    agent_expect_note(agent, talk->peer, "go");
    if (opcode == OPCODE_WRITE)
        party_fill(agent->bytes, length, seed);
    else
        memset(agent->bytes, 0, length);
    assert_int_equal(agent_do(agent, opcode, talk->target, talk->there, length, count, msg),
                     STATUS_COMPLETED);
    if (opcode == OPCODE_READ)
        party_verify(agent->bytes, length, seed, msg);
}

/* The notification is there: so are all bytes of the WRITE. */
static void step_serve(struct talk *talk, int opcode, uint64_t length, size_t count)
{
    struct agent *agent = &talk->agent;
    uint64_t seed = step_seed(opcode, length, count, 1 - talk->index);
    char msg[64];

    step_name(msg, opcode, length, count);
    if (opcode == OPCODE_READ)
        party_fill(agent->bytes, length, seed);
    else
        memset(agent->bytes, 0, length);
    note_send(talk, (char[]){"go"});
    agent_expect_note(agent, talk->peer, msg);
    if (opcode == OPCODE_WRITE)
        party_verify(agent->bytes, length, seed, msg);
}

static void steps_run(struct talk *talk, unsigned initiator)
{
    for (int opcode = OPCODE_READ; opcode <= OPCODE_WRITE; opcode++)
        for (uint64_t length = 4 * KIB; length <= talk->meeting->largest; length *= 16)
            for (unsigned i = 0; i < BATCHES; i++)
                (initiator == talk->index ? step_initiate : step_serve)(talk, opcode, length,
                                                                        batches[i]);
}

/* An agent that talks to itself is no special case. */
static void self_run(struct talk *talk)
{
    struct agent *agent = &talk->agent;
    int self[] = {LOCAL_SEGMENT, agent_open(agent, agent->name)};
    uint64_t half = agent->size / 2;
    char msg[] = "to myself";
    notify_msg_t note = {.name = msg, .msg = msg};

    for (unsigned i = 0; i < 2; i++) {
        party_fill(agent->bytes, half, i + 77);
        memset(agent->bytes + half, 0, half);
        assert_int_equal(agent_do(agent, OPCODE_WRITE, self[i],
                                  (uint64_t)(uintptr_t)agent->bytes + half, half, 4, msg),
                         STATUS_COMPLETED);
        agent_expect_note(agent, agent->name, msg);
        party_verify(agent->bytes + half, half, i + 77, "to itself");
        assert_int_equal(genNotifyInEngine(agent->engine, (uint64_t)self[i], note), 0);
        agent_expect_note(agent, msg, msg);
    }
}

static void agent_run(void *argument)
{
    const struct side *side = argument;
    struct talk talk;

    talk_begin(&talk, side);
    steps_run(&talk, 0);
    steps_run(&talk, 1);
    self_run(&talk);
    agent_expect_silence(&talk.agent);
    atomic_fetch_add(&talk.meeting->done, 1);
    wait_word(&talk.meeting->done, 2, "the other agent's end");
    agent_end(&talk.agent);
}

static void meet(const struct site *site, uint64_t largest)
{
    struct meeting *meeting = job_board_create(sizeof(*meeting));
    struct side sides[2] = {{meeting, 0}, {meeting, 1}};
    struct job jobs[2];

    meeting->site = site;
    meeting->largest = largest;
    job_start(&jobs[0], "left agent", agent_run, &sides[0]);
    job_start(&jobs[1], "right agent", agent_run, &sides[1]);
    job_expect_success(&jobs[0], JOB_MS);
    job_expect_success(&jobs[1], JOB_MS);
    job_board_free(meeting, sizeof(*meeting));
}

/* What a sanitizer or an emulated machine does with 64 MiB takes minutes. */
static uint64_t largest(void)
{
    return TEST_SANITIZED || getenv("TESUP_TEST_FABRIC") != NULL ? MIB : 64 * MIB;
}

static void test_tcp(void **state)
{
    (void)state;
    meet(&sites[SITE_TCP], largest());
}

static void test_local(void **state)
{
    (void)state;
    meet(&sites[SITE_LOCAL], largest());
}

static void test_one_worker(void **state)
{
    (void)state;
    meet(&sites[SITE_WORKER], largest());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_tcp, job_test_teardown),
        cmocka_unit_test_teardown(test_local, job_test_teardown),
        cmocka_unit_test_teardown(test_one_worker, job_test_teardown),
    };

    return cmocka_run_group_tests_name("agents", tests, site_group_setup, site_group_teardown);
}
