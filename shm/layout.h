/* The shared-memory ABI of one channel: what a job and its worker both map.
 *
 * A channel is one sealed memfd.  It holds four single-producer single-consumer rings:
 *
 *   sq   job -> worker   64-byte descriptors           (what to do)
 *   cq   worker -> job   32-byte completions           (what became of it)
 *   ntx  job -> worker   byte ring of notifications    (payload that an sq descriptor points at)
 *   nrx  worker -> job   byte ring of notifications    (arrived ones, and watch events)
 *
 * and the in-flight journal, by which a restarted worker completes what its predecessor accepted.
 * Neither side trusts the other: both keep their own counters private and only publish them here;
 * what is read from the other side is copied once, then checked (docs/memory-model.md).
 */
#ifndef TESUP_SHM_LAYOUT_H
#define TESUP_SHM_LAYOUT_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define LAYOUT_MAGIC         UINT64_C(0x3150555345540a1a) /* "\x1a\nTESUP1" */
#define LAYOUT_VERSION_MAJOR 1u
#define LAYOUT_VERSION_MINOR 0u

/* Two cache lines: the adjacent-line prefetcher of x86 fetches lines in pairs. */
#define LAYOUT_LINE 128

#define LAYOUT_NOTIFY_NATIVE_MAX 65528u          /* name + message, native path */
#define LAYOUT_NOTIFY_OOB_MAX    (1024u * 1024u) /* name + message when fallback is on */
#define LAYOUT_SLOTS_MAX         4096u           /* requests in flight per channel */
#define LAYOUT_NAME_MAX          320u            /* "HOST:PORT/SEGMENT", with the final NUL */

/* Feature bits: a side sets what it offers; the other uses only what it knows. */
#define LAYOUT_FEATURE_MAILBOX (UINT64_C(1) << 0) /* notifications arrive on this channel */
#define LAYOUT_FEATURE_OOB     (UINT64_C(1) << 1) /* notify_max is above the native limit */
#define LAYOUT_FEATURE_GROUP   (UINT64_C(1) << 2) /* the worker knows SQE_FLAG_MORE */
#define LAYOUT_FEATURE_WAIT    (UINT64_C(1) << 3) /* and SQE_WAIT, SQE_FLAG_AFTER */
#define LAYOUT_FEATURES_KNOWN \
    (LAYOUT_FEATURE_MAILBOX | LAYOUT_FEATURE_OOB | LAYOUT_FEATURE_GROUP | LAYOUT_FEATURE_WAIT)

/* One direction of one ring.  Producer and consumer words are two lines apart. */
struct ring_shared {
    _Atomic uint64_t tail; /* producer publishes with release; pairs with the consumer's acquire */
    uint8_t pad0[LAYOUT_LINE - 8];
    _Atomic uint64_t head; /* consumer publishes with release; pairs with the producer's acquire */
    uint8_t pad1[LAYOUT_LINE - 8];
};
static_assert(sizeof(struct ring_shared) == 2 * LAYOUT_LINE, "ring words on separate line pairs");
static_assert(offsetof(struct ring_shared, head) == LAYOUT_LINE, "head on its own line pair");

/* Set by the consumer before it sleeps, cleared by whoever wakes it (shm/doorbell.h). */
struct doorbell_shared {
    _Atomic uint32_t armed;
    uint8_t pad[LAYOUT_LINE - 4];
};
static_assert(sizeof(struct doorbell_shared) == LAYOUT_LINE, "doorbell word on its own line pair");

struct ring_place {
    uint64_t offset; /* of the ring's bytes, from the start of the segment */
    uint64_t size;   /* bytes for a byte ring, entries for a slot ring; a power of two */
    uint64_t start;  /* value that all counters of this ring began with */
};
static_assert(sizeof(struct ring_place) == 24, "ring_place is 24 bytes");

struct channel_header {
    uint64_t magic;
    uint32_t version_major;
    uint32_t version_minor;
    uint64_t features;
    uint64_t size; /* of the whole segment in bytes; equals the memfd's size */
    struct ring_place sq, cq, ntx, nrx;
    uint64_t journal_offset;
    uint32_t slots;         /* requests in flight at most; also the size of sq and cq */
    uint32_t notify_max;    /* name + message in bytes */
    _Atomic uint64_t epoch; /* counts the workers that served this channel; release by the worker */
    uint8_t pad0[LAYOUT_LINE * 2 - 8 * 4 - 24 * 4 - 24];

    struct doorbell_shared worker_bell; /* the worker sleeps; the job wakes it */
    struct doorbell_shared job_bell;    /* the job sleeps; the worker wakes it */
    struct doorbell_shared
        nrx_room; /* the producer of nrx waits for room; its consumer says when */
    struct doorbell_shared ntx_room; /* the same for ntx, when both sides are workers */
    struct ring_shared sq_words, cq_words, ntx_words, nrx_words;
    uint8_t pad1[4096 - 6 * LAYOUT_LINE - 8 * LAYOUT_LINE];
};
static_assert(offsetof(struct channel_header, sq) == 32, "sq place");
static_assert(offsetof(struct channel_header, journal_offset) == 128, "journal offset");
static_assert(offsetof(struct channel_header, epoch) == 144, "epoch");
static_assert(offsetof(struct channel_header, worker_bell) == 2 * LAYOUT_LINE, "worker bell");
static_assert(offsetof(struct channel_header, job_bell) == 3 * LAYOUT_LINE, "job bell");
static_assert(offsetof(struct channel_header, nrx_room) == 4 * LAYOUT_LINE, "nrx room bell");
static_assert(offsetof(struct channel_header, ntx_room) == 5 * LAYOUT_LINE, "ntx room bell");
static_assert(offsetof(struct channel_header, sq_words) == 6 * LAYOUT_LINE, "sq words");
static_assert(offsetof(struct channel_header, nrx_words) == 12 * LAYOUT_LINE, "nrx words");
static_assert(sizeof(struct channel_header) == 4096, "header is one page");

enum sqe_op {
    SQE_NOP = 0,
    SQE_READ = 1,   /* remote -> local */
    SQE_WRITE = 2,  /* local -> remote */
    SQE_NOTIFY = 3, /* a notification of its own */
    SQE_CANCEL = 4, /* cancel the request in `slot` whose ticket is `local_offset` */
    SQE_WAIT = 5,   /* for the event whose handle is `local_region` */
    SQE_OP_COUNT
};

#define SQE_FLAG_NOTIFY        0x01u /* notify_pos/notify_len name a record in ntx */
#define SQE_FLAG_NOTIFY_ALWAYS 0x02u /* it arrives whatever becomes of the transfer */
#define SQE_FLAG_REMOTE_ADDR   0x04u /* remote_offset is an address in the owner's process */
#define SQE_FLAG_MORE          0x08u /* the notification of a later request waits for it, too */
#define SQE_FLAG_AFTER         0x10u /* starts when the SQE_WAIT before it has ended */
#define SQE_FLAG_MASK          0x1fu

/* A submission.  The job writes it once; the worker copies it once and never looks again. */
struct sqe {
    uint8_t op;             /* enum sqe_op */
    uint8_t flags;          /* SQE_FLAG_* */
    uint16_t slot;          /* free request slot chosen by the job, < channel_header.slots */
    uint32_t deadline_ms;   /* after acceptance; 0 = the worker's default */
    uint64_t cookie;        /* comes back in the completion */
    uint64_t length;        /* bytes to move */
    uint64_t local_offset;  /* in local_region; for SQE_CANCEL the ticket */
    uint64_t remote_offset; /* in remote_region, or an address */
    uint32_t local_region;  /* handle */
    uint32_t remote_region; /* handle in the owner's session; 0 with SQE_FLAG_REMOTE_ADDR */
    uint32_t remote;        /* handle of the opened remote segment */
    uint32_t notify_len;    /* bytes of the ntx record, header included */
    uint64_t notify_pos;    /* free-running position of the record in ntx */
};
static_assert(sizeof(struct sqe) == 64, "a descriptor is one cache line");
static_assert(offsetof(struct sqe, cookie) == 8, "cookie");
static_assert(offsetof(struct sqe, length) == 16, "length");
static_assert(offsetof(struct sqe, local_offset) == 24, "local_offset");
static_assert(offsetof(struct sqe, remote_offset) == 32, "remote_offset");
static_assert(offsetof(struct sqe, local_region) == 40, "local_region");
static_assert(offsetof(struct sqe, remote) == 48, "remote");
static_assert(offsetof(struct sqe, notify_pos) == 56, "notify_pos");

/* A completion: exactly one for each accepted submission. */
struct cqe {
    uint64_t cookie;
    uint64_t ticket; /* sq position of the submission */
    uint64_t bytes;  /* moved */
    int32_t status;  /* enum tesup_code */
    uint16_t slot;   /* free again for the job */
    uint8_t op;
    uint8_t flags;
};
static_assert(sizeof(struct cqe) == 32, "two completions a cache line");
static_assert(offsetof(struct cqe, status) == 24, "status");

enum notify_kind {
    NOTIFY_KIND_PAD = 0,     /* skip to the start of the ring */
    NOTIFY_KIND_MESSAGE = 1, /* from (nrx only), name, message follow the header */
    NOTIFY_KIND_EVENT = 2,   /* nrx only: a watched segment changed; `status` says how */
};

/* Header of a byte-ring record; records begin 8-byte aligned and never wrap. */
struct notify_record {
    uint32_t size;     /* of the whole record with padding, a multiple of 8 */
    uint16_t kind;     /* enum notify_kind */
    uint16_t from_len; /* sender's "HOST:PORT/SEGMENT", no NUL */
    uint32_t name_len;
    uint32_t msg_len;
    int32_t status;  /* outcome of the bound transfer, TS_OK without one; of the event */
    uint32_t remote; /* event: the watcher's handle */
    uint64_t bytes;  /* moved by the bound transfer */
};
static_assert(sizeof(struct notify_record) == 32, "record header is 32 bytes");

enum journal_state {
    JOURNAL_FREE = 0,
    JOURNAL_ACCEPTED = 1,   /* taken from sq; the completion is owed */
    JOURNAL_COMPLETING = 2, /* the completion goes to cq position cq_pos */
};

/* The worker's note of one accepted request, indexed by slot.  The job never reads it. */
struct journal_entry {
    _Atomic uint64_t state; /* release after the fields below; read by the next worker */
    uint64_t ticket;
    uint64_t cookie;
    uint64_t cq_pos;
    uint8_t op;
    uint8_t flags; /* SQE_FLAG_*; of the last one accepted they outlive its completion */
    uint8_t pad[30];
};
static_assert(sizeof(struct journal_entry) == 64, "one line per request");

#endif
