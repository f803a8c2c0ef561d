/* libtransfer_engine, the C ABI of the Mooncake transfer engine, served by tesup.
 *
 * Programs that were built against another libtransfer_engine.so run on this one unchanged; new
 * ones better use tesup.h.  docs/compat.md says what each function does here.
 *
 * Two ways to return: submitTransfer*, getTransferStatus, freeBatchID and getNicLoadStats give 0 or
 * a positive TRANSFER_ENGINE_*; the other functions that return int give 0 or the same number
 * negative, but -303 for TRANSFER_ENGINE_NOT_IMPLEMENTED.  Every refusal is one sentence on stderr.
 * All functions may be called from many threads, and survive NULL or a destroyed engine.  No string
 * that is passed in is kept.
 */
#ifndef TRANSFER_ENGINE_C_H
#define TRANSFER_ENGINE_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define segment_handle_t int32_t
#define segment_id_t     int32_t
#define batch_id_t       uint64_t

#define LOCAL_SEGMENT 0 /* target_id of the engine's own segment */
#define INVALID_BATCH UINT64_MAX

#define OPCODE_READ  0
#define OPCODE_WRITE 1

#define TRANSFER_ENGINE_INVALID_ARGUMENT      1
#define TRANSFER_ENGINE_TOO_MANY_REQUESTS     2
#define TRANSFER_ENGINE_NOT_REGISTERED        3
#define TRANSFER_ENGINE_BATCH_BUSY            4
#define TRANSFER_ENGINE_DEVICE_NOT_FOUND      6
#define TRANSFER_ENGINE_OVERLAPPED            7
#define TRANSFER_ENGINE_UNSUPPORTED_TRANSPORT 8
#define TRANSFER_ENGINE_DNS                   101
#define TRANSFER_ENGINE_SOCKET                102
#define TRANSFER_ENGINE_MALFORMED_JSON        103
#define TRANSFER_ENGINE_REJECT_HANDSHAKE      104
#define TRANSFER_ENGINE_METADATA              200
#define TRANSFER_ENGINE_ENDPOINT              201
#define TRANSFER_ENGINE_CONTEXT               202
#define TRANSFER_ENGINE_NUMA                  300
#define TRANSFER_ENGINE_CLOCK                 301
#define TRANSFER_ENGINE_MEMORY                302
#define TRANSFER_ENGINE_NOT_IMPLEMENTED       999

typedef void *transfer_engine_t;
typedef void *transport_t;

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): the order is the ABI's */
struct transfer_request {
    int opcode;             /* OPCODE_* */
    void *source;           /* local address */
    segment_id_t target_id; /* of openSegment() */
    uint64_t target_offset; /* address in the target's process */
    uint64_t length;
};
typedef struct transfer_request transfer_request_t;

struct notify_msg {
    char *name;
    char *msg;
};
typedef struct notify_msg notify_msg_t;

#define STATUS_WAITING   0 /* under way */
#define STATUS_PENDING   1
#define STATUS_INVALID   2
#define STATUS_CANCELED  3
#define STATUS_COMPLETED 4
#define STATUS_TIMEOUT   5
#define STATUS_FAILED    6

struct transfer_status {
    int status; /* STATUS_* */
    uint64_t transferred_bytes;
};
typedef struct transfer_status transfer_status_t;

struct buffer_entry {
    void *addr;
    size_t length;
};
typedef struct buffer_entry buffer_entry_t;

struct segment_desc {
    int type;
    union {
        struct {
            void *addr;
            uint64_t size;
            const char *location;
        } rdma;
        struct {
            const char *file_path;
            const char *subsystem_name;
            const char *proto;
            const char *ip;
            uint64_t port;
        } nvmeof;
    } desc_;
};
typedef struct segment_desc segment_desc_t;

struct nic_load_stat {
    char device_name[64];
    uint64_t inflight_bytes;
    double ewma_bandwidth_bps;
};
typedef struct nic_load_stat nic_load_stat_t;

#pragma GCC visibility push(default)

transfer_engine_t createTransferEngine(const char *metadata_conn_string,
                                       const char *local_server_name, const char *ip_or_host_name,
                                       uint64_t rpc_port, int auto_discover);
void destroyTransferEngine(transfer_engine_t engine);
int discoverTopology(transfer_engine_t engine);
int getLocalIpAndPort(transfer_engine_t engine, char *buf_out, size_t buf_len);
transport_t installTransport(transfer_engine_t engine, const char *proto, void **args);
int uninstallTransport(transfer_engine_t engine, const char *proto);
void enableGracefulShutdown(transfer_engine_t engine);

segment_id_t openSegment(transfer_engine_t engine, const char *segment_name);
segment_id_t openSegmentNoCache(transfer_engine_t engine, const char *segment_name);
int closeSegment(transfer_engine_t engine, segment_id_t segment_id);
int removeLocalSegment(transfer_engine_t engine, const char *segment_name);
int warmupEfaSegment(transfer_engine_t engine, const char *segment_name);
int syncSegmentCache(transfer_engine_t engine);

int registerLocalMemory(transfer_engine_t engine, void *addr, size_t length, const char *location,
                        int remote_accessible);
int unregisterLocalMemory(transfer_engine_t engine, void *addr);
int registerLocalMemoryBatch(transfer_engine_t engine, buffer_entry_t *buffer_list,
                             size_t buffer_len, const char *location);
int unregisterLocalMemoryBatch(transfer_engine_t engine, void **addr_list, size_t addr_len);

batch_id_t allocateBatchID(transfer_engine_t engine, size_t batch_size);
int submitTransfer(transfer_engine_t engine, batch_id_t batch_id, struct transfer_request *entries,
                   size_t count);
int submitTransferWithNotify(transfer_engine_t engine, batch_id_t batch_id,
                             struct transfer_request *entries, size_t count,
                             notify_msg_t notify_msg);
int getTransferStatus(transfer_engine_t engine, batch_id_t batch_id, size_t task_id,
                      struct transfer_status *status);
int freeBatchID(transfer_engine_t engine, batch_id_t batch_id);

notify_msg_t *getNotifsFromEngine(transfer_engine_t engine, int *size);
int freeNotifsMsgBuf(notify_msg_t *msg, int size);
int genNotifyInEngine(transfer_engine_t engine, uint64_t target_id, notify_msg_t notify_msg);

int getNicLoadStats(transfer_engine_t engine, nic_load_stat_t *stats, size_t *count);
int showLinks(transfer_engine_t engine, char *buf_out, size_t buf_len, int json);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
