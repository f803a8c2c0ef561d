/* The ABI in numbers: programs built against another libtransfer_engine.so count on them. */
#include <assert.h>

#include "client/compat/mooncake/include/transfer_engine_c.h"

#define SIZE(type, bytes)        static_assert(sizeof(type) == (bytes), #type)
#define PLACE(type, name, bytes) static_assert(offsetof(type, name) == (bytes), #type " " #name)

/* LP64; elsewhere nobody knows the layouts. */
SIZE(long, 8);
SIZE(void *, 8);

SIZE(struct transfer_request, 40);
PLACE(struct transfer_request, opcode, 0);
PLACE(struct transfer_request, source, 8);
PLACE(struct transfer_request, target_id, 16);
PLACE(struct transfer_request, target_offset, 24);
PLACE(struct transfer_request, length, 32);

SIZE(struct transfer_status, 16);
PLACE(struct transfer_status, status, 0);
PLACE(struct transfer_status, transferred_bytes, 8);

SIZE(struct notify_msg, 16);
PLACE(struct notify_msg, name, 0);
PLACE(struct notify_msg, msg, 8);

SIZE(struct buffer_entry, 16);
PLACE(struct buffer_entry, addr, 0);
PLACE(struct buffer_entry, length, 8);

SIZE(struct segment_desc, 48);
PLACE(struct segment_desc, type, 0);
PLACE(struct segment_desc, desc_.rdma.addr, 8);
PLACE(struct segment_desc, desc_.rdma.size, 16);
PLACE(struct segment_desc, desc_.rdma.location, 24);
PLACE(struct segment_desc, desc_.nvmeof.file_path, 8);
PLACE(struct segment_desc, desc_.nvmeof.port, 40);

SIZE(struct nic_load_stat, 80);
PLACE(struct nic_load_stat, device_name, 0);
PLACE(struct nic_load_stat, inflight_bytes, 64);
PLACE(struct nic_load_stat, ewma_bandwidth_bps, 72);
