/* The handshake's four messages, as either side reads them from the network. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shm/err.h"
#include "shm/handshake.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t key[HANDSHAKE_KEY], challenge[HANDSHAKE_NONCE];
static const uint8_t sent[] = "the HELLO that was sent";

static void require(int holds)
{
    if (!holds)
        abort();
}

/* What ibv_modify_qp and our own arrays can take. */
static void verbs_check(const struct handshake_verbs *verbs)
{
    if (!verbs->offered)
        return;
    require(verbs->gid_count >= 1 && verbs->gid_count <= HANDSHAKE_GIDS);
    require(verbs->data_qps >= 1 && verbs->data_qps <= HANDSHAKE_QPS);
    require(verbs->mtu >= 256 && verbs->mtu <= 4096 && (verbs->mtu & (verbs->mtu - 1)) == 0);
    require(verbs->psn <= 0xffffff && verbs->notify_qp <= 0xffffff && verbs->reads <= UINT8_MAX);
    for (uint32_t i = 0; i < verbs->data_qps; i++)
        require(verbs->data_qp[i] >= 1 && verbs->data_qp[i] <= 0xffffff);
}

/* Nobody knows the key by chance, so an answer with these is signed here. */
static void welcome_with(const struct handshake_verbs *verbs)
{
    struct handshake_welcome welcome = {.status = TS_OK, .verbs = *verbs}, read;
    uint8_t bytes[HANDSHAKE_FRAME_MAX], again[HANDSHAKE_FRAME_MAX];
    size_t size = handshake_welcome_write(bytes, key, sent, sizeof(sent), challenge, &welcome);

    require(handshake_welcome_read(bytes, size, key, sent, sizeof(sent), challenge, &read) ==
            TS_OK);
    require(handshake_welcome_write(again, key, sent, sizeof(sent), challenge, &read) == size);
    require(memcmp(again, bytes, size) == 0);
}

static void hello_try(const uint8_t *bytes, size_t size)
{
    struct handshake_hello hello, read;
    uint8_t again[HANDSHAKE_FRAME_MAX];

    if (handshake_hello_read(bytes, size, &hello) != TS_OK)
        return;
    require(memchr(hello.host, 0, sizeof(hello.host)) != NULL);
    require(memchr(hello.address, 0, sizeof(hello.address)) != NULL);
    require(memchr(hello.worker_name, 0, sizeof(hello.worker_name)) != NULL);
    require(memchr(hello.segment, 0, sizeof(hello.segment)) != NULL);
    verbs_check(&hello.verbs);
    /* What was read can be said again, and is the same then. */
    size = handshake_hello_write(again, &hello);
    require(handshake_hello_read(again, size, &read) == TS_OK);
    verbs_check(&read.verbs);
    welcome_with(&hello.verbs);
}

/* Nobody knows the key by chance, so the body is signed here, as a peer with the key would. */
static void welcome_try(const uint8_t *json, size_t size)
{
    struct handshake_welcome welcome = {.status = TS_OK};
    uint8_t bytes[HANDSHAKE_FRAME_MAX];
    int rc;

    rc = handshake_welcome_read(json, size, key, sent, sizeof(sent), challenge, &welcome);
    require(rc != TS_OK);
    size = handshake_welcome_write(bytes, key, sent, sizeof(sent), challenge, &welcome);
    require(handshake_welcome_read(bytes, size, key, sent, sizeof(sent), challenge, &welcome) ==
            TS_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t nonce[HANDSHAKE_NONCE];
    uint8_t bytes[HANDSHAKE_FRAME_MAX];

    if (size > sizeof(bytes))
        size = sizeof(bytes);
    memcpy(bytes, data, size); /* readers get a buffer of this size, filled from its start */
    for (int type = HANDSHAKE_HELLO; type <= HANDSHAKE_WELCOME; type++) {
        int whole = handshake_size(bytes, size, (enum handshake_type)type);

        require(whole <= (int)HANDSHAKE_FRAME_MAX);
        if (whole <= 0 || (size_t)whole > size)
            continue;
        if (type == HANDSHAKE_CHALLENGE)
            (void)handshake_challenge_read(bytes, (size_t)whole, nonce);
    }
    hello_try(bytes, size);
    require(handshake_proof_check(bytes, size, key, sent, sizeof(sent), challenge) != TS_OK);
    welcome_try(bytes, size);
    return 0;
}
