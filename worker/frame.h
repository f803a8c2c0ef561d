/* Frames of the peer protocol: what two workers say to each other after the handshake.
 *
 * One 40-byte header and `length` bytes of payload, little-endian, in order, on whatever the link
 * is (a TCP stream, a shared-memory ring, or this worker itself).  docs/protocol.md lists each
 * type.
 */
#ifndef TESUP_WORKER_FRAME_H
#define TESUP_WORKER_FRAME_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/layout.h"
#include "shm/proto.h"

enum frame_type {
    FRAME_NONE = 0,
    FRAME_OPEN = 1, /* open a segment: request = sender's remote handle */
    FRAME_OPENED,   /* answer: open = handle for later frames, value = credit, status */
    FRAME_CLOSE,    /* forget `open` */
    FRAME_GONE,     /* the segment behind remote handle `request` is gone */
    FRAME_NOTIFY,   /* open, region = name length, payload = name and message */
    FRAME_CREDIT,   /* request = sender's remote handle, value = bytes given back */
    FRAME_BYE,      /* no more from me on this link; close when you said it too */
    FRAME_WRITE,    /* tcp: one slice into open's region at offset; FRAME_FLAG_LAST ends it */
    FRAME_READ,     /* tcp: ask for value bytes of open's region at offset */
    FRAME_DATA,     /* tcp: one slice for READ `request` at offset */
    FRAME_RESULT,   /* tcp: READ or WRITE `request` ended: status, value = bytes */
    FRAME_CANCEL,   /* tcp: stop READ or WRITE `request`; RESULT answers */
    FRAME_EXPORT,   /* local, verbs: send me the memory of open's region; request = import handle */
    FRAME_EXPORTED, /* answer; local: without memory; verbs: with struct frame_keys */
    FRAME_REVOKE,   /* local, verbs: let go of import `request` */
    FRAME_REVOKED,  /* local, verbs: it is let go */
    FRAME_READY,    /* verbs: the initiator's first word over the notification QP */
    FRAME_BROKEN,   /* verbs: queue pair `open` of epoch `offset` failed */
    FRAME_RENEW, /* verbs: its next one: request = number, region = PSN, value = packets received */
    FRAME_RENEWED, /* verbs: it can receive */
    FRAME_TYPE_COUNT
};

#define FRAME_FLAG_LAST   0x01u /* WRITE, DATA: the last slice */
#define FRAME_FLAG_ADDR   0x02u /* READ, WRITE, EXPORT: offset is an address of the owner */
#define FRAME_FLAG_BOUND  0x04u /* NOTIFY: bound to WRITE `request` that went before it */
#define FRAME_FLAG_ALWAYS 0x08u /* NOTIFY: deliver whatever the outcome */

struct frame {
    uint32_t length; /* of the payload */
    uint8_t type;
    uint8_t flags;
    int16_t status; /* enum tesup_code */
    uint32_t open;
    uint32_t request;
    uint32_t region;
    uint32_t pad;
    uint64_t offset;
    uint64_t value;
};
static_assert(sizeof(struct frame) == 40, "frame header");

/* Payload of FRAME_OPEN. */
struct frame_open {
    char segment[PROTO_LABEL_MAX];
    char sender[LAYOUT_NAME_MAX];
    uint32_t uid;
    uint32_t pad;
};

/* Payload of a good FRAME_EXPORTED over verbs; the keys follow, one for each GiB. */
struct frame_keys {
    uint64_t base; /* address in the owner's job, for requests by address */
    uint64_t iova; /* address that the keys are for */
    uint64_t length;
    uint32_t access; /* REGION_ACCESS_* */
    uint32_t region; /* the owner's handle */
};
#define FRAME_KEYS_MAX 256u /* regions of up to 256 GiB */

#define FRAME_SLICE_MAX (16u * 1024u * 1024u) /* payload of WRITE and DATA */
#define FRAME_SMALL_MAX (LAYOUT_NOTIFY_OOB_MAX + 64u)

/* Is the header one that may arrive at all?  TS_OK or TS_ERR_PROTOCOL. */
int frame_check(const struct frame *frame);

/* WRITE and DATA payloads go to memory; all others are small and are read whole. */
static inline bool frame_is_bulk(const struct frame *frame)
{
    return frame->type == FRAME_WRITE || frame->type == FRAME_DATA;
}

/* Frames that the peer's own frames cause: how many of them wait is the peer's doing, and a link
 * bounds them by not reading on.  What we begin ourselves is bounded by handles and credit. */
static inline bool frame_is_answer(const struct frame *frame)
{
    switch (frame->type) {
    case FRAME_OPENED:
    case FRAME_CREDIT:
    case FRAME_RESULT:
    case FRAME_EXPORTED:
    case FRAME_REVOKED:
        return true;
    default:
        return false;
    }
}

#endif
