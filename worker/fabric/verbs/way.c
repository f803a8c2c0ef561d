/* Is there a way from a GID of ours to one of the peer's?
 *
 * RoCE needs the neighbour's MAC address before a queue pair can go to RTR.  The kernel asks for it
 * inside that call, and waits up to a second for a neighbour that does not answer (ib_core's
 * ib_resolve_eth_dmac).  The loop, with everybody's transfers, must not wait with it: a thread asks
 * the same question with an address handle, which is nothing but that.  What it found out is in the
 * kernel's table when the loop connects the queue pairs.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "shm/atomics.h"
#include "shm/err.h"
#include "worker/fabric/verbs/link.h"
#include "worker/thread.h"
#include "worker/worker.h"

#define PAIRS_MAX (HANDSHAKE_GIDS * HANDSHAKE_GIDS)

struct way_pair {
    struct ibv_ah_attr address;
    char gid[96]; /* ours, for the error */
    int error;    /* of the attempt */
};

struct verbs_way {
    struct verbs_nic *nic;
    struct list link; /* nic->ways */
    struct source source;
    pthread_t thread;
    _Atomic uint64_t forgotten; /* 1: the thread need not go on */
    /* the thread's until the source rings */
    struct ibv_pd *pd;
    uint32_t count, tried;
    bool found; /* pair[tried - 1] */
    struct way_pair pair[PAIRS_MAX];
    /* the loop's; owner NULL: forgotten */
    verbs_way_done *done;
    void *owner;
};

/* ---- the thread ---- */

/* No room for a handle says nothing about the way: the queue pairs will. */
static bool says_nothing(int error)
{
    return error == EAGAIN || error == ENOMEM || error == ENOSPC || error == EPERM ||
           error == EACCES || error == ENOSYS || error == EOPNOTSUPP;
}

static int pair_try(struct ibv_pd *pd, struct ibv_ah_attr *address)
{
    struct ibv_ah *handle;

    errno = 0;
    handle = ibv_create_ah(pd, address);
    if (handle == NULL)
        return says_nothing(errno) ? 0 : errno != 0 ? errno : EIO;
    ibv_destroy_ah(handle);
    return 0;
}

static void *way_thread(void *argument)
{
    struct verbs_way *way = argument;
    const uint64_t one = 1;

    while (!way->found && way->tried < way->count && atomic_peek(&way->forgotten) == 0) {
        struct way_pair *pair = &way->pair[way->tried++];

        pair->error = pair_try(way->pd, &pair->address);
        way->found = pair->error == 0;
    }
    (void)!write(way->source.fd, &one, sizeof(one)); /* an eventfd that counts to one */
    return NULL;
}

/* ---- the loop ---- */

/* From here on all of it is the loop's. */
static void way_end(struct verbs_way *way)
{
    pthread_join(way->thread, NULL);
    reactor_watch(&way->nic->worker->reactor, &way->source, 0);
    close(way->source.fd);
    list_remove(&way->link);
    way->nic->way_count--;
}

/* Which pairs were of no use. */
static void way_explain(const struct verbs_way *way, char *text, size_t text_size)
{
    uint32_t bad = way->tried - (way->found ? 1 : 0);

    snprintf(text, text_size, "%s: no way with GID", way->nic->name);
    for (uint32_t i = 0; i < bad; i++) {
        size_t used = strlen(text);

        snprintf(text + used, text_size - used, "%s %s: %s", i > 0 ? ";" : "", way->pair[i].gid,
                 strerror(way->pair[i].error));
    }
}

static void way_on_found(struct source *source, uint32_t events)
{
    struct verbs_way *way = list_entry(source, struct verbs_way, source);
    struct verbs_way_result result = {.status = TS_ERR_UNREACHABLE};

    (void)events;
    way_end(way);
    if (way->found)
        result = (struct verbs_way_result){.status = TS_OK, .passed = way->tried - 1};
    if (!way->found || result.passed > 0)
        way_explain(way, result.text, sizeof(result.text));
    if (way->owner != NULL)
        way->done(way->owner, &result);
    free(way);
}

/* The pairs to try, in the order of link_connect_best. */
static void way_collect(struct verbs_way *way, const struct handshake_verbs *peer, uint32_t only)
{
    const struct verbs_nic *nic = way->nic;
    uint32_t own, theirs, pairs = 0;

    while (verbs_gid_match(nic, peer, pairs, &own, &theirs))
        pairs++;
    for (uint32_t nth = 0; nth < pairs; nth++) {
        struct verbs_path path = {.dlid = (uint16_t)peer->lid};
        struct way_pair *pair = &way->pair[way->count];

        (void)verbs_gid_match(nic, peer, (nth + peer->gid_pairs) % pairs, &own, &theirs);
        if (only != VERBS_WAY_ANY && own != only)
            continue;
        path.gid = own;
        memcpy(path.dgid.raw, peer->gid[theirs], sizeof(path.dgid.raw));
        verbs_path_address(nic, &path, &pair->address);
        verbs_gid_format(&nic->gid[own], pair->gid, sizeof(pair->gid));
        way->count++;
    }
}

struct verbs_way *verbs_way_find(struct worker *worker, const struct handshake_verbs *peer,
                                 uint32_t only, verbs_way_done *done, void *owner)
{
    struct verbs_nic *nic = worker->verbs;
    struct verbs_way *way;

    if (nic->port_attr.link_layer == IBV_LINK_LAYER_INFINIBAND || nic->way_count == VERBS_WAYS_MAX)
        return NULL;
    way = calloc(1, sizeof(*way));
    if (way == NULL)
        return NULL;
    way->nic = nic;
    way->pd = nic->pd;
    way->done = done;
    way->owner = owner;
    way_collect(way, peer, only);
    if (way->count == 0)
        goto err_free;
    way->source =
        (struct source){.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), .ready = way_on_found};
    if (way->source.fd < 0)
        goto err_free;
    if (reactor_watch(&worker->reactor, &way->source, EPOLLIN) < 0)
        goto err_close;
    if (thread_spawn(&way->thread, NULL, way_thread, way) < 0)
        goto err_watch;
    list_append(&nic->ways, &way->link);
    nic->way_count++;
    return way;

err_watch:
    reactor_watch(&worker->reactor, &way->source, 0);
err_close:
    close(way->source.fd);
err_free:
    free(way);
    return NULL;
}

void verbs_way_forget(struct verbs_way *way)
{
    way->owner = NULL;
    atomic_set(&way->forgotten, 1); /* advice: nothing is ordered by it */
}

void verbs_ways_close(struct verbs_nic *nic)
{
    const struct verbs_way_result gone = {.status = TS_ERR_GONE};

    list_each (node, following, &nic->ways) {
        struct verbs_way *way = list_entry(node, struct verbs_way, link);

        atomic_set(&way->forgotten, 1);
        way_end(way); /* after the pair that is being tried */
        if (way->owner != NULL)
            way->done(way->owner, &gone);
        free(way);
    }
}
