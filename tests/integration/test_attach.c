/* Attaching: what is refused and in which words, fork, many in a row, a channel per thread. */
#include "tests/harness/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness/job.h"
#include "tests/harness/party.h"
#include "tests/harness/process.h"
#include "tests/harness/status.h"
#include "tests/harness/wait.h"

static struct daemon daemon_here;

static int group_setup(void **state)
{
    if (daemon_group_setup(state) < 0)
        return -1;
    daemon_start(&daemon_here, "here", "--fabric auto");
    return 0;
}

static int group_teardown(void **state)
{
    daemon_stop(&daemon_here);
    return daemon_group_teardown(state);
}

static void sentence_expect(const char *part)
{
    if (!strstr(tesup_last_error(), part))
        fail_msg("'%s' is not in: %s", part, tesup_last_error());
}

static void attach_expect(const struct tesup_options *options, int code)
{
    struct tesup_session *session = NULL;

    party_expect(tesup_attach(options, &session), code);
    assert_null(session);
}

static void no_daemon_names_path_and_remedy(void **state)
{
    struct tesup_options options = {.socket = "/tmp/tesup-test-nobody/none.sock"};

    (void)state;
    attach_expect(&options, TESUP_ERR_NO_DAEMON);
    sentence_expect("/tmp/tesup-test-nobody/none.sock");
    sentence_expect("tesup serve");
    setenv("TESUP_SOCKET", "/tmp/tesup-test-nobody/other.sock", 1);
    attach_expect(NULL, TESUP_ERR_NO_DAEMON);
    sentence_expect("/tmp/tesup-test-nobody/other.sock");
    unsetenv("TESUP_SOCKET");
}

static void environment_names_the_socket(void **state)
{
    struct tesup_session *session;

    (void)state;
    setenv("TESUP_SOCKET", daemon_here.socket, 1);
    party_check(tesup_attach(NULL, &session), "attach");
    unsetenv("TESUP_SOCKET");
    assert_memory_equal(tesup_segment_name(session), daemon_here.address,
                        strlen(daemon_here.address));
    tesup_detach(session);
}

static void segment_name_is_taken_once(void **state)
{
    struct tesup_options options = {.socket = daemon_here.socket, .segment = "twice"};
    struct party first;

    (void)state;
    party_attach(&first, &daemon_here, "twice");
    attach_expect(&options, TESUP_ERR_EXISTS);
    sentence_expect("twice");
    party_detach(&first);
    party_attach(&first, &daemon_here, "twice");
    party_detach(&first);
}

static void unknown_pair_is_named(void **state)
{
    struct tesup_options options = {.socket = daemon_here.socket, .pair = "mlx5_99"};

    (void)state;
    attach_expect(&options, TESUP_ERR_NOT_FOUND);
    sentence_expect("mlx5_99");
}

static void bad_options_are_refused(void **state)
{
    struct tesup_options options = {.socket = daemon_here.socket, .segment = "a/b"};

    (void)state;
    attach_expect(&options, TESUP_ERR_INVALID);
    options.segment = NULL;
    options.slots = 3;
    attach_expect(&options, TESUP_ERR_INVALID);
    options.slots = 8192;
    attach_expect(&options, TESUP_ERR_INVALID);
}

static void segments_that_cannot_be_opened(void **state)
{
    struct party party;
    tesup_remote_t remote;
    char name[512];

    (void)state;
    party_attach(&party, &daemon_here, NULL);
    snprintf(name, sizeof(name), "%s/nobody", daemon_here.address);
    party_expect(tesup_segment_open(party.session, name, &remote), TESUP_ERR_NOT_FOUND);
    sentence_expect("nobody");
    party_expect(tesup_segment_open(party.session, "127.0.0.1:1/x", &remote),
                 TESUP_ERR_UNREACHABLE);
    sentence_expect("127.0.0.1:1");
    party_expect(tesup_segment_open(party.session, "127.0.0.1/x", &remote), TESUP_ERR_INVALID);
    party_expect(tesup_segment_open(party.session, "", &remote), TESUP_ERR_INVALID);
    party_detach(&party);
}

/* ---- fork ---- */

struct forked {
    struct party party;
    struct party_region region;
    struct tesup_request request;
};

/* Every call of the child fails, and nothing that it does disturbs its parent. */
static void forked_child(void *argument)
{
    struct forked *forked = argument;
    struct party *party = &forked->party;
    struct tesup_completion done;
    struct tesup_notification note;
    struct tesup_channel *channel;
    tesup_region_t region;
    tesup_remote_t remote;
    uint32_t accepted;
    void *address;

    party_expect(tesup_submit(party->channel, &forked->request, 1, NULL, &accepted),
                 TESUP_ERR_FORKED);
    party_expect(tesup_cancel(party->channel, 0), TESUP_ERR_FORKED);
    party_expect(tesup_poll(party->channel, &done, 1), TESUP_ERR_FORKED);
    party_expect(tesup_wait(party->channel, 10), TESUP_ERR_FORKED);
    party_expect(tesup_notify_peek(party->channel, &note), TESUP_ERR_FORKED);
    party_expect(tesup_notify_release(party->channel), TESUP_ERR_FORKED);
    party_expect(tesup_mem_alloc(party->session, 4096, 0, &address, &region), TESUP_ERR_FORKED);
    party_expect(tesup_mem_free(party->session, forked->region.handle), TESUP_ERR_FORKED);
    party_expect(tesup_segment_open(party->session, "127.0.0.1:1/x", &remote), TESUP_ERR_FORKED);
    party_expect(tesup_channel_open(party->session, &channel), TESUP_ERR_FORKED);
    sentence_expect("parent");
    tesup_detach(party->session);
    /* A session of its own works. */
    party_attach(party, &daemon_here, NULL);
    party_detach(party);
}

static void fork_harms_nobody(void **state)
{
    struct forked forked;
    struct job child;

    (void)state;
    party_attach(&forked.party, &daemon_here, NULL);
    party_region_create(&forked.party, PARTY_MEMORY_ALLOC, 8192, TESUP_ACCESS_REMOTE_WRITE,
                        &forked.region);
    forked.request = (struct tesup_request){
        .op = TESUP_OP_WRITE,
        .remote = party_open(&forked.party, tesup_segment_name(forked.party.session)),
        .local_region = forked.region.handle,
        .remote_region = forked.region.handle,
        .remote_offset = 4096,
        .length = 4096,
        .name = "n",
        .name_len = 1};
    job_start(&child, "forked child", forked_child, &forked);
    for (int i = 0; i < 50; i++) {
        party_fill(forked.region.bytes, 4096, (uint64_t)i);
        party_check(party_do(forked.party.channel, &forked.request).status, "WRITE");
        party_next(forked.party.channel);
        party_check(tesup_notify_release(forked.party.channel), "release");
        party_verify(forked.region.bytes + 4096, 4096, (uint64_t)i, "the parent's block");
    }
    job_expect_success(&child, WAIT_MS);
    party_check(party_do(forked.party.channel, &forked.request).status, "after the child's end");
    party_detach(&forked.party);
}

/* ---- nothing piles up ---- */

#define ATTACHES 200

struct footprint {
    unsigned fds, mappings;
};

static struct footprint footprint_of(pid_t pid)
{
    return (struct footprint){process_fd_count(pid), process_memfd_count(pid)};
}

/* The daemon's side of a detach may come a little later. */
static void footprint_expect(pid_t pid, struct footprint before, const char *who)
{
    uint64_t until = wait_now_ms() + 5000;
    struct footprint now = footprint_of(pid);

    while ((now.fds != before.fds || now.mappings != before.mappings) && wait_now_ms() < until) {
        wait_sleep_ms(10);
        now = footprint_of(pid);
    }
    if (now.fds != before.fds || now.mappings != before.mappings)
        fail_msg("%s has %u files and %u mappings, had %u and %u before %d attaches", who, now.fds,
                 now.mappings, before.fds, before.mappings, ATTACHES);
}

static void attach_use_detach(void)
{
    struct party party;
    struct party_region region;
    struct tesup_channel *channel;
    struct tesup_request request = {.op = TESUP_OP_NOP};

    party_attach(&party, &daemon_here, NULL);
    party_check(tesup_channel_open(party.session, &channel), "channel");
    party_region_create(&party, PARTY_MEMORY_ALLOC, 65536, TESUP_ACCESS_REMOTE_READ, &region);
    request.cookie = 5;
    assert_int_equal(party_do(channel, &request).cookie, 5);
    party_open(&party, tesup_segment_name(party.session));
    party_detach(&party);
}

static void many_attaches_leave_nothing(void **state)
{
    struct wait wait = wait_begin("the first of them are gone", WAIT_MS);
    struct footprint supervisor, worker, self;
    pid_t pids[DAEMON_WORKERS];

    (void)state;
    for (int i = 0; i < 3; i++)
        attach_use_detach();
    assert_int_equal(daemon_workers(&daemon_here, pids), 1);
    while (status_sessions(&daemon_here) > 0 || status_worker_count(&daemon_here, "sessions") > 0)
        wait_step(&wait);
    supervisor = footprint_of(daemon_here.pid);
    worker = footprint_of(pids[0]);
    self = footprint_of(getpid());
    for (int i = 0; i < ATTACHES; i++)
        attach_use_detach();
    footprint_expect(daemon_here.pid, supervisor, "the supervisor");
    footprint_expect(pids[0], worker, "the worker");
    footprint_expect(getpid(), self, "the job");
}

/* ---- threads ---- */

#define THREADS       4
#define THREAD_ROUNDS 300u
#define THREAD_BLOCK  8192u

struct worker_thread {
    pthread_t thread;
    struct tesup_channel *channel;
    struct tesup_request request;
    uint8_t *local, *remote;
    uint32_t wrong;
};

/* No cmocka in here: its asserts jump within the main thread. */
static void *thread_run(void *argument)
{
    struct worker_thread *self = argument;
    struct tesup_completion done;
    uint32_t accepted;

    for (uint32_t i = 0; i < THREAD_ROUNDS; i++) {
        memset(self->local, (int)(i + self->request.cookie) & 0xff, THREAD_BLOCK);
        if (tesup_submit(self->channel, &self->request, 1, NULL, &accepted) != TESUP_OK ||
            tesup_wait(self->channel, WAIT_MS) != TESUP_OK ||
            tesup_poll(self->channel, &done, 1) != 1 || done.status != TESUP_OK ||
            done.cookie != self->request.cookie ||
            memcmp(self->local, self->remote, THREAD_BLOCK) != 0)
            self->wrong++;
    }
    return NULL;
}

static void channel_per_thread(void **state)
{
    struct worker_thread threads[THREADS] = {{.wrong = 0}};
    struct party_region region;
    struct party party;

    (void)state;
    party_attach(&party, &daemon_here, NULL);
    party_region_create(&party, PARTY_MEMORY_ALLOC, 2 * THREADS * THREAD_BLOCK,
                        TESUP_ACCESS_REMOTE_WRITE, &region);
    tesup_remote_t self = party_open(&party, tesup_segment_name(party.session));
    for (uint32_t i = 0; i < THREADS; i++) {
        uint64_t local = 2 * i * THREAD_BLOCK, remote = local + THREAD_BLOCK;
        threads[i].request = (struct tesup_request){.op = TESUP_OP_WRITE,
                                                    .cookie = i,
                                                    .remote = self,
                                                    .local_region = region.handle,
                                                    .local_offset = local,
                                                    .remote_region = region.handle,
                                                    .remote_offset = remote,
                                                    .length = THREAD_BLOCK};
        threads[i].local = region.bytes + local;
        threads[i].remote = region.bytes + remote;
        party_check(tesup_channel_open(party.session, &threads[i].channel), "channel");
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i].thread, NULL, thread_run, &threads[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i].thread, NULL);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(threads[i].wrong, 0);
        tesup_channel_close(threads[i].channel);
    }
    party_detach(&party);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_daemon_names_path_and_remedy),
        cmocka_unit_test(environment_names_the_socket),
        cmocka_unit_test(segment_name_is_taken_once),
        cmocka_unit_test(unknown_pair_is_named),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(segments_that_cannot_be_opened),
        cmocka_unit_test_teardown(fork_harms_nobody, job_test_teardown),
        cmocka_unit_test(many_attaches_leave_nothing),
        cmocka_unit_test(channel_per_thread),
    };

    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
