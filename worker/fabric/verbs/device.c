#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/err.h"
#include "shm/uverbs.h"
#include "worker/fabric/verbs/nic.h"

#define GIDS_READ 256 /* of a port's table */

uint32_t verbs_mtu_bytes(enum ibv_mtu mtu)
{
    return 128u << mtu; /* IBV_MTU_256 is 1 */
}

enum ibv_mtu verbs_mtu(uint32_t bytes)
{
    int mtu = IBV_MTU_256;

    while (mtu < IBV_MTU_4096 && verbs_mtu_bytes((enum ibv_mtu)mtu) < bytes)
        mtu++;
    return (enum ibv_mtu)mtu;
}

/* ---- GIDs ---- */

static bool gid_is_ipv4(const union ibv_gid *gid)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    return memcmp(gid->raw, mapped, sizeof(mapped)) == 0;
}

static bool gid_is_link_local(const union ibv_gid *gid)
{
    return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

/* RoCE v2 before v1 (it is routed), IPv4 before IPv6 (it is what most fabrics carry), link-local
 * last (it is no address of a network).  InfiniBand has one order: its table's. */
static uint32_t gid_rank(const union ibv_gid *gid, uint32_t type)
{
    uint32_t family = gid_is_ipv4(gid) ? 0 : gid_is_link_local(gid) ? 2 : 1;

    if (type == IBV_GID_TYPE_IB)
        return 0;
    return (type == IBV_GID_TYPE_ROCE_V2 ? 0 : 3) + family;
}

void verbs_gid_format(const struct verbs_gid *gid, char *text, size_t text_size)
{
    static const char *const types[] = {"InfiniBand", "RoCE v1", "RoCE v2"};
    char address[INET6_ADDRSTRLEN];

    if (gid_is_ipv4(&gid->gid))
        inet_ntop(AF_INET, gid->gid.raw + 12, address, sizeof(address));
    else
        inet_ntop(AF_INET6, gid->gid.raw, address, sizeof(address));
    snprintf(text, text_size, "%u: %s (%s)", gid->index, address,
             gid->type < 3 ? types[gid->type] : "unknown");
}

/* Keeps the best HANDSHAKE_GIDS, in order; equals stay in the table's order. */
static void gid_insert(struct verbs_nic *nic, const struct ibv_gid_entry *entry)
{
    uint32_t rank = gid_rank(&entry->gid, entry->gid_type), at = nic->gid_count;

    while (at > 0 && gid_rank(&nic->gid[at - 1].gid, nic->gid[at - 1].type) > rank)
        at--;
    if (at == HANDSHAKE_GIDS)
        return;
    if (nic->gid_count < HANDSHAKE_GIDS)
        nic->gid_count++;
    memmove(&nic->gid[at + 1], &nic->gid[at], (nic->gid_count - at - 1) * sizeof(nic->gid[0]));
    nic->gid[at] = (struct verbs_gid){
        .gid = entry->gid, .index = entry->gid_index, .type = (uint8_t)entry->gid_type};
}

/* The wish of the configuration is an order: nothing else is tried. */
static int gid_missing(const struct verbs_nic *nic, const struct ibv_gid_entry *entries,
                       ssize_t count, char *text, size_t text_size)
{
    uint32_t wanted = nic->worker->config.rdma.gid_index;
    size_t used;

    if (wanted == PROTO_GID_AUTO)
        snprintf(text, text_size, "%s has no usable GID: give its interface an address", nic->name);
    else
        snprintf(text, text_size, "%s has no GID %u (gid_index, MC_GID_INDEX); it has", nic->name,
                 wanted);
    for (ssize_t i = 0; i < count && wanted != PROTO_GID_AUTO; i++) {
        struct verbs_gid gid = {.gid = entries[i].gid,
                                .index = entries[i].gid_index,
                                .type = (uint8_t)entries[i].gid_type};

        used = strlen(text);
        snprintf(text + used, text_size - used, " ");
        verbs_gid_format(&gid, text + used + 1, text_size > used + 1 ? text_size - used - 1 : 0);
    }
    return TS_ERR_UNSUPPORTED;
}

int verbs_gids_read(struct verbs_nic *nic, char *text, size_t text_size)
{
    uint32_t wanted = nic->worker->config.rdma.gid_index;
    struct ibv_gid_entry *entries = calloc(GIDS_READ, sizeof(*entries));
    ssize_t count = 0, kept = 0;
    int rc = TS_OK;

    if (entries == NULL)
        return TS_ERR_NO_MEMORY;
    count = ibv_query_gid_table(nic->device, entries, GIDS_READ, 0);
    nic->gid_count = 0;
    for (ssize_t i = 0; i < count; i++) {
        if (entries[i].port_num != nic->port)
            continue;
        entries[kept++] = entries[i];
        if (wanted == PROTO_GID_AUTO || wanted == entries[i].gid_index)
            gid_insert(nic, &entries[i]);
    }
    if (nic->gid_count == 0)
        rc = gid_missing(nic, entries, kept, text, text_size);
    free(entries);
    return rc;
}

static bool gid_reaches(const struct verbs_gid *own, const uint8_t *gid, uint8_t type)
{
    union ibv_gid other;

    memcpy(other.raw, gid, sizeof(other.raw));
    return own->type == type && gid_is_ipv4(&own->gid) == gid_is_ipv4(&other) &&
           gid_is_link_local(&own->gid) == gid_is_link_local(&other);
}

bool verbs_gid_match(const struct verbs_nic *nic, const struct handshake_verbs *peer, uint32_t nth,
                     uint32_t *own, uint32_t *theirs)
{
    for (uint32_t i = 0; i < nic->gid_count; i++)
        for (uint32_t j = 0; j < peer->gid_count; j++) {
            if (!gid_reaches(&nic->gid[i], peer->gid[j], peer->gid_type[j]) || nth-- > 0)
                continue;
            *own = i;
            *theirs = j;
            return true;
        }
    return false;
}

/* ---- the device ---- */

/* "mlx5_0" or "mlx5_0:2". */
static struct ibv_context *device_find(const char *name, size_t length, char *text,
                                       size_t text_size)
{
    struct ibv_context *found = NULL;
    struct ibv_device **list;
    int count = 0;

    list = ibv_get_device_list(&count);
    snprintf(text, text_size, "no RDMA device %.*s; there %s", (int)length, name,
             count > 0 ? "are:" : "is none (ibv_devices, and /dev/infiniband in a container)");
    for (int i = 0; i < count; i++) {
        const char *have = ibv_get_device_name(list[i]);
        size_t used = strlen(text);

        if (strlen(have) == length && memcmp(have, name, length) == 0) {
            found = ibv_open_device(list[i]);
            if (found == NULL)
                snprintf(text, text_size,
                         "cannot open RDMA device %s: %s (access to /dev/infiniband/uverbs*)", have,
                         strerror(errno));
            break;
        }
        snprintf(text + used, text_size - used, " %s", have);
    }
    if (list != NULL)
        ibv_free_device_list(list);
    return found;
}

static int port_choose(struct verbs_nic *nic, const char *name, uint32_t wanted, char *text,
                       size_t text_size)
{
    for (uint32_t port = 1; port <= nic->attr.phys_port_cnt; port++) {
        if (wanted != 0 && port != wanted)
            continue;
        if (ibv_query_port(nic->device, (uint8_t)port, &nic->port_attr) != 0 ||
            nic->port_attr.state != IBV_PORT_ACTIVE)
            continue;
        nic->port = (uint8_t)port;
        snprintf(nic->name, sizeof(nic->name), "%.40s port %u", name, port);
        return TS_OK;
    }
    snprintf(text, text_size, "RDMA device %s: %s (ibv_devinfo, ip link)", name,
             wanted != 0 ? "this port is not there or not active" : "no port is active");
    return TS_ERR_UNSUPPORTED;
}

int verbs_device_open(struct verbs_nic *nic, const char *name, char *text, size_t text_size)
{
    size_t length = strcspn(name, ":");
    uint32_t wanted = name[length] == ':' ? (uint32_t)strtoul(name + length + 1, NULL, 10) : 0;
    int rc = TS_ERR_UNSUPPORTED;

    nic->device = device_find(name, length, text, text_size);
    if (nic->device == NULL)
        return rc;
    if (ibv_query_device(nic->device, &nic->attr) != 0) {
        snprintf(text, text_size, "cannot query RDMA device %s: %s", name, strerror(errno));
        goto err_close;
    }
    rc = port_choose(nic, name, wanted, text, text_size);
    if (rc == TS_OK)
        rc = verbs_gids_read(nic, text, text_size);
    if (rc != TS_OK)
        goto err_close;
    nic->pd = ibv_alloc_pd(nic->device);
    if (nic->pd == NULL) {
        snprintf(text, text_size, "%s: no protection domain: %s", nic->name, strerror(errno));
        rc = TS_ERR_SYSTEM;
        goto err_close;
    }
    nic->driver = uverbs_driver_find(nic->device->cmd_fd);
    return TS_OK;

err_close:
    ibv_close_device(nic->device);
    nic->device = NULL;
    return rc;
}

void verbs_device_close(struct verbs_nic *nic)
{
    if (nic->pd != NULL)
        ibv_dealloc_pd(nic->pd);
    if (nic->device != NULL)
        ibv_close_device(nic->device);
    nic->pd = NULL;
    nic->device = NULL;
}
