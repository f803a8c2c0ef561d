#include "shm/handshake.h"

#include <fcntl.h>
#include <jansson.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/err.h"

#define PREAMBLE_MAGIC 0x48505354u /* "TSPH" */

struct preamble {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    uint32_t length; /* of what follows */
};
static_assert(sizeof(struct preamble) == 12, "preamble is 12 bytes");
static_assert(crypto_auth_BYTES == HANDSHAKE_MAC, "mac size");
static_assert(crypto_auth_KEYBYTES == HANDSHAKE_KEY, "key size");

static const struct {
    uint32_t min, max;
} handshake_lengths[] = {
    [HANDSHAKE_HELLO] = {HANDSHAKE_NONCE + 2, HANDSHAKE_FRAME_MAX - sizeof(struct preamble)},
    [HANDSHAKE_CHALLENGE] = {HANDSHAKE_NONCE, HANDSHAKE_NONCE},
    [HANDSHAKE_PROOF] = {HANDSHAKE_MAC, HANDSHAKE_MAC},
    [HANDSHAKE_WELCOME] = {HANDSHAKE_MAC + 2, HANDSHAKE_FRAME_MAX - sizeof(struct preamble)},
};

int handshake_size(const uint8_t *bytes, size_t have, enum handshake_type type)
{
    static const uint8_t magic[4] = {0x54, 0x53, 0x50, 0x48};
    struct preamble head;

    /* HTTP and TLS probes are known by their first byte; do not wait for more. */
    if (memcmp(bytes, magic, have < sizeof(magic) ? have : sizeof(magic)) != 0)
        return TS_ERR_PROTOCOL;
    if (have < sizeof(head))
        return 0;
    memcpy(&head, bytes, sizeof(head));
    if (head.version != HANDSHAKE_VERSION)
        return TS_ERR_VERSION;
    if (head.type != type || head.length < handshake_lengths[type].min ||
        head.length > handshake_lengths[type].max)
        return TS_ERR_PROTOCOL;
    return (int)(sizeof(head) + head.length);
}

static size_t preamble_write(uint8_t *bytes, enum handshake_type type, size_t length)
{
    struct preamble head = {.magic = PREAMBLE_MAGIC,
                            .version = HANDSHAKE_VERSION,
                            .type = (uint16_t)type,
                            .length = (uint32_t)length};

    memcpy(bytes, &head, sizeof(head));
    return sizeof(head) + length;
}

void handshake_random(void *bytes, size_t size)
{
    randombytes_buf(bytes, size);
}

void handshake_host_id(char host[65])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = 0;

    memset(host, 0, 65);
    if (fd < 0)
        return;
    got = read(fd, host, 64);
    close(fd);
    host[got > 0 ? got : 0] = '\0';
    host[strcspn(host, "\n")] = '\0';
}

/* mac(key, label, HELLO, challenge, body): labels keep the two directions apart. */
static void handshake_mac(uint8_t mac[HANDSHAKE_MAC], const uint8_t key[HANDSHAKE_KEY],
                          const char *label, const uint8_t *hello, size_t hello_size,
                          const uint8_t challenge[HANDSHAKE_NONCE], const uint8_t *body,
                          size_t body_size)
{
    crypto_auth_hmacsha512256_state state;
    uint64_t size = hello_size;

    crypto_auth_hmacsha512256_init(&state, key, HANDSHAKE_KEY);
    crypto_auth_hmacsha512256_update(&state, (const uint8_t *)label, strlen(label) + 1);
    crypto_auth_hmacsha512256_update(&state, (const uint8_t *)&size, sizeof(size));
    crypto_auth_hmacsha512256_update(&state, hello, hello_size);
    crypto_auth_hmacsha512256_update(&state, challenge, HANDSHAKE_NONCE);
    crypto_auth_hmacsha512256_update(&state, body, body_size);
    crypto_auth_hmacsha512256_final(&state, mac);
}

static size_t json_write(uint8_t *bytes, size_t room, json_t *object)
{
    size_t size = json_dumpb(object, (char *)bytes, room, JSON_COMPACT);

    json_decref(object);
    return size <= room ? size : 0;
}

static bool id_from_hex(uint8_t id[HANDSHAKE_ID], const char *hex)
{
    size_t size = 0;

    return hex != NULL &&
           sodium_hex2bin(id, HANDSHAKE_ID, hex, strlen(hex), NULL, &size, NULL) == 0 &&
           size == HANDSHAKE_ID;
}

static bool text_copy(char *to, size_t room, const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    if (text == NULL || strlen(text) >= room)
        return false;
    memcpy(to, text, strlen(text) + 1);
    return true;
}

static bool number_copy(uint64_t *to, const json_t *object, const char *key, uint64_t max)
{
    const json_t *value = json_object_get(object, key);
    json_int_t number = json_integer_value(value);

    if (!json_is_integer(value) || number < 0 || (uint64_t)number > max)
        return false;
    *to = (uint64_t)number;
    return true;
}

static json_t *verbs_write(const struct handshake_verbs *verbs)
{
    json_t *gids = json_array(), *qps = json_array();
    char gid[33];

    for (uint32_t i = 0; i < verbs->gid_count; i++) {
        sodium_bin2hex(gid, sizeof(gid), verbs->gid[i], 16);
        json_array_append_new(gids, json_pack("[s, i]", gid, verbs->gid_type[i]));
    }
    for (uint32_t i = 0; i < verbs->data_qps; i++)
        json_array_append_new(qps, json_integer(verbs->data_qp[i]));
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:b}", "gids", gids,
                     "pairs", (json_int_t)verbs->gid_pairs, "chosen", (json_int_t)verbs->gid_chosen,
                     "lid", (json_int_t)verbs->lid, "mtu", (json_int_t)verbs->mtu, "psn",
                     (json_int_t)verbs->psn, "notify_qp", (json_int_t)verbs->notify_qp, "data_qps",
                     qps, "window", (json_int_t)verbs->window, "reads", (json_int_t)verbs->reads,
                     "renews", verbs->renews);
}

static bool gids_read(const json_t *gids, struct handshake_verbs *verbs)
{
    size_t count = json_array_size(gids), size = 0;

    if (count == 0 || count > HANDSHAKE_GIDS)
        return false;
    for (size_t i = 0; i < count; i++) {
        const json_t *entry = json_array_get(gids, i), *type = json_array_get(entry, 1);
        const char *hex = json_string_value(json_array_get(entry, 0));

        if (hex == NULL || !json_is_integer(type) || json_integer_value(type) < 0 ||
            json_integer_value(type) > UINT8_MAX ||
            sodium_hex2bin(verbs->gid[i], 16, hex, strlen(hex), NULL, &size, NULL) != 0 ||
            size != 16)
            return false;
        verbs->gid_type[i] = (uint8_t)json_integer_value(type);
    }
    verbs->gid_count = (uint32_t)count;
    return true;
}

static bool qps_read(const json_t *qps, struct handshake_verbs *verbs)
{
    size_t count = json_array_size(qps);

    if (count == 0 || count > HANDSHAKE_QPS)
        return false;
    for (size_t i = 0; i < count; i++) {
        const json_t *qp = json_array_get(qps, i);

        if (!json_is_integer(qp) || json_integer_value(qp) <= 0 ||
            json_integer_value(qp) > HANDSHAKE_QPN_MAX)
            return false;
        verbs->data_qp[i] = (uint32_t)json_integer_value(qp);
    }
    verbs->data_qps = (uint32_t)count;
    return true;
}

/* Optional: a side without RDMA says nothing of it.  Wrong values are refused, not corrected. */
static bool verbs_read(const json_t *object, struct handshake_verbs *verbs)
{
    const json_t *from = json_object_get(object, "verbs");
    struct {
        const char *key;
        uint32_t *to;
        uint64_t max;
    } numbers[] = {
        {"chosen", &verbs->gid_chosen, HANDSHAKE_GIDS - 1},
        {"pairs", &verbs->gid_pairs, HANDSHAKE_GIDS * HANDSHAKE_GIDS},
        {"lid", &verbs->lid, UINT16_MAX},
        {"mtu", &verbs->mtu, 4096},
        {"psn", &verbs->psn, HANDSHAKE_QPN_MAX},
        {"notify_qp", &verbs->notify_qp, HANDSHAKE_QPN_MAX},
        {"window", &verbs->window, UINT16_MAX},
        {"reads", &verbs->reads, UINT8_MAX},
    };
    uint64_t number;

    if (from == NULL)
        return true;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (!number_copy(&number, from, numbers[i].key, numbers[i].max))
            return false;
        *numbers[i].to = (uint32_t)number;
    }
    if (verbs->mtu < 256 || (verbs->mtu & (verbs->mtu - 1)) != 0)
        return false;
    verbs->offered = true;
    verbs->renews = json_is_true(json_object_get(from, "renews"));
    return gids_read(json_object_get(from, "gids"), verbs) &&
           qps_read(json_object_get(from, "data_qps"), verbs);
}

size_t handshake_hello_write(uint8_t *bytes, const struct handshake_hello *hello)
{
    char worker[HANDSHAKE_ID * 2 + 1];
    uint8_t *body = bytes + sizeof(struct preamble);
    size_t size;

    handshake_random(body, HANDSHAKE_NONCE);
    sodium_bin2hex(worker, sizeof(worker), hello->worker, HANDSHAKE_ID);
    size = json_write(
        body + HANDSHAKE_NONCE, HANDSHAKE_FRAME_MAX - sizeof(struct preamble) - HANDSHAKE_NONCE,
        json_pack("{s:s, s:I, s:s, s:s, s:s, s:s, s:b, s:I, s:o*}", "worker", worker, "generation",
                  (json_int_t)hello->generation, "host", hello->host, "address", hello->address,
                  "name", hello->worker_name, "segment", hello->segment, "local", hello->local,
                  "notify_max", (json_int_t)hello->notify_max, "verbs",
                  hello->verbs.offered ? verbs_write(&hello->verbs) : NULL));
    return preamble_write(bytes, HANDSHAKE_HELLO, HANDSHAKE_NONCE + size);
}

static json_t *json_read(const uint8_t *bytes, size_t size)
{
    json_error_t error;
    json_t *object = json_loadb((const char *)bytes, size, JSON_REJECT_DUPLICATES, &error);

    if (object != NULL && !json_is_object(object)) {
        json_decref(object);
        object = NULL;
    }
    return object;
}

int handshake_hello_read(const uint8_t *bytes, size_t size, struct handshake_hello *hello)
{
    const size_t skip = sizeof(struct preamble) + HANDSHAKE_NONCE;
    int whole = handshake_size(bytes, size, HANDSHAKE_HELLO);
    uint64_t notify_max = 0;
    json_t *object;
    bool good;

    if (whole < 0)
        return whole;
    if (whole == 0 || (size_t)whole != size) /* 0: too short for a preamble */
        return TS_ERR_PROTOCOL;
    object = json_read(bytes + skip, size - skip);
    if (object == NULL)
        return TS_ERR_PROTOCOL;
    memset(hello, 0, sizeof(*hello));
    good = id_from_hex(hello->worker, json_string_value(json_object_get(object, "worker"))) &&
           number_copy(&hello->generation, object, "generation", INT64_MAX) &&
           text_copy(hello->host, sizeof(hello->host), object, "host") &&
           text_copy(hello->address, sizeof(hello->address), object, "address") &&
           text_copy(hello->worker_name, sizeof(hello->worker_name), object, "name") &&
           text_copy(hello->segment, sizeof(hello->segment), object, "segment") &&
           number_copy(&notify_max, object, "notify_max", LAYOUT_NOTIFY_OOB_MAX) &&
           verbs_read(object, &hello->verbs);
    hello->local = json_is_true(json_object_get(object, "local"));
    hello->notify_max = (uint32_t)notify_max;
    json_decref(object);
    return good ? TS_OK : TS_ERR_PROTOCOL;
}

size_t handshake_challenge_write(uint8_t *bytes, uint8_t challenge[HANDSHAKE_NONCE])
{
    handshake_random(challenge, HANDSHAKE_NONCE);
    memcpy(bytes + sizeof(struct preamble), challenge, HANDSHAKE_NONCE);
    return preamble_write(bytes, HANDSHAKE_CHALLENGE, HANDSHAKE_NONCE);
}

int handshake_challenge_read(const uint8_t *bytes, size_t size, uint8_t challenge[HANDSHAKE_NONCE])
{
    int whole = handshake_size(bytes, size, HANDSHAKE_CHALLENGE);

    if (whole < 0)
        return whole;
    if (whole == 0 || (size_t)whole != size) /* 0: too short for a preamble */
        return TS_ERR_PROTOCOL;
    memcpy(challenge, bytes + sizeof(struct preamble), HANDSHAKE_NONCE);
    return TS_OK;
}

static const char proof_label[] = "tesup 1 initiator";
static const char welcome_label[] = "tesup 1 responder";

size_t handshake_proof_write(uint8_t *bytes, const uint8_t key[HANDSHAKE_KEY], const uint8_t *hello,
                             size_t hello_size, const uint8_t challenge[HANDSHAKE_NONCE])
{
    handshake_mac(bytes + sizeof(struct preamble), key, proof_label, hello, hello_size, challenge,
                  NULL, 0);
    return preamble_write(bytes, HANDSHAKE_PROOF, HANDSHAKE_MAC);
}

int handshake_proof_check(const uint8_t *bytes, size_t size, const uint8_t key[HANDSHAKE_KEY],
                          const uint8_t *hello, size_t hello_size,
                          const uint8_t challenge[HANDSHAKE_NONCE])
{
    int whole = handshake_size(bytes, size, HANDSHAKE_PROOF);
    uint8_t mac[HANDSHAKE_MAC];

    if (whole < 0)
        return whole;
    if (whole == 0 || (size_t)whole != size) /* 0: too short for a preamble */
        return TS_ERR_PROTOCOL;
    handshake_mac(mac, key, proof_label, hello, hello_size, challenge, NULL, 0);
    return sodium_memcmp(mac, bytes + sizeof(struct preamble), HANDSHAKE_MAC) == 0 ? TS_OK
                                                                                   : TS_ERR_AUTH;
}

size_t handshake_welcome_write(uint8_t *bytes, const uint8_t key[HANDSHAKE_KEY],
                               const uint8_t *hello, size_t hello_size,
                               const uint8_t challenge[HANDSHAKE_NONCE],
                               const struct handshake_welcome *welcome)
{
    char worker[HANDSHAKE_ID * 2 + 1], token[HANDSHAKE_ID * 2 + 1];
    uint8_t *mac = bytes + sizeof(struct preamble);
    uint8_t *body = mac + HANDSHAKE_MAC;
    size_t size;

    sodium_bin2hex(worker, sizeof(worker), welcome->worker, HANDSHAKE_ID);
    sodium_bin2hex(token, sizeof(token), welcome->token, HANDSHAKE_ID);
    size =
        json_write(body, HANDSHAKE_FRAME_MAX - sizeof(struct preamble) - HANDSHAKE_MAC,
                   json_pack("{s:i, s:s, s:s, s:I, s:s, s:b, s:s, s:s, s:I, s:o*}", "status",
                             welcome->status, "text", welcome->text, "worker", worker, "generation",
                             (json_int_t)welcome->generation, "name", welcome->worker_name, "local",
                             welcome->local, "local_socket", welcome->local_socket, "token", token,
                             "notify_max", (json_int_t)welcome->notify_max, "verbs",
                             welcome->verbs.offered ? verbs_write(&welcome->verbs) : NULL));
    handshake_mac(mac, key, welcome_label, hello, hello_size, challenge, body, size);
    return preamble_write(bytes, HANDSHAKE_WELCOME, HANDSHAKE_MAC + size);
}

int handshake_welcome_read(const uint8_t *bytes, size_t size, const uint8_t key[HANDSHAKE_KEY],
                           const uint8_t *hello, size_t hello_size,
                           const uint8_t challenge[HANDSHAKE_NONCE],
                           struct handshake_welcome *welcome)
{
    const size_t skip = sizeof(struct preamble) + HANDSHAKE_MAC;
    int whole = handshake_size(bytes, size, HANDSHAKE_WELCOME);
    uint8_t mac[HANDSHAKE_MAC];
    uint64_t notify_max = 0;
    json_t *object, *status;
    bool good;

    if (whole < 0)
        return whole;
    if (whole == 0 || (size_t)whole != size) /* 0: too short for a preamble */
        return TS_ERR_PROTOCOL;
    handshake_mac(mac, key, welcome_label, hello, hello_size, challenge, bytes + skip, size - skip);
    if (sodium_memcmp(mac, bytes + sizeof(struct preamble), HANDSHAKE_MAC) != 0)
        return TS_ERR_AUTH;
    object = json_read(bytes + skip, size - skip);
    if (object == NULL)
        return TS_ERR_PROTOCOL;
    memset(welcome, 0, sizeof(*welcome));
    status = json_object_get(object, "status");
    good =
        json_is_integer(status) && json_integer_value(status) >= TS_ERR_LAST &&
        json_integer_value(status) <= TS_AGAIN &&
        text_copy(welcome->text, sizeof(welcome->text), object, "text") &&
        id_from_hex(welcome->worker, json_string_value(json_object_get(object, "worker"))) &&
        number_copy(&welcome->generation, object, "generation", INT64_MAX) &&
        text_copy(welcome->worker_name, sizeof(welcome->worker_name), object, "name") &&
        text_copy(welcome->local_socket, sizeof(welcome->local_socket), object, "local_socket") &&
        id_from_hex(welcome->token, json_string_value(json_object_get(object, "token"))) &&
        number_copy(&notify_max, object, "notify_max", LAYOUT_NOTIFY_OOB_MAX) &&
        verbs_read(object, &welcome->verbs);
    welcome->status = (int)json_integer_value(status);
    welcome->local = json_is_true(json_object_get(object, "local"));
    welcome->notify_max = (uint32_t)notify_max;
    json_decref(object);
    return good ? TS_OK : TS_ERR_PROTOCOL;
}
