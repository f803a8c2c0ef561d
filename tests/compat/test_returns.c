/* Each refusal: its number by its convention, and its sentence on stderr. */
#include "tests/compat/agent.h"
#include "tests/compat/stderr_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/harness/daemon.h"
#include "tests/harness/job.h"
#include "tests/harness/wait.h"

#define PLACES 4096

static struct daemon host;
static struct agent agent, other;
static batch_id_t batch; /* of two tasks */
static int target;

struct refusal {
    const char *label;
    long (*call)(transfer_engine_t engine);
    long result;
    const char *sentence;
};

static void refusal_check(const struct refusal *refusal, transfer_engine_t engine,
                          const char *sentence)
{
    struct stderr_catch caught;
    long result;

    stderr_catch_begin(&caught);
    result = refusal->call(engine);
    stderr_catch_end(&caught);
    if (result != refusal->result)
        fail_msg("%s: %ld instead of %ld; %s", refusal->label, result, refusal->result,
                 caught.text);
    if (sentence[0] != '\0' && strstr(caught.text, sentence) == NULL)
        fail_msg("%s: no '%s' in '%s'", refusal->label, sentence, caught.text);
}

/* ---- engines that are none ---- */

static notify_msg_t a_note(void)
{
    static char name[] = "name", msg[] = "msg";

    return (notify_msg_t){.name = name, .msg = msg};
}

#define CALL(name, expression)                 \
    static long name(transfer_engine_t engine) \
    {                                          \
        return (long)(expression);             \
    }

static char text[PLACES];
static struct transfer_request entry;
static struct transfer_status status;
static buffer_entry_t buffers[2];
static void *addresses[2];
static nic_load_stat_t loads[2];
static size_t load_count;
static int note_count;

CALL(discover, discoverTopology(engine))
CALL(label, getLocalIpAndPort(engine, text, sizeof(text)))
CALL(install, (intptr_t)installTransport(engine, "tcp", NULL))
CALL(uninstall, uninstallTransport(engine, "tcp"))
CALL(open_self, openSegment(engine, "127.0.0.1:1"))
CALL(open_fresh, openSegmentNoCache(engine, "127.0.0.1:1"))
CALL(close_one, closeSegment(engine, 0))
CALL(remove_one, removeLocalSegment(engine, "127.0.0.1:1"))
CALL(warm, warmupEfaSegment(engine, "127.0.0.1:1"))
CALL(sync_all, syncSegmentCache(engine))
CALL(add_memory, registerLocalMemory(engine, text, sizeof(text), "*", 1))
CALL(drop_memory, unregisterLocalMemory(engine, text))
CALL(add_list, registerLocalMemoryBatch(engine, buffers, 0, "*"))
CALL(drop_list, unregisterLocalMemoryBatch(engine, addresses, 0))
CALL(allocate, allocateBatchID(engine, 1) == INVALID_BATCH)
CALL(submit, submitTransfer(engine, batch, &entry, 0))
CALL(submit_note, submitTransferWithNotify(engine, batch, &entry, 0, a_note()))
CALL(ask_status, getTransferStatus(engine, batch, 0, &status))
CALL(free_batch, freeBatchID(engine, batch))
CALL(take_notes, (intptr_t)getNotifsFromEngine(engine, &note_count))
CALL(send_note, genNotifyInEngine(engine, 0, a_note()))
CALL(load, getNicLoadStats(engine, loads, &load_count))
CALL(links, showLinks(engine, text, sizeof(text), 0))

/* Of all functions that take an engine and return something: for NULL, and for a destroyed one. */
static const struct refusal without_engine[] = {
    {"discoverTopology", discover, -1, ""},
    {"getLocalIpAndPort", label, -1, ""},
    {"installTransport", install, 0, ""},
    {"uninstallTransport", uninstall, -1, ""},
    {"openSegment", open_self, -1, ""},
    {"openSegmentNoCache", open_fresh, -1, ""},
    {"closeSegment", close_one, -1, ""},
    {"removeLocalSegment", remove_one, -1, ""},
    {"warmupEfaSegment", warm, -1, ""},
    {"syncSegmentCache", sync_all, -1, ""},
    {"registerLocalMemory", add_memory, -1, ""},
    {"unregisterLocalMemory", drop_memory, -1, ""},
    {"registerLocalMemoryBatch", add_list, -1, ""},
    {"unregisterLocalMemoryBatch", drop_list, -1, ""},
    {"allocateBatchID", allocate, 1, ""},
    {"submitTransfer", submit, 1, ""},
    {"submitTransferWithNotify", submit_note, 1, ""},
    {"getTransferStatus", ask_status, 1, ""},
    {"freeBatchID", free_batch, 1, ""},
    {"getNotifsFromEngine", take_notes, 0, ""},
    {"genNotifyInEngine", send_note, -1, ""},
    {"getNicLoadStats", load, 1, ""},
    {"showLinks", links, -1, ""},
};
#define WITHOUT_ENGINE (sizeof(without_engine) / sizeof(without_engine[0]))

static void test_null_engine(void **state)
{
    (void)state;
    for (size_t i = 0; i < WITHOUT_ENGINE; i++)
        refusal_check(&without_engine[i], NULL, "the engine is NULL");
    destroyTransferEngine(NULL);
    enableGracefulShutdown(NULL);
    assert_int_equal(freeNotifsMsgBuf(NULL, 0), 0);
}

static void test_destroyed_engine(void **state)
{
    struct agent gone;
    transfer_engine_t engine;

    (void)state;
    agent_begin(&gone, &host, 0);
    engine = gone.engine;
    agent_end(&gone);
    for (size_t i = 0; i < WITHOUT_ENGINE; i++)
        refusal_check(&without_engine[i], engine, "or was destroyed");
    destroyTransferEngine(engine);
    enableGracefulShutdown(engine);
    for (size_t i = 0; i < WITHOUT_ENGINE; i++)
        refusal_check(&without_engine[i], text, ""); /* an address of this program */
}

/* The number that says why is another one in a child: 202, or -202. */
static void forked_run(void *argument)
{
    (void)argument;
    for (size_t i = 0; i < WITHOUT_ENGINE; i++) {
        struct refusal refusal = without_engine[i];

        if (refusal.call != allocate && refusal.call != install && refusal.call != take_notes &&
            refusal.call != open_self && refusal.call != open_fresh && refusal.call != warm)
            refusal.result *= TRANSFER_ENGINE_CONTEXT;
        refusal_check(&refusal, agent.engine, "forked");
    }
    destroyTransferEngine(agent.engine);
    agent_begin(&(struct agent){0}, &host, 4096); /* one of our own works */
}

static void test_forked_engine(void **state)
{
    struct job job;

    (void)state;
    job_start(&job, "child", forked_run, NULL);
    job_expect_success(&job, WAIT_MS);
    assert_int_equal(label(agent.engine), 0); /* the parent's is untouched */
    agent_open(&agent, agent.name);
}

/* ---- one refusal after the other ---- */

static struct transfer_request an_entry(int opcode, void *source, uint64_t offset, uint64_t length)
{
    return (struct transfer_request){.opcode = opcode,
                                     .source = source,
                                     .target_id = target,
                                     .target_offset = offset,
                                     .length = length};
}

static long submit_entry(transfer_engine_t engine, struct transfer_request one)
{
    return submitTransfer(engine, batch, &one, 1);
}

static struct transfer_request other_target(void)
{
    struct transfer_request one = an_entry(OPCODE_READ, agent.bytes, 0, 0);

    one.target_id = 12345;
    return one;
}

static long long_name(transfer_engine_t engine)
{
    char *name = malloc(64 * KIB + 1);
    long result;

    memset(name, 'a', 64 * KIB);
    name[64 * KIB] = '\0';
    result = openSegment(engine, name);
    free(name);
    return result;
}

static notify_msg_t long_note(void)
{
    static char name[] = "name", message[65528 + 1];

    memset(message, 'x', sizeof(message) - 1);
    return (notify_msg_t){.name = name, .msg = message};
}

static long submit_note_of(transfer_engine_t engine, notify_msg_t note)
{
    struct transfer_request one = an_entry(OPCODE_WRITE, agent.bytes, 0, 0);

    return submitTransferWithNotify(engine, batch, &one, 1, note);
}

static long two_targets(transfer_engine_t engine)
{
    struct transfer_request both[2] = {an_entry(OPCODE_WRITE, agent.bytes, 0, 0),
                                       an_entry(OPCODE_WRITE, agent.bytes, 0, 0)};

    both[1].target_id = LOCAL_SEGMENT;
    return submitTransferWithNotify(engine, batch, both, 2, a_note());
}

static long unmapped(transfer_engine_t engine)
{
    void *hole = mmap(NULL, 3 * PLACES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long result;

    munmap((char *)hole + PLACES, PLACES);
    result = registerLocalMemory(engine, hole, 3 * PLACES, "*", 1);
    munmap(hole, 3 * PLACES);
    return result;
}

static long list_undone(transfer_engine_t engine)
{
    buffer_entry_t list[2] = {{.addr = text, .length = 64}, {.addr = text + 32, .length = 64}};
    long result = registerLocalMemoryBatch(engine, list, 2, "*");

    assert_int_equal(unregisterLocalMemory(engine, text), -3); /* none is left */
    return result;
}

CALL(no_memory, registerLocalMemory(engine, text, 0, "*", 1))
CALL(null_memory, registerLocalMemory(engine, NULL, 1, "*", 1))
CALL(huge_memory, registerLocalMemory(engine, text, (size_t)1 << 63, "*", 1))
CALL(endless_memory, registerLocalMemory(engine, text, SIZE_MAX, "*", 1))
CALL(overlap, registerLocalMemory(engine, agent.bytes + 1, 1, "*", 1))
CALL(overlap_before, registerLocalMemory(engine, agent.bytes - 1, 2, "*", 1))
CALL(bad_location, registerLocalMemory(engine, text, 1, "moon:1", 1))
CALL(no_node, registerLocalMemory(engine, text, 1, "cpu:4711", 1))
CALL(no_gpu, registerLocalMemory(engine, text, 1, "cuda:0", 1))
CALL(bad_segments, registerLocalMemory(engine, text, 1, "segments:4095:0", 1))
CALL(inner_base, unregisterLocalMemory(engine, agent.bytes + 1))
CALL(no_list, registerLocalMemoryBatch(engine, NULL, 1, "*"))
CALL(no_addresses, unregisterLocalMemoryBatch(engine, NULL, 1))
CALL(no_buffer, getLocalIpAndPort(engine, NULL, 64))
CALL(no_links, showLinks(engine, NULL, 0, 1))
CALL(no_loads, getNicLoadStats(engine, loads, NULL))
CALL(no_proto, (intptr_t)installTransport(engine, "pigeon", NULL))
CALL(null_name, openSegment(engine, NULL))
CALL(no_port, openSegment(engine, "localhost"))
CALL(nobody, openSegment(engine, "127.0.0.1:1"))
CALL(no_host, openSegment(engine, "no-such-host.invalid:7"))
CALL(no_segment, openSegment(engine, "127.0.0.1:1/nobody"))
CALL(not_own, removeLocalSegment(engine, "127.0.0.1:1"))
CALL(forged_batch, getTransferStatus(engine, batch + 1, 0, &status))
CALL(next_task, getTransferStatus(engine, batch, 2, &status))
CALL(huge_task, getTransferStatus(engine, batch, SIZE_MAX, &status))
CALL(no_status, getTransferStatus(engine, batch, 0, NULL))
CALL(free_forged, freeBatchID(engine, INVALID_BATCH))
CALL(no_entries, submitTransfer(engine, batch, NULL, 1))
CALL(submit_forged, submitTransfer(engine, 0, &entry, 0))
CALL(too_many, submitTransfer(engine, batch, &entry, 1))
CALL(endless, submitTransfer(engine, batch, &entry, SIZE_MAX))
CALL(bad_opcode, submit_entry(engine, an_entry(2, agent.bytes, 0, 0)))
CALL(bad_target, submit_entry(engine, other_target()))
CALL(null_note, submit_note_of(engine, (notify_msg_t){0}))
CALL(oversized, submit_note_of(engine, long_note()))
CALL(oversized_alone, genNotifyInEngine(engine, (uint64_t)target, long_note()))
CALL(null_alone, genNotifyInEngine(engine, (uint64_t)target, (notify_msg_t){0}))
CALL(note_to_nobody, genNotifyInEngine(engine, UINT64_MAX, a_note()))
CALL(no_count, (intptr_t)getNotifsFromEngine(engine, NULL))

static const struct refusal refusals[] = {
    {"length 0", no_memory, -1, "0 bytes is no range"},
    {"address NULL", null_memory, -1, "is no range"},
    {"length 2^63", huge_memory, -1, "is no range"},
    {"length 2^64-1", endless_memory, -1, "is no range"},
    {"overlapping", overlap, -7, "overlap memory"},
    {"overlapping from below", overlap_before, -7, ""},
    {"location", bad_location, -1, "'moon:1' is none"},
    {"NUMA node", no_node, -300, "no NUMA node 4711"},
    {"GPU", no_gpu, -303, "GPU memory"},
    {"segments", bad_segments, -1, ""},
    {"unmapped", unmapped, -1, "not all memory of this process"},
    {"unregister inside", inner_base, -3, "no memory is registered"},
    {"a list that overlaps", list_undone, -7, "overlap"},
    {"list NULL", no_list, -1, "the list is NULL"},
    {"addresses NULL", no_addresses, -1, "the list is NULL"},
    {"buffer NULL", no_buffer, -1, "no buffer"},
    {"links NULL", no_links, -1, "no buffer"},
    {"load without count", no_loads, 1, "no place"},
    {"transport", no_proto, 0, "'pigeon' is unknown"},
    {"name NULL", null_name, -1, "name is empty"},
    {"name without port", no_port, -1, "no name of an engine"},
    {"name of 64 KiB", long_name, -1, "longer than"},
    {"nobody there", nobody, -1, "no engine answers"},
    {"host unknown", no_host, -1, "host is not found"},
    {"segment unknown", no_segment, -1, "127.0.0.1:1/nobody"},
    {"not our segment", not_own, -1, "not this engine's own"},
    {"batch forged", forged_batch, 1, "none of this engine"},
    {"task past the end", next_task, 1, "task 2 of a batch with"},
    {"task 2^64-1", huge_task, 1, ""},
    {"status NULL", no_status, 1, ""},
    {"freeing a forged batch", free_forged, 1, "none of this engine"},
    {"entries NULL", no_entries, 1, "entries is NULL"},
    {"submit to a forged batch", submit_forged, 1, "none of this engine"},
    {"opcode", bad_opcode, 1, "opcode 2 is unknown"},
    {"target", bad_target, 1, "target_id 12345"},
    {"note NULL", null_note, 1, "name and a message"},
    {"note too long", oversized, 999, "is longer than 65528"},
    {"two targets with one note", two_targets, 1, "another target"},
    {"note alone too long", oversized_alone, -303, "is longer than 65528"},
    {"note alone NULL", null_alone, -1, "name and a message"},
    {"note to nobody", note_to_nobody, -1, "is not open"},
    {"no count", no_count, 0, "no place"},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
        refusal_check(&refusals[i], agent.engine, refusals[i].sentence);
    assert_int_equal(
        agent_do(&agent, OPCODE_WRITE, target, (uint64_t)(uintptr_t)agent.bytes, 0, 1, NULL),
        STATUS_COMPLETED);
}

static void test_full_batch(void **state)
{
    const struct refusal over = {"over its size", too_many, 2, ""};
    const struct refusal far = {"far over its size", endless, 2, ""};
    batch_id_t kept = batch;

    (void)state;
    batch = allocateBatchID(agent.engine, 1);
    entry = an_entry(OPCODE_WRITE, NULL, 0, 0);
    refusal_check(&far, agent.engine, "over its size");
    assert_int_equal(submitTransfer(agent.engine, batch, &entry, 1), 0);
    refusal_check(&over, agent.engine, "");
    status = (struct transfer_status){.status = 77, .transferred_bytes = 99};
    assert_int_equal(getTransferStatus(agent.engine, batch, 1, &status), 1);
    assert_int_equal(status.status, 77); /* left alone by an error */
    assert_int_equal(status.transferred_bytes, 99);
    assert_int_equal(getTransferStatus(agent.engine, batch, 0, &status), 0);
    assert_int_equal(status.status, STATUS_COMPLETED); /* of 0 bytes: at once */
    assert_int_equal(freeBatchID(agent.engine, batch), 0);
    assert_int_equal(freeBatchID(agent.engine, batch), 1);
    assert_int_equal(getTransferStatus(agent.engine, batch, 0, &status), 1);
    assert_int_equal(submitTransfer(agent.engine, batch, &entry, 1), 1);
    batch = allocateBatchID(agent.engine, 0);
    assert_int_equal(submitTransfer(agent.engine, batch, &entry, 1), 2);
    assert_int_equal(freeBatchID(agent.engine, batch), 0);
    batch = kept;
}

/* What does not fit is cut off, and the result is 0. */
static void test_cut_off(void **state)
{
    char small[4] = "xxx";

    (void)state;
    assert_int_equal(getLocalIpAndPort(agent.engine, small, sizeof(small)), 0);
    assert_string_equal(small, "127");
    assert_int_equal(showLinks(agent.engine, small, sizeof(small), 1), 0);
    assert_string_equal(small, "{\"e");
    load_count = 0;
    assert_int_equal(getNicLoadStats(agent.engine, NULL, &load_count), 0);
    assert_int_equal(load_count, 1);
    load_count = 2;
    loads[1].inflight_bytes = 5;
    assert_int_equal(getNicLoadStats(agent.engine, loads, &load_count), 0);
    assert_int_equal(load_count, 1);
    assert_string_equal(loads[0].device_name, "tesup");
    assert_int_equal(loads[1].inflight_bytes, 5);
}

/* They say yes and do nothing, as their callers expect. */
static void test_agreeable(void **state)
{
    void *arguments[] = {(char[]){"{}"}};

    (void)state;
    assert_int_equal(closeSegment(agent.engine, 12345), 0);
    assert_int_equal(uninstallTransport(agent.engine, "pigeon"), 0);
    assert_int_equal(discoverTopology(agent.engine), 0);
    assert_non_null(installTransport(agent.engine, "rdma", arguments));
    enableGracefulShutdown(agent.engine);
    assert_int_equal(syncSegmentCache(agent.engine), 0);
    assert_int_equal(warmupEfaSegment(agent.engine, agent.name), 0);
    assert_int_equal(openSegmentNoCache(agent.engine, agent.name), LOCAL_SEGMENT);
}

static void create_refused(const char *metadata, const char *server, uint64_t port,
                           const char *sentence)
{
    struct stderr_catch caught;
    transfer_engine_t engine;

    stderr_catch_begin(&caught);
    engine = createTransferEngine(metadata, server, "", port, 1);
    stderr_catch_end(&caught);
    assert_null(engine);
    if (strstr(caught.text, sentence) == NULL)
        fail_msg("no '%s' in '%s'", sentence, caught.text);
}

static void test_create_refused(void **state)
{
    (void)state;
    create_refused("etcd://10.0.0.1:2379", "127.0.0.1", 0, "P2PHANDSHAKE");
    create_refused("P2PHANDSHAKE", "127.0.0.1", 65536, "65536 is no port");
    create_refused("P2PHANDSHAKE", "127.0.0.1:port", 0, "no HOST:PORT");
    create_refused("P2PHANDSHAKE", "198.51.100.1", 0, "cannot listen at '198.51.100.1'");
    create_refused("P2PHANDSHAKE", "no-such-host.invalid", 0, "is not found");
    setenv("TESUP_AUTOSTART", "0", 1);
    setenv("TESUP_SOCKET", "/nowhere/tesup.sock", 1);
    create_refused("P2PHANDSHAKE", "127.0.0.1", 0, "no supervisor at /nowhere/tesup.sock");
    setenv("TESUP_SOCKET", host.socket, 1);
    unsetenv("TESUP_AUTOSTART");
}

static int group_setup(void **state)
{
    if (daemon_group_setup(state) != 0)
        return -1;
    daemon_start(&host, "host", "");
    agent_begin(&agent, &host, 64 * KIB);
    agent_begin(&other, &host, 4 * KIB); /* a second engine of this process */
    target = agent_open(&agent, other.name);
    batch = allocateBatchID(agent.engine, 2);
    return 0;
}

static int group_teardown(void **state)
{
    assert_int_equal(freeBatchID(agent.engine, batch), 0);
    agent_end(&agent);
    agent_end(&other);
    daemon_stop(&host);
    return daemon_group_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_null_engine),
        cmocka_unit_test(test_destroyed_engine),
        cmocka_unit_test_teardown(test_forked_engine, job_test_teardown),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_full_batch),
        cmocka_unit_test(test_cut_off),
        cmocka_unit_test(test_agreeable),
        cmocka_unit_test(test_create_refused),
    };

    return cmocka_run_group_tests_name("returns", tests, group_setup, group_teardown);
}
