/* The seam between endpoints and fabrics.
 *
 * An endpoint owns one link.  A link carries frames in order (notifications and the peer protocol)
 * and moves the bytes of transfers; how it does the second is the fabric's own affair: `tcp` sends
 * slices, `local` copies between mappings, a verbs fabric posts work requests.
 *
 * What a link must do is struct link_ops.  What it reports goes up through the functions below,
 * from inside do_work or post, never after close returned.
 */
#ifndef TESUP_WORKER_FABRIC_FABRIC_H
#define TESUP_WORKER_FABRIC_FABRIC_H

#include <stdbool.h>
#include <stddef.h>

#include "shm/list.h"
#include "worker/frame.h"

struct worker;
struct endpoint;
struct region;
struct link;
struct counters_endpoint;

/* One READ or WRITE on its way.  Embedded in the request; the link uses the fields below `moved`.
 */
struct transfer {
    bool read;
    bool announced;       /* a notification is bound to it */
    bool by_address;      /* remote_offset is an address of the owner */
    struct region *local; /* referenced by the request until transfer_on_done */
    uint64_t local_offset;
    uint64_t length;
    uint32_t open;          /* the peer's handle of the segment */
    uint32_t remote_region; /* the owner's handle */
    uint64_t remote_offset;
    uint32_t wire;  /* handle in the endpoint's table: names the transfer in frames */
    uint64_t moved; /* bytes sent or received so far */

    struct endpoint *endpoint; /* that it was posted to */
    bool started;              /* something of it was sent: its outcome is the peer's to tell */
    bool cancelling;
    bool aside;          /* verbs: it goes over the socket beside the queue pairs */
    int16_t fault;       /* first local error on the way */
    void *progress;      /* the link's own */
    struct list waiting; /* import.h: for the peer's answer about its region */
};

struct link_ops {
    const char *name;
    const char *notify; /* how notifications travel, for status */

    /* Queues one frame behind everything queued before: header and up to two payload parts, copied.
     * TS_OK, TS_ERR_NO_MEMORY. */
    int (*send)(struct link *link, const struct frame *frame, const void *part1, size_t size1,
                const void *part2, size_t size2);
    /* Starts a transfer. Ends in exactly one transfer_on_done, maybe before post returns. */
    void (*post)(struct link *link, struct transfer *transfer);
    /* Stops a posted transfer; transfer_on_done follows once no byte can land any more. */
    void (*cancel)(struct link *link, struct transfer *transfer);
    /* The transfer's request dies now: no transfer_on_done, no further look at `transfer`. Bytes in
     * flight may only touch the region while it is not revoked. */
    void (*forget)(struct link *link, struct transfer *transfer);
    /* One bounded step of sending. Returns how much was done; > 0 = call again soon. */
    int (*do_work)(struct link *link);
    /* The link closes next: sends its last words as far as that goes in a moment. */
    void (*flush)(struct link *link);
    /* The region is being revoked: start letting go of what this link holds of it. The link holds
     * region references for what is left; no return value. */
    void (*revoke)(struct link *link, struct region *region);
    /* A frame of this fabric that came over a socket beside the link; NULL: there are none.
     * TS_OK or TS_ERR_PROTOCOL. */
    int (*on_frame)(struct link *link, const struct frame *frame, const uint8_t *payload);
    /* For links that must be polled (shared memory), else NULL: take what arrived; and say that the
     * worker is about to sleep. arm returns true when there is something to take after all. */
    int (*poll)(struct link *link);
    bool (*arm)(struct link *link);
    /* What status shall know of it beyond its name; may be NULL. */
    void (*show)(const struct link *link, struct counters_endpoint *line);
    /* Frees everything, silently; transfers that were posted are the endpoint's to end. */
    void (*close)(struct link *link);
};

struct link {
    const struct link_ops *ops;
    struct endpoint *endpoint;
    const char *notify_text; /* how notifications travel here, for status */
    int notify_status;       /* TS_OK, or why they do not */
    struct list busy;        /* in worker.busy_links while there is work for do_work */
    struct list polled;      /* in worker.polled_links when ops->poll is there */
};

void link_init(struct link *link, const struct link_ops *ops, struct endpoint *endpoint);
/* A flush that is one do_work. */
void link_flush_once(struct link *link);
/* Asks for do_work in this loop turn. */
void link_wake(struct link *link);

/* ---- reports ---- */

/* All bytes of a WRITE are in the link's ordered stream: what is sent now arrives behind them. */
void transfer_on_posted(struct transfer *transfer);
/* The transfer ended. The link has forgotten it. */
void transfer_on_done(struct transfer *transfer, int status, uint64_t bytes);
/* A frame of the generic peer protocol arrived; payload is valid during the call.
 * TS_OK, or TS_ERR_PROTOCOL: the link must call link_on_lost. */
int link_on_frame(struct link *link, const struct frame *frame, const uint8_t *payload);
/* The link is dead (closed by the peer, broken, misused). The endpoint closes it later in this loop
 * turn; the link must do nothing more. */
void link_on_lost(struct link *link, int status, const char *why);

/* ---- fabrics ---- */

/* A link over a connected, authenticated socket, which becomes the link's. NULL: no memory. */
struct link *tcp_link_open(struct endpoint *endpoint, int socket);
/* The link of a worker to itself. */
struct link *self_link_open(struct endpoint *endpoint);
/* A link over a shared-memory channel; `socket` carries descriptors of exported regions and dies
 * with the peer. `first` tells which direction of the channel is ours. */
struct link *local_link_open(struct endpoint *endpoint, int socket, const int fds[3], bool first,
                             char *text, size_t text_size);

/* ---- verbs ---- */

struct verbs_nic;
struct handshake_verbs;

/* Opens config.device for this worker; NULL in worker->verbs when that failed. TS_OK, or an error
 * with a sentence. */
int verbs_open(struct worker *worker, char *text, size_t text_size);
/* After all links and regions are gone. */
void verbs_shut(struct worker *worker);
/* Takes completions. Returns how many there were. */
int verbs_poll(struct worker *worker);
/* The worker is about to sleep. True: there was something after all. */
bool verbs_arm(struct worker *worker);

/* way.c: whether one of our GIDs leads to one of the peer's may take the kernel a second to find
 * out. A thread asks; `done` is called in the loop, before verbs_shut at the latest, and then the
 * way is gone. */
struct verbs_way;
struct verbs_way_result {
    int status;      /* TS_OK, TS_ERR_UNREACHABLE, TS_ERR_GONE: the worker ends */
    uint32_t passed; /* so many pairs lead nowhere, behind peer->gid_pairs of them */
    char text[PROTO_TEXT_MAX];
};
typedef void verbs_way_done(void *owner, const struct verbs_way_result *result);
#define VERBS_WAY_ANY UINT32_MAX
/* From the GID with index `only`, or any. NULL: there is nothing to ask, or nobody who could: the
 * queue pairs will tell. */
struct verbs_way *verbs_way_find(struct worker *worker, const struct handshake_verbs *peer,
                                 uint32_t only, verbs_way_done *done, void *owner);
/* Nobody waits for it any more: `done` is not called. */
void verbs_way_forget(struct verbs_way *way);

/* A link with queue pairs that know no peer yet. NULL with text. */
struct link *verbs_link_prepare(struct endpoint *endpoint, bool initiator, char *text,
                                size_t text_size);
/* What the peer must hear of it. */
const struct handshake_verbs *verbs_link_offer(const struct link *link);
/* Connects it to a peer's offer; then the own one is the answer. */
int verbs_link_answer(struct link *link, const struct handshake_verbs *peer, char *text,
                      size_t text_size);
/* Connects it to the answer to its offer. */
int verbs_link_confirm(struct link *link, const struct handshake_verbs *peer, char *text,
                       size_t text_size);
/* The connection of the handshake becomes the link's; the initiator says that it is ready. */
int verbs_link_carry(struct link *link, int socket);

/* Registers a region with the device. TS_OK (region->registering: not yet), or an error with text.
 */
int verbs_region_add(struct region *region, char *text, size_t text_size);
void verbs_region_remove(struct region *region);
/* Private memory: what its job needs to register it itself. `*fd` stays ours. TS_OK, or
 * TS_ERR_UNSUPPORTED, TS_ERR_DENIED with text. */
int verbs_region_grant(const struct region *region, struct proto_grant *grant, int *fd, char *text,
                       size_t text_size);
/* What came of it. TS_OK, TS_ERR_INVALID, TS_ERR_EXISTS, TS_ERR_NO_MEMORY. */
int verbs_region_keys(struct region *region, const struct proto_keys *keys, char *text,
                      size_t text_size);

#endif
