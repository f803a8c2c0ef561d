/* A supervisor whose channels cannot be had, because somebody is short of something: who asked is
 * told the limit, the need and the remedy; nobody dies, and the sessions that are there go on. */
#ifndef TESUP_TESTS_FAULT_CHANNEL_FIXTURE_H
#define TESUP_TESTS_FAULT_CHANNEL_FIXTURE_H

#include "tests/fault/limit_fixture.h"

#include <stdio.h>
#include <unistd.h>

#include "tests/harness/command.h"
#include "tests/harness/process.h"
#include "tests/harness/status.h"
#include "tests/harness/wait.h"

#define TRIES_MAX 200

static struct daemon host;
static pid_t worker;
static struct party honest; /* attached before anything is short */

static inline int test_setup(void **state)
{
    (void)state;
    daemon_start(&host, "short", "--fabric tcp --sessions-per-uid 256 --channels-per-session 64");
    worker = status_worker_ready(&host, 0);
    party_attach(&honest, &host, "honest");
    return 0;
}

/* The honest job's session works, by the worker that it began with. */
static inline void test_end(void)
{
    const struct tesup_request nop = {.op = TESUP_OP_NOP};

    party_check(party_do(honest.channel, &nop).status, "NOP");
    assert_int_equal(status_worker_ready(&host, 0), worker);
    party_detach(&honest);
    daemon_stop(&host);
}

/* Attaches and opens channels until one is refused; it must be refused with `expected` and a
 * sentence that has `part`.  At least `least` are had before. */
static inline void channels_until_refused(int expected, const char *part, int least)
{
    static struct tesup_session *sessions[TRIES_MAX];
    const struct tesup_options options = {.socket = host.socket, .timeout_ms = 5000};
    struct tesup_channel *channel;
    int count = 0, had = 0, code = TESUP_OK;

    while (code == TESUP_OK && count < TRIES_MAX) {
        code = tesup_attach(&options, &sessions[count]);
        if (code != TESUP_OK)
            break;
        count++;
        for (int i = 0; i < 8 && (code = tesup_channel_open(sessions[count - 1], &channel)) == 0;
             i++)
            had++;
    }
    error_expect(code, expected, part);
    if (had + count < least)
        fail_msg("refused after %d channels and %d sessions", had, count);
    while (count > 0)
        tesup_detach(sessions[--count]);
}

/* `tesup serve` under a limit of prlimit(1) does not even start. */
static inline void serve_expect(const char *limit, const char *part, const char *remedy)
{
    static struct command command; /* large */
    char words[512];

    snprintf(words, sizeof(words),
             "prlimit %s " TESUP_BIN_DIR "/tesup serve --foreground --name tiny --workers 1 "
             "--listen 127.0.0.1:0 --runtime-dir %s --peer-key %s/peer.key",
             limit, daemon_directory(), daemon_directory());
    command_run(&command, words);
    command_expect_code(&command, 1);
    command_expect_text(command.err, part);
    command_expect_text(command.err, remedy);
}

#define SHORT(test) cmocka_unit_test_setup_teardown(test, test_setup, daemon_test_teardown)

#endif
