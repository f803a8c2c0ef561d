/* A name with several addresses: each is tried before the attempt counts as failed.  The program
 * has its own getaddrinfo(3), which the worker's code in it calls. */
#include "tests/harness/test.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/err.h"
#include "tests/harness/worker/job.h"
#include "tests/harness/worker/responder.h"

static struct host host;
static struct job job;
static struct responder there;
static struct remote *remote;

#define ADDRESSES 3

/* 127.0.0.1 answers; nobody listens at the others, all of this host. */
static const char *addresses[ADDRESSES];
static struct addrinfo found[ADDRESSES];
static struct sockaddr_in places[ADDRESSES];
static unsigned asked, freed;

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **result)
{
    int count = 0;

    assert_string_equal(name, "many.example");
    assert_int_equal(hints->ai_socktype, SOCK_STREAM);
    for (; count < ADDRESSES && addresses[count] != NULL; count++) {
        places[count] =
            (struct sockaddr_in){.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)strtoul(service, NULL, 10)),
                                 .sin_addr.s_addr = inet_addr(addresses[count])};
        found[count] = (struct addrinfo){.ai_family = AF_INET,
                                         .ai_socktype = SOCK_STREAM,
                                         .ai_addr = (struct sockaddr *)&places[count],
                                         .ai_addrlen = sizeof(places[count])};
        if (count > 0)
            found[count - 1].ai_next = &found[count];
    }
    *result = found;
    asked++;
    return count > 0 ? 0 : EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *result)
{
    assert_ptr_equal(result, found);
    freed++;
}

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
    asked = freed = 0;
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

static void test_the_last_one_answers(void **state)
{
    struct handshake_welcome welcome;

    (void)state;
    addresses[0] = "127.0.0.3";
    addresses[1] = "127.0.0.2";
    addresses[2] = "127.0.0.1";
    job_asks("many.example");
    responder_challenges(&there);
    assert_int_equal(remote->endpoint->attempts, 0); /* still the first attempt */
    welcome = responder_welcome(&there);
    responder_welcomes(&there, &welcome);
    host_until(remote->endpoint->state == ENDPOINT_READY);
    assert_int_equal(asked, 1);
    assert_int_equal(freed, 1);
}

/* Once one has answered, it is that host: its silence is not made up for by another address. */
static void test_the_first_one_answers(void **state)
{
    (void)state;
    addresses[0] = "127.0.0.1";
    addresses[1] = "127.0.0.1";
    addresses[2] = NULL;
    job_asks("many.example");
    responder_meets(&there);
    responder_hangs_up(&there);
    host_until(remote->endpoint->state == ENDPOINT_BACKOFF);
    assert_false(responder_accepts(&there));
}

static void test_none_answers(void **state)
{
    (void)state;
    addresses[0] = "127.0.0.3";
    addresses[1] = "127.0.0.2";
    addresses[2] = NULL;
    job_asks("many.example");
    for (int tries = 0; host_answer(&host, 100) == NULL; tries++) {
        assert_true(tries < 20);
        host_until(host_answer(&host, 100) != NULL || remote->endpoint->state == ENDPOINT_BACKOFF);
        if (host_answer(&host, 100) == NULL)
            host_skip(&host, 6000); /* the longest pause is 5 s and a quarter */
    }
    assert_int_equal(answer()->status, TS_ERR_UNREACHABLE);
    assert_non_null(strstr(answer()->text, "Connection refused"));
    host_until(freed == asked);
}

static void test_no_such_host(void **state)
{
    (void)state;
    addresses[0] = NULL;
    job_asks("many.example");
    assert_int_equal(answer()->status, TS_ERR_UNREACHABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_last_one_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_first_one_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_none_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_such_host, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
