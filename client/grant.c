/* Private memory for RDMA: registered by this process on the worker's device (shm/uverbs.h).
 *
 * It is no condition for the region: within a host and over TCP it works without.  Why it did not
 * work is told to the worker, which shows it to the operator.
 */
#include <errno.h>

#include "client/internal.h"
#include "shm/uverbs.h"

static int pieces_register(const struct proto_grant *grant, int fd, const struct region *region,
                           struct proto_keys *keys)
{
    const struct uverbs_domain domain = {
        .fd = fd, .driver = grant->driver, .handle = grant->domain};
    const uint64_t piece = UINT64_C(1) << PROTO_KEY_SHIFT;

    for (uint64_t begin = 0; begin < region->length; begin += piece) {
        uint64_t size = region->length - begin < piece ? region->length - begin : piece;
        struct uverbs_mr mr;

        if (keys->count == PROTO_KEYS_MAX)
            return E2BIG;
        if (uverbs_mr_register(&domain, region->base + begin, size, grant->access, &mr) < 0)
            return errno;
        keys->key[keys->count++] =
            (struct proto_key){.mr = mr.handle, .lkey = mr.lkey, .rkey = mr.rkey};
    }
    return 0;
}

static void pieces_return(const struct proto_grant *grant, int fd, struct proto_keys *keys)
{
    while (keys->count > 0)
        (void)uverbs_mr_deregister(fd, grant->driver, keys->key[--keys->count].mr);
}

/* Under lock. */
void region_grant(struct tesup_session *session, const struct region *region, uint32_t wire)
{
    struct wire_message ask, told;
    struct proto_keys *keys = &told.body.keys;

    if (region->kind != REGION_KIND_PRIVATE || !session->rdma)
        return;
    wire_message_init(&ask, WIRE_REGION_GRANT);
    ask.body.handle.handle = wire;
    if (control_call(session, &ask, session->timeout_ms, "register memory for RDMA") != TS_OK)
        return;
    wire_message_init(&told, WIRE_REGION_KEYS);
    keys->handle = wire;
    keys->error = (uint32_t)pieces_register(&ask.body.grant, ask.fds[0], region, keys);
    if (keys->error != 0)
        pieces_return(&ask.body.grant, ask.fds[0], keys);
    wire_message_close(&ask); /* a lingering copy would keep a dead worker's queue pairs alive */
    if (control_call(session, &told, session->timeout_ms, "register memory for RDMA") == TS_OK)
        wire_message_close(&told);
    atomic_set(&session->granted, 1);
}

/* A worker that died took its device's registrations along; its successor counts the epoch up. */
void session_grant_again(struct tesup_channel *channel)
{
    struct tesup_session *session = channel->session;
    uint64_t epoch = atomic_observe(&channel->map.header->epoch);

    if (epoch == channel->epoch)
        return;
    channel->epoch = epoch;
    if (atomic_peek(&session->granted) == 0 || control_begin(session) != TS_OK)
        return;
    for (size_t i = 0; i < session->regions.count; i++) {
        const struct book_entry *entry = &session->regions.entries[i];

        if (entry->wire != 0)
            region_grant(session, entry->object, entry->wire);
    }
    control_end(session);
}
