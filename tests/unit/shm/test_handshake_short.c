/* Messages of the handshake that end too early: refused, and nothing beyond their end is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "shm/err.h"
#include "shm/handshake.h"

static const uint8_t key[HANDSHAKE_KEY] = {7};
static const uint8_t challenge[HANDSHAKE_NONCE] = {9};
static uint8_t hello_bytes[HANDSHAKE_FRAME_MAX];
static size_t hello_size;

static int group_setup(void **state)
{
    const struct handshake_hello hello = {
        .generation = 3, .host = "host", .address = "a:1", .worker_name = "w", .segment = "s"};

    (void)state;
    hello_size = handshake_hello_write(hello_bytes, &hello);
    return 0;
}

static int read_hello(const uint8_t *bytes, size_t size)
{
    struct handshake_hello hello;

    return handshake_hello_read(bytes, size, &hello);
}

static int read_challenge(const uint8_t *bytes, size_t size)
{
    uint8_t nonce[HANDSHAKE_NONCE];

    return handshake_challenge_read(bytes, size, nonce);
}

static int read_proof(const uint8_t *bytes, size_t size)
{
    return handshake_proof_check(bytes, size, key, hello_bytes, hello_size, challenge);
}

static int read_welcome(const uint8_t *bytes, size_t size)
{
    struct handshake_welcome welcome;

    return handshake_welcome_read(bytes, size, key, hello_bytes, hello_size, challenge, &welcome);
}

/* Every prefix in a buffer of its own, so that ASan sees a read beyond it. */
static void prefixes_expect_refused(int (*read)(const uint8_t *, size_t), const uint8_t *bytes,
                                    size_t size)
{
    assert_int_equal(read(bytes, size), TS_OK);
    for (size_t part = 0; part < size; part++) {
        uint8_t *copy = malloc(part > 0 ? part : 1);

        assert_non_null(copy);
        memcpy(copy, bytes, part);
        assert_int_equal(read(copy, part), TS_ERR_PROTOCOL);
        free(copy);
    }
}

static void test_hello(void **state)
{
    (void)state;
    prefixes_expect_refused(read_hello, hello_bytes, hello_size);
}

static void test_challenge(void **state)
{
    uint8_t bytes[HANDSHAKE_FRAME_MAX], nonce[HANDSHAKE_NONCE];

    (void)state;
    prefixes_expect_refused(read_challenge, bytes, handshake_challenge_write(bytes, nonce));
}

static void test_proof(void **state)
{
    uint8_t bytes[HANDSHAKE_FRAME_MAX];

    (void)state;
    prefixes_expect_refused(read_proof, bytes,
                            handshake_proof_write(bytes, key, hello_bytes, hello_size, challenge));
}

static void test_welcome(void **state)
{
    const struct handshake_welcome welcome = {.status = TS_OK, .worker_name = "w"};
    uint8_t bytes[HANDSHAKE_FRAME_MAX];

    (void)state;
    prefixes_expect_refused(
        read_welcome, bytes,
        handshake_welcome_write(bytes, key, hello_bytes, hello_size, challenge, &welcome));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hello),
        cmocka_unit_test(test_challenge),
        cmocka_unit_test(test_proof),
        cmocka_unit_test(test_welcome),
    };

    return cmocka_run_group_tests_name("short handshake messages", tests, group_setup, NULL);
}
