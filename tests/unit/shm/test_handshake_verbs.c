/* What two sides tell each other of their queue pairs: as it was said, or not at all.  A wrong
 * value is refused, not corrected. */
#include "tests/harness/test.h"

#include <jansson.h>
#include <string.h>

#include "shm/err.h"
#include "shm/handshake.h"

#define SKIP    (12u + HANDSHAKE_NONCE) /* bytes before the JSON of a HELLO */
#define QPN_MAX 0xffffffu               /* 24 bits on the wire */

static const uint8_t key[HANDSHAKE_KEY] = {7};
static const uint8_t challenge[HANDSHAKE_NONCE] = {9};

static struct handshake_verbs offer_full(void)
{
    struct handshake_verbs offer = {.offered = true,
                                    .gid_count = HANDSHAKE_GIDS,
                                    .gid_chosen = HANDSHAKE_GIDS - 1,
                                    .lid = UINT16_MAX,
                                    .mtu = 4096,
                                    .psn = QPN_MAX,
                                    .notify_qp = QPN_MAX,
                                    .data_qps = HANDSHAKE_QPS,
                                    .window = UINT16_MAX,
                                    .reads = UINT8_MAX};

    for (uint32_t i = 0; i < HANDSHAKE_GIDS; i++) {
        memset(offer.gid[i], (int)(0xf0 + i), sizeof(offer.gid[i]));
        offer.gid_type[i] = (uint8_t)(i % 3);
    }
    for (uint32_t i = 0; i < HANDSHAKE_QPS; i++)
        offer.data_qp[i] = QPN_MAX - i;
    return offer;
}

static struct handshake_hello hello_with(const struct handshake_verbs *offer)
{
    struct handshake_hello hello = {
        .generation = 3, .host = "host", .address = "a:1", .worker_name = "w", .segment = "s"};

    hello.verbs = *offer;
    return hello;
}

static void expect_equal(const struct handshake_verbs *read, const struct handshake_verbs *said)
{
    assert_memory_equal(read, said, sizeof(*read));
}

static void test_hello(void **state)
{
    const struct handshake_verbs offer = offer_full();
    const struct handshake_hello hello = hello_with(&offer);
    struct handshake_hello read;
    uint8_t bytes[HANDSHAKE_FRAME_MAX];
    size_t size = handshake_hello_write(bytes, &hello);

    (void)state;
    assert_true(size > 0 && size <= sizeof(bytes)); /* the largest there is fits */
    assert_int_equal(handshake_hello_read(bytes, size, &read), TS_OK);
    expect_equal(&read.verbs, &offer);
}

static void test_welcome(void **state)
{
    struct handshake_welcome welcome = {.status = TS_OK, .worker_name = "w"}, read;
    static const uint8_t hello[] = "the HELLO that was sent";
    uint8_t bytes[HANDSHAKE_FRAME_MAX];
    size_t size;

    (void)state;
    welcome.verbs = offer_full();
    memset(welcome.text, 't', sizeof(welcome.text) - 1);
    memset(welcome.local_socket, 'l', sizeof(welcome.local_socket) - 1);
    size = handshake_welcome_write(bytes, key, hello, sizeof(hello), challenge, &welcome);
    assert_int_equal(
        handshake_welcome_read(bytes, size, key, hello, sizeof(hello), challenge, &read), TS_OK);
    expect_equal(&read.verbs, &welcome.verbs);
}

/* The smallest values that are no lie. */
static void test_least(void **state)
{
    const struct handshake_verbs offer = {
        .offered = true, .gid_count = 1, .mtu = 256, .data_qps = 1, .data_qp = {1}};
    const struct handshake_hello hello = hello_with(&offer);
    struct handshake_hello read;
    uint8_t bytes[HANDSHAKE_FRAME_MAX];

    (void)state;
    assert_int_equal(handshake_hello_read(bytes, handshake_hello_write(bytes, &hello), &read),
                     TS_OK);
    expect_equal(&read.verbs, &offer);
}

static void test_none(void **state)
{
    const struct handshake_verbs none = {.offered = false};
    const struct handshake_hello hello = hello_with(&none);
    struct handshake_hello read;
    uint8_t bytes[HANDSHAKE_FRAME_MAX];
    size_t size = handshake_hello_write(bytes, &hello);

    (void)state;
    assert_int_equal(handshake_hello_read(bytes, size, &read), TS_OK);
    expect_equal(&read.verbs, &none);
    assert_null(memmem(bytes, size, "verbs", 5)); /* older readers see what they know */
}

/* ---- wrong values ---- */

/* HELLO with `value` (JSON) in place of the offer's `name`, or of the whole offer when that is
 * NULL;
 * "" removes it. */
static int hello_read_with(const char *name, const char *value)
{
    const struct handshake_verbs offer = offer_full();
    const struct handshake_hello hello = hello_with(&offer);
    struct handshake_hello read;
    uint8_t bytes[2 * HANDSHAKE_FRAME_MAX];
    size_t size = handshake_hello_write(bytes, &hello);
    json_t *object = json_loadb((char *)bytes + SKIP, size - SKIP, 0, NULL);
    json_t *where = name != NULL ? json_object_get(object, "verbs") : object;
    uint32_t length;

    name = name != NULL ? name : "verbs";
    assert_non_null(json_object_get(where, name));
    if (value[0] == '\0')
        json_object_del(where, name);
    else
        json_object_set_new(where, name, json_loads(value, JSON_DECODE_ANY, NULL));
    size = json_dumpb(object, (char *)bytes + SKIP, sizeof(bytes) - SKIP, JSON_COMPACT);
    json_decref(object);
    length = (uint32_t)(HANDSHAKE_NONCE + size);
    memcpy(bytes + 8, &length, sizeof(length));
    return handshake_hello_read(bytes, SKIP + size, &read);
}

#define GID "\"fe800000000000000000000000000001\""
#define GIDS8                                                                                   \
    "[" GID ",0],[" GID ",0],[" GID ",0],[" GID ",0],[" GID ",0],[" GID ",0],[" GID ",0],[" GID \
    ",0]"

static void test_wrong_values(void **state)
{
    static const char *const wrong[][2] = {
        {"gids", ""},
        {"gids", "[]"},
        {"gids", "{}"},
        {"gids", "[" GIDS8 ",[" GID ",0]]"},
        {"gids", "[[\"fe80\",0]]"},
        {"gids", "[[\"fe8000000000000000000000000000011\",0]]"},
        {"gids", "[[\"fe80000000000000000000000000000100\",0]]"},
        {"gids", "[[\"fg800000000000000000000000000001\",0]]"},
        {"gids", "[[17,0]]"},
        {"gids", "[[" GID "]]"},
        {"gids", "[[" GID ",-1]]"},
        {"gids", "[[" GID ",256]]"},
        {"gids", "[[" GID ",\"0\"]]"},
        {"gids", "[" GID "]"},
        {"chosen", ""},
        {"chosen", "-1"},
        {"chosen", "8"},
        {"chosen", "0.5"},
        {"lid", ""},
        {"lid", "65536"},
        {"mtu", ""},
        {"mtu", "0"},
        {"mtu", "128"},
        {"mtu", "1000"},
        {"mtu", "4095"},
        {"mtu", "8192"},
        {"mtu", "\"1024\""},
        {"psn", ""},
        {"psn", "16777216"},
        {"psn", "-1"},
        {"notify_qp", ""},
        {"notify_qp", "16777216"},
        {"notify_qp", "4294967297"},
        {"data_qps", ""},
        {"data_qps", "[]"},
        {"data_qps", "7"},
        {"data_qps", "[0]"},
        {"data_qps", "[-1]"},
        {"data_qps", "[16777216]"},
        {"data_qps", "[\"1\"]"},
        {"data_qps", "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]"},
        {"window", ""},
        {"window", "65536"},
        {"window", "-1"},
        {"reads", ""},
        {"reads", "256"},
    };

    (void)state;
    assert_int_equal(hello_read_with("gids", "[" GIDS8 "]"), TS_OK);
    assert_int_equal(hello_read_with("mtu", "512"), TS_OK);
    assert_int_equal(hello_read_with("data_qps", "[16777215]"), TS_OK);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        if (hello_read_with(wrong[i][0], wrong[i][1]) != TS_ERR_PROTOCOL)
            print_error("%s = %s was taken\n", wrong[i][0], wrong[i][1]);
        assert_int_equal(hello_read_with(wrong[i][0], wrong[i][1]), TS_ERR_PROTOCOL);
    }
}

static void test_no_object(void **state)
{
    (void)state;
    assert_int_equal(hello_read_with(NULL, ""), TS_OK);
    assert_int_equal(hello_read_with(NULL, "7"), TS_ERR_PROTOCOL);
    assert_int_equal(hello_read_with(NULL, "[]"), TS_ERR_PROTOCOL);
    assert_int_equal(hello_read_with(NULL, "{}"), TS_ERR_PROTOCOL);
    assert_int_equal(hello_read_with(NULL, "null"), TS_ERR_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hello),        cmocka_unit_test(test_welcome),
        cmocka_unit_test(test_least),        cmocka_unit_test(test_none),
        cmocka_unit_test(test_wrong_values), cmocka_unit_test(test_no_object),
    };

    return cmocka_run_group_tests_name("verbs in the handshake", tests, NULL, NULL);
}
