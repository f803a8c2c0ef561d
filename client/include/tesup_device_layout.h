/* Where things are in a channel's memory, for code that cannot include the library's own headers:
 * CUDA kernels.  Plain C and C++.  client/abi.c holds all numbers equal to shm/layout.h. */
#ifndef TESUP_DEVICE_LAYOUT_H
#define TESUP_DEVICE_LAYOUT_H

#include <stdint.h>

#define TESUP_DEVICE_MAGIC UINT64_C(0x3150555345540a1a)
#define TESUP_DEVICE_MAJOR 1u

/* From the start of the channel. A place is three 64-bit words: offset, size, start. */
enum {
    TESUP_DEVICE_VERSION = 8, /* major, 32 bit */
    TESUP_DEVICE_PLACE_SQ = 32,
    TESUP_DEVICE_PLACE_CQ = 56,
    TESUP_DEVICE_PLACE_NTX = 80,
    TESUP_DEVICE_PLACE_NRX = 104,
    TESUP_DEVICE_SLOTS = 136, /* 32 bit */
    TESUP_DEVICE_SQ_WORDS = 768,
    TESUP_DEVICE_CQ_WORDS = 1024,
    TESUP_DEVICE_NTX_WORDS = 1280,
    TESUP_DEVICE_NRX_WORDS = 1536,
    TESUP_DEVICE_HEAD = 128, /* behind the tail of the same ring */
    TESUP_DEVICE_SLOTS_MAX = 4096,
};

enum {
    TESUP_DEVICE_FLAG_NOTIFY = 0x01,
    TESUP_DEVICE_KIND_PAD = 0,
    TESUP_DEVICE_KIND_MESSAGE = 1,
};

struct tesup_device_sqe {
    uint8_t op, flags;
    uint16_t slot;
    uint32_t deadline_ms;
    uint64_t cookie, length, local_offset, remote_offset;
    uint32_t local_region, remote_region, remote, notify_len;
    uint64_t notify_pos;
};

struct tesup_device_cqe {
    uint64_t cookie, ticket, bytes;
    int32_t status;
    uint16_t slot;
    uint8_t op, flags;
};

struct tesup_device_record {
    uint32_t size;
    uint16_t kind, from_len;
    uint32_t name_len, msg_len;
    int32_t status;
    uint32_t remote;
    uint64_t bytes;
};

#endif
