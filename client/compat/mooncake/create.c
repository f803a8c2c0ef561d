/* Engines: made, named, destroyed, and what programs call once at their start. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/compat/mooncake/engine.h"
#include "shm/name.h"

#define PEER_TO_PEER "P2PHANDSHAKE"

struct place { /* where an engine listens */
    char host[NAME_HOST_MAX];
    uint64_t port; /* 0: any */
};

/* ---- the address ---- */

static bool interface_fits(const struct ifaddrs *at, int family)
{
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)at->ifa_addr;

    return at->ifa_addr != NULL && at->ifa_addr->sa_family == family &&
           (at->ifa_flags & IFF_UP) != 0 && (at->ifa_flags & IFF_LOOPBACK) == 0 &&
           (family != AF_INET6 || !IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr));
}

/* The first interface that is up and leads somewhere, else loopback. */
static void host_default(char *host, bool ipv6)
{
    int family = ipv6 ? AF_INET6 : AF_INET;
    struct ifaddrs *list = NULL;
    const void *address;

    snprintf(host, NAME_HOST_MAX, "%s", ipv6 ? "::1" : "127.0.0.1");
    if (getifaddrs(&list) < 0)
        return;
    for (const struct ifaddrs *at = list; at != NULL; at = at->ifa_next) {
        if (!interface_fits(at, family))
            continue;
        address = ipv6 ? (const void *)&((struct sockaddr_in6 *)(void *)at->ifa_addr)->sin6_addr
                       : (const void *)&((struct sockaddr_in *)(void *)at->ifa_addr)->sin_addr;
        inet_ntop(family, address, host, NAME_HOST_MAX);
        break;
    }
    freeifaddrs(list);
}

static bool host_is_any(const char *host)
{
    return host[0] == '\0' || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

/* HOST, HOST:PORT, [IPv6]:PORT or a bare IPv6. */
static int place_parse(const char *text, struct place *place, const char *call)
{
    struct segment_name parts;
    struct in6_addr six;
    const char *why = "";

    if (strnlen(text, NAME_HOST_MAX) == NAME_HOST_MAX)
        return refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, call,
                      "'%.60s...' is too long for a host name", text);
    if (strchr(text, ':') == NULL || inet_pton(AF_INET6, text, &six) == 1) {
        memcpy(place->host, text, strlen(text) + 1);
        return 0;
    }
    if (name_parse_address(text, &parts, &why) != 0)
        return refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, call, "'%s' is no HOST:PORT: %s", text,
                      why);
    memcpy(place->host, parts.host, sizeof(place->host));
    place->port = strtoul(parts.port, NULL, 10);
    return 0;
}

static int place_find(const char *server, const char *host, uint64_t port, bool ipv6,
                      struct place *place, const char *call)
{
    const char *text = server != NULL && server[0] != '\0' ? server : host;
    int code = 0;

    *place = (struct place){0};
    if (text != NULL && text[0] != '\0')
        code = place_parse(text, place, call);
    if (port > UINT16_MAX)
        code = refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, call, "%llu is no port",
                      (unsigned long long)port);
    if (port != 0)
        place->port = port;
    if (code == 0 && host_is_any(place->host))
        host_default(place->host, ipv6);
    return code;
}

/* A port that is taken is no obstacle, unless it is wanted at any price. */
static int place_bind(struct engine *engine, const struct place *place, bool fixed,
                      const char *call)
{
    char text[256];
    int code = answer_bind(engine, place->host, place->port, text, sizeof(text));

    if (code == TRANSFER_ENGINE_SOCKET && place->port != 0 && !fixed) {
        say(LOG_LEVEL_WARNING, call, "%s; the kernel picks another port", text);
        code = answer_bind(engine, place->host, 0, text, sizeof(text));
    }
    return code == 0 ? 0 : refuse(code, call, "%s", text);
}

/* ---- making and destroying ---- */

static struct engine *engine_new(void)
{
    struct engine *engine = calloc(1, sizeof(*engine));

    if (engine == NULL)
        return NULL;
    engine->listener = -1;
    engine->stop = -1;
    list_init(&engine->free_pieces);
    list_init(&engine->again);
    return engine;
}

static void engine_free(struct engine *engine)
{
    answer_stop(engine);
    tesup_detach(engine->session);
    if (engine->listener >= 0)
        close(engine->listener);
    peers_fini(engine);
    memory_fini(&engine->memory);
    pieces_fini(engine);
    batches_fini(&engine->batches);
    free(engine);
}

/* Only the parent answers at its address. */
void engine_on_fork(struct engine *engine)
{
    close(engine->listener);
    engine->listener = -1;
    if (engine->stop >= 0)
        close(engine->stop);
    engine->stop = -1; /* there is no thread to be stopped */
}

static int engine_open(struct engine *engine, const struct place *place,
                       const struct environment *environment, const char *call)
{
    int code;

    engine->timeout_ms = environment->timeout_ms;
    engine->deadline_ms = environment->deadline_ms;
    code = place_bind(engine, place, environment->fixed_port, call);
    if (code == 0)
        code = daemon_attach(engine, environment, call);
    if (code != 0)
        return code;
    engine->channel = tesup_channel_main(engine->session);
    engine->load_at = clock_now();
    return peers_init(engine);
}

static transfer_engine_t engine_create(const struct place *place,
                                       const struct environment *environment, const char *call)
{
    struct engine *engine = engine_new();
    transfer_engine_t handle;
    bool foreign;

    if (engine == NULL) {
        say(LOG_LEVEL_ERROR, call, "no memory for an engine");
        return NULL;
    }
    if (engine_open(engine, place, environment, call) != 0)
        goto err_free;
    handle = slot_add(engine);
    if (handle == NULL) {
        say(LOG_LEVEL_ERROR, call, "this process has %u engines already", SLOT_COUNT);
        goto err_free;
    }
    if (answer_start(engine, call) == 0)
        return handle;
    slot_remove(handle, call, &engine, &foreign);
    slot_free(engine->slot);
err_free:
    engine_free(engine);
    return NULL;
}

transfer_engine_t createTransferEngine(const char *metadata, const char *server, const char *host,
                                       uint64_t port, int auto_discover)
{
    struct environment environment;
    struct place place;

    (void)auto_discover; /* the supervisor has discovered everything */
    if (metadata == NULL || strcmp(metadata, PEER_TO_PEER) != 0) {
        say(LOG_LEVEL_ERROR, __func__,
            "the metadata server '%.80s' is not spoken to: use \"" PEER_TO_PEER "\"",
            metadata != NULL ? metadata : "NULL");
        return NULL;
    }
    environment_read(&environment);
    if (place_find(server, host, port, environment.ipv6, &place, __func__) != 0)
        return NULL;
    return engine_create(&place, &environment, __func__);
}

void destroyTransferEngine(transfer_engine_t handle)
{
    struct engine *engine;
    struct slot *slot;
    bool foreign;

    if (handle == NULL || slot_remove(handle, __func__, &engine, &foreign) != 0)
        return;
    slot = engine->slot;
    engine_free(engine);
    slot_free(slot);
}

/* ---- asked once ---- */

int discoverTopology(transfer_engine_t handle)
{
    struct engine *engine;
    int code = slot_enter(handle, __func__, &engine);

    if (code == 0)
        slot_leave(engine); /* the supervisor knows it: `tesup topology` */
    return code_negative(code);
}

/* As with any output here: what does not fit is cut off, and that is no error. */
int getLocalIpAndPort(transfer_engine_t handle, char *buf_out, size_t buf_len)
{
    struct engine *engine;
    int code = slot_enter(handle, __func__, &engine);

    if (code != 0)
        return code_negative(code);
    if (buf_out == NULL || buf_len == 0)
        code = refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, __func__, "there is no buffer");
    else
        snprintf(buf_out, buf_len, "%s", engine->label);
    slot_leave(engine);
    return code_negative(code);
}

/* All transports are the supervisor's; the result only says that bytes will move. */
transport_t installTransport(transfer_engine_t handle, const char *proto, void **args)
{
    static const char *const known[] = {"rdma", "tcp", "local", "shm"};
    static char transports[sizeof(known) / sizeof(known[0])];
    transport_t transport = NULL;
    struct engine *engine;

    if (slot_enter(handle, __func__, &engine) != 0)
        return NULL;
    for (size_t i = 0; proto != NULL && i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(proto, known[i]) == 0)
            transport = &transports[i];
    if (transport == NULL)
        say(LOG_LEVEL_ERROR, __func__, "transport '%.40s' is unknown; rdma, tcp, local and shm are",
            proto != NULL ? proto : "NULL");
    else if (args != NULL && args[0] != NULL)
        say(LOG_LEVEL_WARNING, __func__,
            "the NIC matrix is not read: which NIC serves whom is the supervisor's plan (`tesup "
            "topology`)");
    slot_leave(engine);
    return transport;
}

int uninstallTransport(transfer_engine_t handle, const char *proto)
{
    struct engine *engine;
    int code = slot_enter(handle, __func__, &engine);

    (void)proto;
    if (code == 0)
        slot_leave(engine);
    return code_negative(code);
}

/* The supervisor sees the end of a process, however it ends, and cleans up behind it. */
void enableGracefulShutdown(transfer_engine_t handle)
{
    struct engine *engine;

    if (slot_enter(handle, __func__, &engine) == 0)
        slot_leave(engine);
}
