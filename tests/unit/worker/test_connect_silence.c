/* Silence, half words, foreign words and an early end, at each step of the initiator's handshake.
 */
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

#include "shm/err.h"
#include "tests/harness/worker/job.h"
#include "tests/harness/worker/responder.h"

static struct host host;
static struct job job;
static struct responder there;
static struct remote *remote;

static int setup(void **state)
{
    const struct job_shape shape = {.handle = 1, .segment = "here"};
    struct proto_worker_config config = host_config("here");

    (void)state;
    memset(config.peer_key, 0x5a, sizeof(config.peer_key));
    host_start(&host, &config);
    job_attach(&job, &host, &shape);
    responder_listen(&there, config.peer_key);
    remote = NULL;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    job_detach(&job);
    responder_end(&there);
    host_end_endpoints(&host);
    host_stop(&host);
    return 0;
}

/* The job opens a segment of that host; the worker answers message 100. */
static void job_asks(const char *host_name)
{
    struct proto_remote ask = {.handle = JOB_HANDLE(0), .timeout_ms = 10 * HOST_CONNECT_MS};
    char text[PROTO_TEXT_MAX] = "";
    void *object = NULL;

    snprintf(ask.name, sizeof(ask.name), "%s:%u/wanted", host_name, there.port);
    assert_int_equal(remote_add(job.session, &ask, 100, text, sizeof(text)), TS_OK);
    (void)table_get(&job.session->remotes, JOB_HANDLE(0), &object);
    remote = object;
}

static const struct host_answer *answer(void)
{
    host_until(host_answer(&host, 100) != NULL);
    return host_answer(&host, 100);
}

static void expect_given_up(void)
{
    host_until(remote->endpoint->state == ENDPOINT_BACKOFF);
    assert_int_equal(remote->endpoint->connect.source.fd, -1);
    assert_null(host_answer(&host, 100)); /* it is tried again first */
}

/* Up to `step`, then not a word: only the deadline ends it. */
static void silence_after(unsigned step)
{
    static const enum endpoint_state states[] = {ENDPOINT_HANDSHAKE, ENDPOINT_HANDSHAKE,
                                                 ENDPOINT_HANDSHAKE};

    job_asks("127.0.0.1");
    if (step == 0)
        host_until(remote->endpoint->state == ENDPOINT_HANDSHAKE); /* the kernel has answered */
    else if (step == 1)
        responder_meets(&there);
    else
        responder_challenges(&there);
    host_turns(20);
    host_skip(&host, HOST_CONNECT_MS / 2);
    assert_int_equal(remote->endpoint->state, states[step]);
    host_skip(&host, HOST_CONNECT_MS + 1);
    expect_given_up();
}

static void test_silence_after_connect(void **state)
{
    (void)state;
    silence_after(0);
}

static void test_silence_after_hello(void **state)
{
    (void)state;
    silence_after(1);
}

static void test_silence_after_proof(void **state)
{
    (void)state;
    silence_after(2);
}

static void test_half_a_challenge(void **state)
{
    uint8_t bytes[HANDSHAKE_FRAME_MAX];

    (void)state;
    job_asks("127.0.0.1");
    responder_meets(&there);
    responder_says(&there, bytes, handshake_challenge_write(bytes, there.challenge) / 2);
    host_turns(20);
    assert_int_equal(remote->endpoint->state, ENDPOINT_HANDSHAKE);
    host_skip(&host, HOST_CONNECT_MS + 1);
    expect_given_up();
}

/* TCP may cut anything anywhere. */
static void test_byte_by_byte(void **state)
{
    uint8_t bytes[HANDSHAKE_FRAME_MAX];
    struct handshake_welcome welcome;
    size_t size;

    (void)state;
    job_asks("127.0.0.1");
    responder_meets(&there);
    size = handshake_challenge_write(bytes, there.challenge);
    for (size_t i = 0; i < size; i++)
        responder_says(&there, bytes + i, 1);
    responder_hears(&there, HANDSHAKE_PROOF, bytes);
    welcome = responder_welcome(&there);
    size = responder_welcome_write(&there, &welcome, bytes);
    for (size_t i = 0; i < size; i++)
        responder_says(&there, bytes + i, 1);
    host_until(remote->endpoint->state == ENDPOINT_READY);
}

static void test_end_after_connect(void **state)
{
    (void)state;
    job_asks("127.0.0.1");
    host_until(responder_accepts(&there));
    responder_hangs_up(&there);
    expect_given_up();
}

static void test_end_after_hello(void **state)
{
    (void)state;
    job_asks("127.0.0.1");
    responder_meets(&there);
    responder_hangs_up(&there);
    expect_given_up();
}

static void test_end_within_the_challenge(void **state)
{
    uint8_t bytes[HANDSHAKE_FRAME_MAX];

    (void)state;
    job_asks("127.0.0.1");
    responder_meets(&there);
    responder_says(&there, bytes, handshake_challenge_write(bytes, there.challenge) - 1);
    responder_hangs_up(&there);
    expect_given_up();
}

/* So looks a wrong key: each attempt ends behind PROOF.  After a while the job is told, and why. */
static void test_end_after_proof(void **state)
{
    (void)state;
    job_asks("127.0.0.1");
    for (int tries = 0; host_answer(&host, 100) == NULL; tries++) {
        assert_true(tries < 20);
        responder_challenges(&there);
        responder_hangs_up(&there);
        host_until(host_answer(&host, 100) != NULL || remote->endpoint->state == ENDPOINT_BACKOFF);
        if (host_answer(&host, 100) == NULL)
            host_skip(&host, 6000); /* the longest pause is 5 s and a quarter */
    }
    assert_int_equal(answer()->status, TS_ERR_AUTH);
    assert_non_null(strstr(answer()->text, "peer.key"));
}

static void test_not_our_protocol(void **state)
{
    static const char *const words[] = {"HTTP/1.1 400 Bad Request\r\n\r\n", "\x15\x03\x01",
                                        "SSH-2.0-OpenSSH_9.7\r\n"};

    (void)state;
    job_asks("127.0.0.1");
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        responder_meets(&there);
        responder_says(&there, (const uint8_t *)words[i], strlen(words[i]));
        expect_given_up(); /* at once */
        responder_hangs_up(&there);
        host_skip(&host, 6000);
    }
}

/* The right words in the wrong order. */
static void test_welcome_before_proof(void **state)
{
    struct handshake_welcome welcome;

    (void)state;
    job_asks("127.0.0.1");
    responder_meets(&there);
    welcome = responder_welcome(&there);
    responder_welcomes(&there, &welcome);
    expect_given_up();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_silence_after_connect, setup, teardown),
        cmocka_unit_test_setup_teardown(test_silence_after_hello, setup, teardown),
        cmocka_unit_test_setup_teardown(test_silence_after_proof, setup, teardown),
        cmocka_unit_test_setup_teardown(test_half_a_challenge, setup, teardown),
        cmocka_unit_test_setup_teardown(test_byte_by_byte, setup, teardown),
        cmocka_unit_test_setup_teardown(test_end_after_connect, setup, teardown),
        cmocka_unit_test_setup_teardown(test_end_after_hello, setup, teardown),
        cmocka_unit_test_setup_teardown(test_end_within_the_challenge, setup, teardown),
        cmocka_unit_test_setup_teardown(test_end_after_proof, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_our_protocol, setup, teardown),
        cmocka_unit_test_setup_teardown(test_welcome_before_proof, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
