/* Another local user, who does not know the key: nothing of the first user's can be reached, and
 * what is asked of an open supervisor is granted by uid. */
#include "tests/harness/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/harness/command.h"
#include "tests/harness/job.h"
#include "tests/harness/load.h"
#include "tests/harness/party.h"
#include "tests/harness/rawpeer.h"
#include "tests/harness/root.h"
#include "tests/harness/status.h"
#include "tests/harness/wait.h"

#define HANGUP_MS 5000u
#define BLOCK     4096u

/* `function` as the stranger. */
static void stranger_do(job_function *function, void *argument)
{
    struct job job;

    job_start(&job, "stranger", function, argument);
    job_expect_success(&job, WAIT_MS);
}

static void sentence_expect(const char *part)
{
    command_expect_text(tesup_last_error(), part);
}

/* ---- a supervisor that is for its own user ---- */

static void attach_expect_denied(const struct daemon *daemon, const char *part)
{
    const struct tesup_options options = {.socket = daemon->socket};
    struct tesup_session *session;

    party_expect(tesup_attach(&options, &session), TESUP_ERR_DENIED);
    sentence_expect(part);
}

static void closed_run(void *argument)
{
    const struct daemon *daemon = argument;

    root_leave();
    attach_expect_denied(daemon, "limits.allow_uids");
    sentence_expect(daemon->socket);
    sentence_expect("uid 65534");
}

/* First the directory is closed, then only the socket in it. */
static void test_closed_to_others(void **state)
{
    struct daemon daemon;
    struct stat st;

    (void)state;
    daemon_start(&daemon, "closed", "--fabric tcp");
    assert_int_equal(stat(daemon_directory(), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(stat(daemon.socket, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    stranger_do(closed_run, &daemon);
    assert_int_equal(chmod(daemon_directory(), 0755), 0);
    stranger_do(closed_run, &daemon);
    assert_int_equal(chmod(daemon_directory(), 0700), 0);
    assert_int_equal(status_sessions(&daemon), 0);
    daemon_stop(&daemon);
}

static void open_expect_denied(const char *path)
{
    if (open(path, O_RDONLY | O_CLOEXEC) >= 0)
        fail_msg("%s can be read", path);
    assert_int_equal(errno, EACCES);
}

static void secrets_run(void *argument)
{
    const struct daemon *daemon = argument;
    const char *const files[] = {"maps", "mem", "environ"};
    pid_t pids[DAEMON_WORKERS + 1];
    size_t count = daemon_workers(daemon, pids);
    char path[DAEMON_PATH];

    assert_int_equal(count, 1);
    pids[count++] = daemon->pid;
    root_leave();
    snprintf(path, sizeof(path), "%s/peer.key", daemon_directory());
    open_expect_denied(path);
    snprintf(path, sizeof(path), "%s/%s.lock", daemon_directory(), daemon->name);
    open_expect_denied(path);
    for (size_t i = 0; i < count; i++) { /* the key is in their memory, too */
        for (size_t k = 0; k < sizeof(files) / sizeof(files[0]); k++) {
            snprintf(path, sizeof(path), "/proc/%d/%s", (int)pids[i], files[k]);
            open_expect_denied(path);
        }
        snprintf(path, sizeof(path), "/proc/%d/fd", (int)pids[i]);
        assert_null(opendir(path));
    }
}

static void test_secrets(void **state)
{
    struct daemon daemon;

    (void)state;
    daemon_start(&daemon, "secret", "--fabric tcp");
    assert_int_equal(chmod(daemon_directory(), 0755), 0); /* the files guard themselves */
    stranger_do(secrets_run, &daemon);
    assert_int_equal(chmod(daemon_directory(), 0700), 0);
    daemon_stop(&daemon);
}

/* ---- the port is open to every user of the host ---- */

#define GUESSES 5

static void port_run(void *argument)
{
    const struct daemon *daemon = argument;

    root_leave();
    for (int i = 0; i < GUESSES; i++) {
        struct rawpeer peer;

        rawpeer_connect_keyless(&peer, daemon);
        rawpeer_hello(&peer, "victim");
        rawpeer_proof(&peer);
        if (rawpeer_hangup_bytes(&peer, HANGUP_MS) > 0)
            fail_msg("it got an answer after its proof");
        rawpeer_close(&peer);
    }
}

static void test_port(void **state)
{
    struct daemon left, right;
    struct load *load;
    struct party victim;

    (void)state;
    daemon_start(&left, "left", "--fabric tcp");
    daemon_start(&right, "right", "--fabric tcp");
    load = load_start(&left, &right, 1, PARTY_MEMORY_ALLOC);
    party_attach(&victim, &right, "victim");
    stranger_do(port_run, &right);
    assert_int_equal(status_supervisor_count(&right, "peers_refused_auth"), GUESSES);
    load_expect_progress(load);
    party_detach(&victim);
    load_stop_clean(load);
    daemon_stop(&left);
    daemon_stop(&right);
}

/* ---- a supervisor for several users ---- */

struct shared {
    struct daemon left, right;
    char closed[LAYOUT_NAME_MAX], open[LAYOUT_NAME_MAX];
    tesup_region_t region; /* of the open segment */
};

static void segment_write(const struct party *party, const char *name, tesup_region_t region,
                          int status)
{
    struct party_region local;
    struct tesup_request request = {.op = TESUP_OP_WRITE, .remote_region = region, .length = BLOCK};

    party_region_create(party, PARTY_MEMORY_ALLOC, BLOCK, TESUP_ACCESS_LOCAL, &local);
    memset(local.bytes, 7, BLOCK);
    request.remote = party_open(party, name);
    request.local_region = local.handle;
    party_expect(party_do(party->channel, &request).status, status);
}

/* From its own supervisor (one worker) and from another one. */
static void shared_run(void *argument)
{
    const struct shared *shared = argument;
    const struct daemon *const from[] = {&shared->right, &shared->left};
    tesup_remote_t remote;

    root_leave();
    for (int i = 0; i < 2; i++) {
        struct party party;

        party_attach(&party, from[i], NULL);
        party_expect(tesup_segment_open(party.session, shared->closed, &remote), TESUP_ERR_DENIED);
        sentence_expect("belongs to uid 0 and is not shared with uid 65534");
        segment_write(&party, shared->open, shared->region, TESUP_OK);
        party_detach(&party);
    }
}

/* Root has one segment for itself and one for everybody. */
static void shared_try(const char *fabric)
{
    struct shared *shared = job_board_create(sizeof(*shared));
    struct tesup_options options = {.segment = "open", .flags = TESUP_SHARE_ALL};
    struct party closed, open;
    struct party_region memory;
    char words[96];

    snprintf(words, sizeof(words), "--fabric %s --allow-uids *", fabric);
    daemon_start(&shared->left, "left", words);
    daemon_start(&shared->right, "right", words);
    party_attach(&closed, &shared->right, "closed");
    options.socket = shared->right.socket;
    party_check(tesup_attach(&options, &open.session), "attach");
    open.channel = tesup_channel_main(open.session);
    party_region_create(&open, PARTY_MEMORY_ALLOC, BLOCK, TESUP_ACCESS_REMOTE_WRITE, &memory);
    snprintf(shared->closed, sizeof(shared->closed), "%s", tesup_segment_name(closed.session));
    snprintf(shared->open, sizeof(shared->open), "%s", tesup_segment_name(open.session));
    shared->region = memory.handle;
    stranger_do(shared_run, shared);
    party_verify_byte(memory.bytes, BLOCK, 7, "what the stranger wrote");
    party_detach(&closed);
    party_detach(&open);
    daemon_stop(&shared->left);
    daemon_stop(&shared->right);
    job_board_free(shared, sizeof(*shared));
}

static void test_shared(void **state)
{
    (void)state;
    shared_try("tcp");
    shared_try("auto");
}

static void listed_run(void *argument)
{
    root_leave();
    attach_expect_denied(argument, "uid 65534 is not in limits.allow_uids");
}

/* For some others, and not for this one. */
static void test_not_on_the_list(void **state)
{
    struct daemon daemon;

    (void)state;
    daemon_start(&daemon, "listed", "--allow-uids 65533");
    stranger_do(listed_run, &daemon);
    assert_int_equal(status_supervisor_count(&daemon, "attach_refused"), 1);
    daemon_stop(&daemon);
}

#define TEST(test) cmocka_unit_test_teardown(test, daemon_test_teardown)

int main(int argc, char **argv)
{
    /* The shared ones last: they open the directory to everybody. */
    const struct CMUnitTest tests[] = {
        TEST(test_closed_to_others), TEST(test_secrets),         TEST(test_port),
        TEST(test_shared),           TEST(test_not_on_the_list),
    };

    (void)argc;
    root_need(argv);
    return cmocka_run_group_tests_name("another user", tests, daemon_group_setup,
                                       daemon_group_teardown);
}
