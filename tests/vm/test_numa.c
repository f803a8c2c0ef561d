/* Two NUMA nodes: workers run, and channels lie, where the plan says.
 *
 * Runs in the test VM with two nodes, two CPUs each (scripts/rdma-vm --numa 2). */
#include "tests/harness/test.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/segment.h"
#include "tests/harness/party.h"
#include "tests/harness/status.h"
#include "tests/harness/wait.h"

#define NODES         2
#define CPUS_PER_NODE 2

static struct daemon numa;

static void run_on_node(int node)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    for (int i = 0; i < CPUS_PER_NODE; i++)
        CPU_SET((size_t)(node * CPUS_PER_NODE + i), &set);
    assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
}

/* One line of /proc/PID/NAME that begins with `key`; what follows it. */
static void proc_line(pid_t pid, const char *name, const char *key, char *value, size_t size)
{
    char path[64], line[512];
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    file = fopen(path, "re");
    assert_non_null(file);
    value[0] = '\0';
    while (value[0] == '\0' && fgets(line, sizeof(line), file) != NULL)
        if (strstr(line, key) != NULL)
            snprintf(value, size, "%s", strstr(line, key) + strlen(key));
    fclose(file);
    if (value[0] == '\0')
        fail_msg("%s has no line with %s", path, key);
}

/* Every page of this process's channel; a page that nobody touched yet is made now, by the policy
 * of the segment. */
static void channel_expect_on(int node)
{
    unsigned long begin, end;
    char line[512], *rest;
    FILE *maps = fopen("/proc/self/maps", "re");
    size_t pages = 0;

    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps) != NULL) {
        if (strstr(line, "memfd:tesup-channel") == NULL)
            continue;
        begin = strtoul(line, &rest, 16);
        assert_int_equal(*rest, '-');
        end = strtoul(rest + 1, NULL, 16);
        for (unsigned long at = begin; at < end; at += 4096, pages++)
            assert_int_equal(segment_node((const void *)at), node);
    }
    fclose(maps);
    assert_true(pages > 16);
}

static void notify_itself(const struct party *party)
{
    struct tesup_request note = {.op = TESUP_OP_NOTIFY, .msg = "here", .msg_len = 4};

    note.remote = party_open(party, tesup_segment_name(party->session));
    party_check(party_do(party->channel, &note).status, "notification to itself");
    party_next(party->channel);
    party_check(tesup_notify_release(party->channel), "release");
}

static void workers_run_on_their_nodes(void **state)
{
    pid_t workers[DAEMON_WORKERS];
    bool seen[NODES] = {false};
    char value[512], *rest;
    long cpu;

    (void)state;
    assert_int_equal(daemon_workers(&numa, workers), NODES);
    for (int i = 0; i < NODES; i++) {
        proc_line(workers[i], "status", "Cpus_allowed_list:", value, sizeof(value));
        cpu = strtol(value, &rest, 10);
        assert_int_equal(*rest, '\n'); /* one CPU */
        seen[cpu / CPUS_PER_NODE] = true;
        char policy[32];
        snprintf(policy, sizeof(policy), "prefer:%ld", cpu / CPUS_PER_NODE);
        proc_line(workers[i], "numa_maps", policy, value, sizeof(value));
    }
    assert_true(seen[0] && seen[1]);
}

/* The job runs on the other node, so that nothing lies right by accident. */
static void channels_lie_on_the_node_of_their_worker(void **state)
{
    static const char *const pairs[NODES] = {"tcp@node0", "tcp@node1"};

    (void)state;
    for (int node = 0; node < NODES; node++) {
        struct tesup_options options = {.socket = numa.socket, .pair = pairs[node]};
        struct party party;

        run_on_node(1 - node);
        party_check(tesup_attach(&options, &party.session), pairs[node]);
        party.channel = tesup_channel_main(party.session);
        notify_itself(&party);
        channel_expect_on(node);
        party_detach(&party);
    }
}

static void a_job_goes_to_the_worker_of_its_node(void **state)
{
    (void)state;
    for (int node = NODES - 1; node >= 0; node--) {
        struct party party;

        run_on_node(node);
        party_attach(&party, &numa, NULL);
        run_on_node(1 - node);
        channel_expect_on(node);
        party_detach(&party);
    }
}

static int group_setup(void **state)
{
    if (sysconf(_SC_NPROCESSORS_ONLN) != NODES * CPUS_PER_NODE) {
        print_error("this needs the test VM: scripts/rdma-vm --numa %d -- PROGRAM\n", NODES);
        return -1;
    }
    if (daemon_group_setup(state) != 0)
        return -1;
    daemon_start(&numa, "numa", "--workers 2");
    status_worker_ready(&numa, 0);
    return 0;
}

static int group_teardown(void **state)
{
    daemon_stop(&numa);
    return daemon_group_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_run_on_their_nodes),
        cmocka_unit_test(channels_lie_on_the_node_of_their_worker),
        cmocka_unit_test(a_job_goes_to_the_worker_of_its_node),
    };

    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
