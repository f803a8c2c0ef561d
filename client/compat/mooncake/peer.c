/* Segments of other engines: asked for their card, opened, cached, and opened again. */
#include <stdlib.h>
#include <string.h>

#include "client/compat/mooncake/engine.h"

struct peer *peer_get(const struct engine *engine, int64_t id)
{
    return id >= 0 && (uint64_t)id < engine->peer_count ? engine->peers[id] : NULL;
}

static struct peer *peer_by_name(const struct engine *engine, const char *name, size_t *id)
{
    for (*id = 0; *id < engine->peer_count; ++*id)
        if (strcmp(engine->peers[*id]->name, name) == 0)
            return engine->peers[*id];
    return NULL;
}

static int peer_add(struct engine *engine, const char *name, size_t *id, const char *call)
{
    struct peer *peer;

    if (engine->peer_count == ENGINE_PEERS_MAX)
        return refuse(TRANSFER_ENGINE_MEMORY, call, "%u segments are open", ENGINE_PEERS_MAX);
    if (engine->peer_count == engine->peer_room) {
        size_t room = engine->peer_room > 0 ? 2 * engine->peer_room : 16;
        void *larger = realloc(engine->peers, room * sizeof(*engine->peers));

        if (larger == NULL)
            return refuse(TRANSFER_ENGINE_MEMORY, call, "no memory to open %s", name);
        engine->peers = larger;
        engine->peer_room = room;
    }
    peer = calloc(1, sizeof(*peer));
    if (peer == NULL)
        return refuse(TRANSFER_ENGINE_MEMORY, call, "no memory to open %s", name);
    memcpy(peer->name, name, strlen(name));
    peer->direct = strchr(name, '/') != NULL;
    *id = engine->peer_count;
    engine->peers[engine->peer_count++] = peer;
    return 0;
}

int peers_init(struct engine *engine)
{
    size_t id;
    int code = peer_add(engine, engine->label, &id, "createTransferEngine");

    if (code == 0)
        engine->peers[id]->self = true;
    return code;
}

void peers_fini(struct engine *engine)
{
    for (size_t i = 0; i < engine->peer_count; i++) {
        free(engine->peers[i]->ranges);
        free(engine->peers[i]);
    }
    free(engine->peers);
}

/* What a peer says, or what its name says. */
static int card_get(struct engine *engine, const struct peer *peer, struct card *card,
                    const char *call)
{
    char text[512];
    int code = 0;

    memset(card, 0, sizeof(*card));
    if (peer->self)
        strncpy(card->segment, tesup_segment_name(engine->session), sizeof(card->segment) - 1);
    else if (peer->direct)
        memcpy(card->segment, peer->name, sizeof(card->segment));
    else
        code = ask_card(peer->name, card, text, sizeof(text));
    return code == 0 ? 0 : refuse(code, call, "%s", text);
}

/* The old one stays when requests to it are still under way: the session's end takes it. */
static void peer_install(struct engine *engine, struct peer *peer, struct card *card, bool opened,
                         tesup_remote_t remote)
{
    /* Another thread was here meanwhile: requests for its handle may be in the rings already. */
    bool late = peer->open && !peer->stale && strcmp(card->segment, peer->segment) == 0;

    if (opened && peer->open)
        (void)tesup_segment_close(engine->session, late ? remote : peer->remote);
    if (opened && !late)
        peer->remote = remote;
    memcpy(peer->segment, card->segment, sizeof(peer->segment));
    free(peer->ranges);
    peer->ranges = card->ranges;
    peer->range_count = card->count;
    peer->open = true;
    peer->stale = false;
}

/* Without the lock. *rc is that of libtesup, where it is what failed. */
static int peer_reach(struct engine *engine, const struct peer *peer, bool opens, struct card *card,
                      tesup_remote_t *remote, int *rc, const char *call)
{
    char segment[LAYOUT_NAME_MAX];
    int code;

    memcpy(segment, peer->segment, sizeof(segment));
    slot_release(engine);
    code = card_get(engine, peer, card, call);
    if (code == 0 && (opens || strcmp(card->segment, segment) != 0)) {
        *rc = tesup_segment_open(engine->session, card->segment, remote);
        if (*rc != TESUP_OK)
            code = refuse(code_of_tesup(*rc), call, "%s: %s", peer->name, tesup_last_error());
    }
    slot_retake(engine);
    if (code != 0)
        card_free(card);
    return code;
}

int peer_refresh(struct engine *engine, struct peer *peer, const char *call)
{
    /* A stale one may have been closed by its owner's end: only a new handle is sure. */
    bool opens = !peer->open || peer->stale;
    tesup_remote_t remote = 0;
    struct card card;
    int rc = TESUP_OK;
    int code = peer_reach(engine, peer, opens, &card, &remote, &rc, call);

    if (rc == TESUP_ERR_NO_DAEMON && daemon_restart(engine, call) == TESUP_OK)
        code = peer_reach(engine, peer, opens, &card, &remote, &rc, call);
    if (code == 0)
        peer_install(engine, peer, &card, remote != 0, remote);
    return code;
}

int peer_prepare(struct engine *engine, struct peer *peer, const char *call)
{
    return peer->open && !peer->stale ? 0 : peer_refresh(engine, peer, call);
}

static int name_check(const char *name, const char *call)
{
    if (name == NULL || name[0] == '\0')
        return refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, call, "the segment's name is empty");
    if (strnlen(name, LAYOUT_NAME_MAX) == LAYOUT_NAME_MAX)
        return refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, call,
                      "'%.60s...' is longer than the %u bytes of a name", name,
                      LAYOUT_NAME_MAX - 1);
    return 0;
}

/* A name that cannot be opened leaves its place, which costs nothing: it is likely tried again. */
static int segment_open(struct engine *engine, const char *name, bool cached, size_t *id,
                        const char *call)
{
    struct peer *peer = NULL;
    int code = name_check(name, call);

    if (code != 0)
        return code;
    peer = peer_by_name(engine, name, id);
    if (peer == NULL) {
        code = peer_add(engine, name, id, call);
        if (code != 0)
            return code;
        peer = engine->peers[*id];
    }
    return cached ? peer_prepare(engine, peer, call) : peer_refresh(engine, peer, call);
}

static segment_id_t segment_open_call(transfer_engine_t handle, const char *name, bool cached,
                                      const char *call)
{
    struct engine *engine;
    size_t id = 0;
    int code = slot_enter(handle, call, &engine);

    if (code != 0)
        return -1;
    code = segment_open(engine, name, cached, &id, call);
    slot_leave(engine);
    return code == 0 ? (segment_id_t)id : -1;
}

segment_id_t openSegment(transfer_engine_t handle, const char *name)
{
    return segment_open_call(handle, name, true, __func__);
}

segment_id_t openSegmentNoCache(transfer_engine_t handle, const char *name)
{
    return segment_open_call(handle, name, false, __func__);
}

/* Connects, so that the first transfer need not. */
int warmupEfaSegment(transfer_engine_t handle, const char *name)
{
    return segment_open_call(handle, name, true, __func__) < 0 ? -1 : 0;
}

/* Segments stay open as long as the engine: clients count on handles that last. */
int closeSegment(transfer_engine_t handle, segment_id_t segment)
{
    struct engine *engine;
    int code = slot_enter(handle, __func__, &engine);

    (void)segment;
    if (code == 0)
        slot_leave(engine);
    return code_negative(code);
}

int syncSegmentCache(transfer_engine_t handle)
{
    struct engine *engine;
    int code = slot_enter(handle, __func__, &engine);

    if (code != 0)
        return code_negative(code);
    for (size_t i = 1; i < engine->peer_count; i++) {
        struct peer *peer = engine->peers[i];
        int one = peer->open ? peer_refresh(engine, peer, __func__) : 0;

        if (code == 0)
            code = one;
    }
    slot_leave(engine);
    return code_negative(code);
}

int removeLocalSegment(transfer_engine_t handle, const char *name)
{
    struct engine *engine;
    int code = slot_enter(handle, __func__, &engine);

    if (code != 0)
        return code_negative(code);
    if (name != NULL && strcmp(name, engine->label) == 0)
        engine->withdrawn = true;
    else
        code = refuse(TRANSFER_ENGINE_INVALID_ARGUMENT, __func__,
                      "'%.80s' is not this engine's own segment, which is %s",
                      name != NULL ? name : "NULL", engine->label);
    slot_leave(engine);
    return code_negative(code);
}
