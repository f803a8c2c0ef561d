/* The owner's side: which regions a peer worker of this host has mapped. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shm/err.h"
#include "worker/endpoint.h"
#include "worker/fabric/local/local.h"
#include "worker/gpu/mapping.h"
#include "worker/inbound.h"

struct local_export {
    struct list link;
    struct region *region; /* referenced until the peer has let go, or its link is dead */
    uint32_t import;       /* the peer's handle */
    bool revoking;
};

static int export_refuse(struct local_link *local, uint32_t import, int status)
{
    struct frame frame = {.type = FRAME_EXPORTED, .request = import, .status = (int16_t)status};

    return local_send(&local->link, &frame, NULL, 0, NULL, 0);
}

/* A descriptor of an address space opens all of it, and a handle of a GPU's memory all of its
 * allocation, so it goes only where the kernel would let them
 * in anyway: to a process of our own user, or of root (ptrace(2), access mode checking). */
static bool export_may_see_process(const struct local_link *local)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    return getsockopt(local->socket.fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

static void export_message(const struct region *region, struct wire_message *message)
{
    const struct memory *memory = &region->memory;
    uint32_t kind = memory->gpu != NULL   ? REGION_KIND_GPU
                    : memory->map != NULL ? REGION_KIND_SHARED
                                          : REGION_KIND_PRIVATE;

    wire_message_init(message, memory->gpu != NULL ? WIRE_REGION_ADD_GPU : WIRE_REGION_ADD);
    message->body.region = (struct proto_region){.handle = region->handle,
                                                 .kind = kind,
                                                 .access = region->access,
                                                 .base = memory->base,
                                                 .offset = memory->fd_offset,
                                                 .length = memory->length};
    if (memory->gpu == NULL) {
        message->fds[0] = memory->map != NULL ? memory->fd : memory->space.fd;
        message->fd_count = 1;
        return;
    }
    message->body.region_gpu.gpu = memory->gpu->ask;
    for (; message->fd_count < memory->gpu->fd_count; message->fd_count++)
        message->fds[message->fd_count] = memory->gpu->fds[message->fd_count];
}

static int export_send(struct local_link *local, const struct region *region, uint32_t import)
{
    struct wire_message message;

    if (region->memory.map == NULL && !export_may_see_process(local))
        return TS_ERR_UNSUPPORTED;
    export_message(region, &message);
    message.header.session = import;
    return wire_send(local->socket.fd, &message);
}

int local_on_export(struct local_link *local, const struct frame *frame)
{
    struct local_export *export;
    struct region *region = NULL;
    int status;

    if (inbound_find_region(local->link.endpoint, frame, &region, &status) != TS_OK)
        return TS_ERR_PROTOCOL;
    if (status != TS_OK)
        return export_refuse(local, frame->request, status);
    export = calloc(1, sizeof(*export));
    status = export != NULL ? export_send(local, region, frame->request) : TS_ERR_NO_MEMORY;
    if (status != TS_OK) {
        free(export);
        region_release(region);
        return export_refuse(local, frame->request, status); /* TS_AGAIN: the socket is full */
    }
    export->region = region;
    export->import = frame->request;
    list_append(&local->exports, &export->link);
    return TS_OK;
}

static void export_free(struct local_export *export)
{
    list_remove(&export->link);
    region_release(export->region);
    free(export);
}

int local_on_revoked(struct local_link *local, const struct frame *frame)
{
    list_each (node, following, &local->exports) {
        struct local_export *export = list_entry(node, struct local_export, link);

        if (export->import != frame->request || !export->revoking)
            continue;
        export_free(export);
        return TS_OK;
    }
    return TS_ERR_PROTOCOL;
}

void local_revoke(struct link *link, struct region *region)
{
    struct local_link *local = local_of(link);

    list_each (node, following, &local->exports) {
        struct local_export *export = list_entry(node, struct local_export, link);
        struct frame frame = {.type = FRAME_REVOKE, .request = export->import};

        if (export->region != region || export->revoking)
            continue;
        export->revoking = true;
        local_send(link, &frame, NULL, 0, NULL, 0);
    }
}

void local_exports_fini(struct local_link *local)
{
    while (!list_empty(&local->exports))
        export_free(list_entry(local->exports.next, struct local_export, link));
}
