/* An endpoint to a peer worker that the fuzzer plays, and a segment of the peer's that the job
 * opened. */
#ifndef TESUP_TESTS_FUZZ_ENDPOINT_FIXTURE_H
#define TESUP_TESTS_FUZZ_ENDPOINT_FIXTURE_H

#include "tests/fuzz/worker_fixture.h"

#define PEER_OPEN   7u /* the peer's handle of the segment that the job opened */
#define PEER_CREDIT 2000u

static struct endpoint *peer_endpoint(void)
{
    struct handshake_hello hello = {.generation = 1,
                                    .address = "peer:1",
                                    .worker_name = "peer",
                                    .segment = FIXTURE_SEGMENT,
                                    .notify_max = FIXTURE_NOTIFY_MAX};
    char text[PROTO_TEXT_MAX] = "";
    struct endpoint *endpoint;

    memset(hello.worker, 0xfe, sizeof(hello.worker));
    endpoint = endpoint_accept(&fixture.worker, &hello, text, sizeof(text));
    fixture_require(endpoint != NULL, text);
    return endpoint;
}

/* The job opens a segment of ours: an attempt to an address that nobody can reach is handed over to
 * this endpoint, and we answer OPENED when `opened`. */
static void peer_remote(struct endpoint *endpoint, bool opened)
{
    const struct proto_remote ask = {
        .handle = FIXTURE_HANDLE(0), .timeout_ms = 1000, .name = "[::ffff:0.0.0.0]:1/other"};
    const struct frame answer = {.type = FRAME_OPENED, .open = PEER_OPEN, .value = PEER_CREDIT};
    char text[PROTO_TEXT_MAX] = "";
    struct remote *remote;
    struct endpoint *attempt;
    void *object;

    fixture_require(remote_add(fixture.session, &ask, 1, text, sizeof(text)) == TS_OK, text);
    fixture_require(table_get(&fixture.session->remotes, ask.handle, &object) == TS_OK, "remote");
    remote = object;
    attempt = remote->endpoint;
    if (attempt == NULL)
        return;
    endpoint_hand_over(attempt, endpoint);
    endpoint_handle(attempt, ENDPOINT_EVENT_DRAINED, TS_OK, "");
    if (opened)
        remote_on_opened(remote, &answer, "");
}

#endif
