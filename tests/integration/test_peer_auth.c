/* `[peer] auth = none`: works without any key and is seen in status.  Against a supervisor that
 * wants the key there is a clear error, whichever side calls. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/harness/command.h"
#include "tests/harness/party.h"
#include "tests/harness/status.h"
#include "tests/harness/wait.h"

#define NONE      "[peer]\nauth = none\n"
#define PSK       "[peer]\nauth = psk\n"
#define REFUSE_MS 5000u /* about a second of tries, on a slow machine */
#define BLOCK     65536u

static void pair_start(struct daemon *left, const char *left_config, struct daemon *right,
                       const char *right_config, const char *fabric)
{
    char options[DAEMON_PATH + 64];

    snprintf(options, sizeof(options), "%s --fabric %s", daemon_config(left_config), fabric);
    daemon_start(left, "left", options);
    snprintf(options, sizeof(options), "%s --fabric %s", daemon_config(right_config), fabric);
    daemon_start(right, "right", options);
}

static void key_expect(bool there)
{
    char path[DAEMON_PATH];
    struct stat st;

    snprintf(path, sizeof(path), "%s/peer.key", daemon_directory());
    assert_int_equal(stat(path, &st) == 0, there);
}

static void status_expect(const struct daemon *daemon, const char *option, const char *part)
{
    static struct command command; /* large */
    char words[512];

    snprintf(words, sizeof(words), TESUP_BIN_DIR "/tesup status %s --name %s --runtime-dir %s",
             option, daemon->name, daemon_directory());
    command_run(&command, words);
    command_expect_code(&command, 0);
    command_expect_text(command.out, part);
}

/* A block and its notification. */
static void bytes_expect(const struct party *from, const struct party *to)
{
    struct party_region local, remote;
    struct tesup_request request = {
        .op = TESUP_OP_WRITE, .length = BLOCK, .name = "x", .name_len = 1};

    party_region_create(from, PARTY_MEMORY_ALLOC, BLOCK, TESUP_ACCESS_LOCAL, &local);
    party_region_create(to, PARTY_MEMORY_ALLOC, BLOCK, TESUP_ACCESS_REMOTE_WRITE, &remote);
    party_fill(local.bytes, BLOCK, 1);
    request.remote = party_open(from, tesup_segment_name(to->session));
    request.local_region = local.handle;
    request.remote_region = remote.handle;
    party_check(party_do(from->channel, &request).status, "WRITE");
    assert_int_equal(party_next(to->channel).status, TESUP_OK);
    party_check(tesup_notify_release(to->channel), "release");
    party_verify(remote.bytes, BLOCK, 1, "what was written");
}

static void none_needs_no_key(void **state)
{
    const char *const fabrics[] = {"tcp", "auto"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct daemon left, right;
        struct party a, b;

        pair_start(&left, NONE, &right, NONE, fabrics[i]);
        party_attach(&a, &left, NULL);
        party_attach(&b, &right, NULL);
        bytes_expect(&a, &b);
        bytes_expect(&b, &a);
        status_expect(&left, "--json", "\"peer_auth\": \"none\"");
        status_expect(&left, "", "peer auth none");
        party_detach(&a);
        party_detach(&b);
        daemon_stop(&left);
        daemon_stop(&right);
        key_expect(false);
    }
}

/* The caller's side learns the cause and the remedy, the other side counts it. */
static void refusal_expect(const struct daemon *from, const struct daemon *to)
{
    uint64_t counted = status_supervisor_count(to, "peers_refused_auth");
    uint64_t began = wait_now_ms();
    struct party a, b;
    tesup_remote_t remote;

    party_attach(&a, from, NULL);
    party_attach(&b, to, NULL);
    party_expect(tesup_segment_open(a.session, tesup_segment_name(b.session), &remote),
                 TESUP_ERR_AUTH);
    assert_true(wait_now_ms() - began < REFUSE_MS);
    command_expect_text(tesup_last_error(), "refused our key");
    command_expect_text(tesup_last_error(), "peer.auth");
    command_expect_text(tesup_last_error(), to->address);
    assert_true(status_supervisor_count(to, "peers_refused_auth") > counted);
    if (daemon_log_count(to, "the same peer.auth") == 0)
        fail_msg("the other side's log does not say it");
    party_detach(&a);
    party_detach(&b);
}

static void none_and_psk_refuse_each_other(void **state)
{
    const char *const fabrics[] = {"tcp", "auto"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct daemon open, closed;

        pair_start(&open, NONE, &closed, PSK, fabrics[i]);
        status_expect(&closed, "--json", "\"peer_auth\": \"psk\"");
        status_expect(&closed, "", "peer auth psk");
        refusal_expect(&open, &closed);
        refusal_expect(&closed, &open);
        key_expect(true);
        daemon_stop(&open);
        daemon_stop(&closed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* first: no other has made a key yet */
        cmocka_unit_test_teardown(none_needs_no_key, daemon_test_teardown),
        cmocka_unit_test_teardown(none_and_psk_refuse_each_other, daemon_test_teardown),
    };

    return cmocka_run_group_tests_name("peer auth", tests, daemon_group_setup,
                                       daemon_group_teardown);
}
