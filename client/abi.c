/* The public header and the shared-memory ABI say the same numbers; this file makes sure of it. */
#include "client/include/tesup.h"
#include "client/include/tesup_device_layout.h"
#include "shm/err.h"
#include "shm/layout.h"
#include "shm/proto.h"

#define SAME(public_name, shared_name)                                               \
    static_assert((long)(public_name) == (long)(shared_name), #public_name " equals" \
                                                                           " " #shared_name)

SAME(TESUP_OK, TS_OK);
SAME(TESUP_AGAIN, TS_AGAIN);
SAME(TESUP_ERR_INVALID, TS_ERR_INVALID);
SAME(TESUP_ERR_DENIED, TS_ERR_DENIED);
SAME(TESUP_ERR_GONE, TS_ERR_GONE);
SAME(TESUP_ERR_NOT_FOUND, TS_ERR_NOT_FOUND);
SAME(TESUP_ERR_UNREACHABLE, TS_ERR_UNREACHABLE);
SAME(TESUP_ERR_TIMEOUT, TS_ERR_TIMEOUT);
SAME(TESUP_ERR_CANCELLED, TS_ERR_CANCELLED);
SAME(TESUP_ERR_UNCERTAIN, TS_ERR_UNCERTAIN);
SAME(TESUP_ERR_FAULT, TS_ERR_FAULT);
SAME(TESUP_ERR_LIMIT, TS_ERR_LIMIT);
SAME(TESUP_ERR_NO_MEMORY, TS_ERR_NO_MEMORY);
SAME(TESUP_ERR_NO_DAEMON, TS_ERR_NO_DAEMON);
SAME(TESUP_ERR_FORKED, TS_ERR_FORKED);
SAME(TESUP_ERR_VERSION, TS_ERR_VERSION);
SAME(TESUP_ERR_PROTOCOL, TS_ERR_PROTOCOL);
SAME(TESUP_ERR_EXISTS, TS_ERR_EXISTS);
SAME(TESUP_ERR_UNSUPPORTED, TS_ERR_UNSUPPORTED);
SAME(TESUP_ERR_TOO_LONG, TS_ERR_TOO_LONG);
SAME(TESUP_ERR_AUTH, TS_ERR_AUTH);
SAME(TESUP_ERR_SYSTEM, TS_ERR_SYSTEM);
SAME(TESUP_ERR_SKIPPED, TS_ERR_SKIPPED);
SAME(TESUP_ERR_SKIPPED, TS_ERR_LAST);

SAME(TESUP_OP_NOP, SQE_NOP);
SAME(TESUP_OP_READ, SQE_READ);
SAME(TESUP_OP_WRITE, SQE_WRITE);
SAME(TESUP_OP_NOTIFY, SQE_NOTIFY);
SAME(TESUP_OP_WAIT, SQE_WAIT);

SAME(TESUP_NOTIFY_ALWAYS, SQE_FLAG_NOTIFY_ALWAYS);
SAME(TESUP_REMOTE_ADDR, SQE_FLAG_REMOTE_ADDR);
SAME(TESUP_MORE, SQE_FLAG_MORE);
SAME(TESUP_AFTER, SQE_FLAG_AFTER);
SAME(TESUP_NOTIFY_MAX, LAYOUT_NOTIFY_NATIVE_MAX);

SAME(TESUP_ACCESS_LOCAL, 0);
SAME(TESUP_ACCESS_REMOTE_READ, REGION_ACCESS_READ);
SAME(TESUP_ACCESS_REMOTE_WRITE, REGION_ACCESS_WRITE);

SAME(TESUP_SHARE_UID, 0);
SAME(TESUP_SHARE_ALL, PROTO_SHARE_ALL);

SAME(TESUP_NOTIFICATION_MESSAGE, NOTIFY_KIND_MESSAGE);
SAME(TESUP_NOTIFICATION_EVENT, NOTIFY_KIND_EVENT);

/* ---- tesup_device_layout.h: what kernels know of a channel ---- */

SAME(TESUP_DEVICE_MAGIC, LAYOUT_MAGIC);
SAME(TESUP_DEVICE_MAJOR, LAYOUT_VERSION_MAJOR);
SAME(TESUP_DEVICE_VERSION, offsetof(struct channel_header, version_major));
SAME(TESUP_DEVICE_PLACE_SQ, offsetof(struct channel_header, sq));
SAME(TESUP_DEVICE_PLACE_CQ, offsetof(struct channel_header, cq));
SAME(TESUP_DEVICE_PLACE_NTX, offsetof(struct channel_header, ntx));
SAME(TESUP_DEVICE_PLACE_NRX, offsetof(struct channel_header, nrx));
SAME(TESUP_DEVICE_SLOTS, offsetof(struct channel_header, slots));
SAME(TESUP_DEVICE_SQ_WORDS, offsetof(struct channel_header, sq_words));
SAME(TESUP_DEVICE_CQ_WORDS, offsetof(struct channel_header, cq_words));
SAME(TESUP_DEVICE_NTX_WORDS, offsetof(struct channel_header, ntx_words));
SAME(TESUP_DEVICE_NRX_WORDS, offsetof(struct channel_header, nrx_words));
SAME(TESUP_DEVICE_HEAD, offsetof(struct ring_shared, head));
SAME(TESUP_DEVICE_SLOTS_MAX, LAYOUT_SLOTS_MAX);
SAME(TESUP_DEVICE_FLAG_NOTIFY, SQE_FLAG_NOTIFY);
SAME(TESUP_DEVICE_KIND_PAD, NOTIFY_KIND_PAD);
SAME(TESUP_DEVICE_KIND_MESSAGE, NOTIFY_KIND_MESSAGE);
static_assert(offsetof(struct ring_place, offset) == 0 && offsetof(struct ring_place, size) == 8,
              "a place is offset and size");

#define SAME_MEMBER(ours, theirs, member)                                           \
    static_assert(offsetof(ours, member) == offsetof(theirs, member) &&             \
                      sizeof(((ours *)0)->member) == sizeof(((theirs *)0)->member), \
                  #ours "." #member)
#define SQE_MEMBER(member)    SAME_MEMBER(struct tesup_device_sqe, struct sqe, member)
#define CQE_MEMBER(member)    SAME_MEMBER(struct tesup_device_cqe, struct cqe, member)
#define RECORD_MEMBER(member) SAME_MEMBER(struct tesup_device_record, struct notify_record, member)

static_assert(sizeof(struct tesup_device_sqe) == sizeof(struct sqe), "sqe");
static_assert(sizeof(struct tesup_device_cqe) == sizeof(struct cqe), "cqe");
static_assert(sizeof(struct tesup_device_record) == sizeof(struct notify_record), "record");
SQE_MEMBER(op);
SQE_MEMBER(flags);
SQE_MEMBER(slot);
SQE_MEMBER(deadline_ms);
SQE_MEMBER(cookie);
SQE_MEMBER(length);
SQE_MEMBER(local_offset);
SQE_MEMBER(remote_offset);
SQE_MEMBER(local_region);
SQE_MEMBER(remote_region);
SQE_MEMBER(remote);
SQE_MEMBER(notify_len);
SQE_MEMBER(notify_pos);
CQE_MEMBER(cookie);
CQE_MEMBER(ticket);
CQE_MEMBER(bytes);
CQE_MEMBER(status);
CQE_MEMBER(slot);
CQE_MEMBER(op);
CQE_MEMBER(flags);
RECORD_MEMBER(size);
RECORD_MEMBER(kind);
RECORD_MEMBER(from_len);
RECORD_MEMBER(name_len);
RECORD_MEMBER(msg_len);
RECORD_MEMBER(status);
RECORD_MEMBER(remote);
RECORD_MEMBER(bytes);
