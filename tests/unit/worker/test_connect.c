/* The initiator's half of the handshake: what it says, and whom it believes. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* An attempt that failed is made again, with a generation of its own. */
static void expect_another_attempt(void)
{
    uint64_t generation = there.said.generation;

    host_until(remote->endpoint->state == ENDPOINT_BACKOFF);
    assert_null(host_answer(&host, 100));
    responder_hangs_up(&there);
    host_skip(&host, 1000);
    responder_challenges(&there);
    assert_true(there.said.generation > generation);
}

static void test_welcome(void **state)
{
    struct handshake_welcome welcome;

    (void)state;
    job_asks("127.0.0.1");
    responder_challenges(&there);
    assert_string_equal(there.said.segment, "wanted");
    assert_string_equal(there.said.address, "127.0.0.1:1");
    assert_string_equal(there.said.worker_name, "here");
    assert_memory_equal(there.said.worker, host.worker.id, HANDSHAKE_ID);
    assert_int_equal(there.said.notify_max, HOST_NOTIFY_MAX);
    assert_false(there.said.local); /* the fabric is tcp */
    welcome = responder_welcome(&there);
    responder_welcomes(&there, &welcome);
    host_until(remote->endpoint->state == ENDPOINT_READY);
    assert_memory_equal(remote->endpoint->peer_id, welcome.worker, HANDSHAKE_ID);
    assert_string_equal(remote->endpoint->peer_name, "there");
    assert_true(remote->endpoint->initiated);
    host_skip(&host, HOST_CONNECT_MS + 1); /* the deadline of the attempt is over with it */
    assert_int_equal(remote->endpoint->state, ENDPOINT_READY);
}

/* What follows WELCOME in the same packet belongs to the link. */
static void test_frames_right_behind_it(void **state)
{
    const struct frame opened = {
        .type = FRAME_OPENED, .request = 1u << TABLE_INDEX_BITS, .open = 5, .value = 77};
    uint8_t bytes[HANDSHAKE_FRAME_MAX + sizeof(opened)];
    struct handshake_welcome welcome;
    size_t size;

    (void)state;
    job_asks("127.0.0.1");
    responder_challenges(&there);
    welcome = responder_welcome(&there);
    size = responder_welcome_write(&there, &welcome, bytes);
    memcpy(bytes + size, &opened, sizeof(opened));
    responder_says(&there, bytes, size + sizeof(opened));
    assert_int_equal(answer()->status, TS_OK);
    assert_int_equal(remote->credit, 77);
}

/* The answer to another attempt must never configure this one. */
static void test_welcome_of_another_generation(void **state)
{
    struct handshake_welcome welcome;

    (void)state;
    job_asks("127.0.0.1");
    responder_challenges(&there);
    welcome = responder_welcome(&there);
    welcome.generation--;
    responder_welcomes(&there, &welcome);
    assert_false(remote->endpoint->known);
    expect_another_attempt();
}

static void test_worker_restarts(void **state)
{
    struct handshake_welcome welcome;

    (void)state;
    job_asks("127.0.0.1");
    responder_challenges(&there);
    welcome = responder_welcome(&there);
    welcome.status = TS_AGAIN;
    responder_welcomes(&there, &welcome);
    expect_another_attempt();
}

static void test_final_no(void **state)
{
    struct handshake_welcome welcome;

    (void)state;
    job_asks("127.0.0.1");
    responder_challenges(&there);
    welcome = responder_welcome(&there);
    welcome.status = TS_ERR_NOT_FOUND;
    snprintf(welcome.text, sizeof(welcome.text), "no segment of that name");
    responder_welcomes(&there, &welcome);
    assert_int_equal(answer()->status, TS_ERR_NOT_FOUND);
    assert_non_null(strstr(answer()->text, "no segment of that name"));
    host_until(host.worker.endpoint_count == 1);
}

/* Who does not know the key is not believed, whatever he says. */
static void test_welcome_without_the_key(void **state)
{
    struct handshake_welcome welcome;

    (void)state;
    job_asks("127.0.0.1");
    responder_challenges(&there);
    welcome = responder_welcome(&there);
    there.key[0] ^= 1;
    responder_welcomes(&there, &welcome);
    assert_int_equal(answer()->status, TS_ERR_AUTH);
    host_until(host.worker.endpoint_count == 1);
}

/* A WELCOME that was recorded belongs to another HELLO. */
static void test_welcome_of_another_hello(void **state)
{
    struct handshake_welcome welcome;

    (void)state;
    job_asks("127.0.0.1");
    responder_challenges(&there);
    welcome = responder_welcome(&there);
    there.hello[20] ^= 1; /* within the nonce */
    responder_welcomes(&there, &welcome);
    assert_int_equal(answer()->status, TS_ERR_AUTH);
}

/* Two names of one worker: the connection that is there is used for both. */
static void test_connection_that_is_there(void **state)
{
    struct handshake_welcome welcome;
    struct endpoint *kept;

    (void)state;
    job_asks("127.0.0.1");
    responder_challenges(&there);
    welcome = responder_welcome(&there);
    kept = host_endpoint(&host, "there", 0xee, HOST_NOTIFY_MAX);
    int pair[2];
    host_stream_pair(pair);
    kept->link = tcp_link_open(kept, pair[0]);
    kept->initiated = true;
    endpoint_handle(kept, ENDPOINT_EVENT_ACCEPTED, TS_OK, "");
    responder_welcomes(&there, &welcome);
    host_until(remote->endpoint == kept);
    host_until(host.worker.endpoint_count == 2);
    assert_int_equal(host_stat(&host.worker.stats->endpoint_duplicate), 1);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_welcome, setup, teardown),
        cmocka_unit_test_setup_teardown(test_frames_right_behind_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_welcome_of_another_generation, setup, teardown),
        cmocka_unit_test_setup_teardown(test_worker_restarts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_final_no, setup, teardown),
        cmocka_unit_test_setup_teardown(test_welcome_without_the_key, setup, teardown),
        cmocka_unit_test_setup_teardown(test_welcome_of_another_hello, setup, teardown),
        cmocka_unit_test_setup_teardown(test_connection_that_is_there, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
