/* Messages of the local protocol: job <-> supervisor and supervisor <-> worker.
 *
 * Both run over Unix SEQPACKET sockets: one packet is one message, a wire_header and the fixed
 * payload of its type, with a fixed number of file descriptors (shm/wire.c holds the table).
 * The supervisor forwards a job's request to the worker under the same type, with `session` and
 * `handle` filled in; the job's values of both are ignored.  docs/protocol.md tells the story.
 */
#ifndef TESUP_SHM_PROTO_H
#define TESUP_SHM_PROTO_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/layout.h"

#define WIRE_MAGIC       0x50555354u /* "TSUP" */
#define WIRE_VERSION     3u
#define WIRE_PAYLOAD_MAX 8192u
#define WIRE_FDS_MAX     241

#define PROTO_LABEL_MAX 64u  /* segment, pair and worker names */
#define PROTO_TEXT_MAX  256u /* sentence of a refusal */
#define PROTO_HELLO_MAX 4096u

enum wire_type {
    WIRE_NONE = 0,
    /* job -> supervisor; some go on to the worker */
    WIRE_HELLO = 1,
    WIRE_CHANNEL_OPEN,
    WIRE_CHANNEL_CLOSE,
    WIRE_REGION_ADD,
    WIRE_REGION_DEL,
    WIRE_REMOTE_OPEN,
    WIRE_REMOTE_CLOSE,
    WIRE_REMOTE_WATCH,
    WIRE_REGION_GRANT, /* lets the job register private memory with the device; GRANT answers */
    WIRE_REGION_KEYS,  /* what came of it */
    WIRE_BYE,
    /* answers: supervisor -> job, worker -> supervisor */
    WIRE_WELCOME,
    WIRE_CHANNEL_READY,
    WIRE_REPLY,
    WIRE_GRANT, /* worker -> supervisor -> job */
    /* supervisor -> worker */
    WIRE_WORKER_CONFIG,
    WIRE_SESSION_ADD,
    WIRE_SESSION_DEL,
    WIRE_CHANNEL_ADD,
    WIRE_PEER_SOCKET,
    WIRE_LOCAL_LINK, /* also worker -> peer supervisor, to reach a worker of the same host */
    WIRE_DRAIN,
    /* worker -> supervisor */
    WIRE_WORKER_READY,
    WIRE_SESSION_KILL,
    /* job -> supervisor -> worker */
    WIRE_REGION_ADD_GPU, /* as REGION_ADD, for memory of a GPU */
    WIRE_TYPE_COUNT
};

/* Between supervisor and worker: a message with an id up to this repeats what an earlier process of
 * the worker had. */
#define PROTO_REPLAY_ID_MAX 1u

struct wire_header {
    uint32_t magic;
    uint16_t version;
    uint16_t type;    /* enum wire_type */
    uint32_t length;  /* of the payload */
    uint32_t id;      /* echoed by the answer */
    uint64_t session; /* between supervisor and worker: session handle */
};
static_assert(sizeof(struct wire_header) == 24, "wire header");

struct proto_hello {
    uint32_t abi_major;
    uint32_t abi_minor;
    uint64_t features; /* of channels that this libtesup can use: LAYOUT_FEATURE_* */
    uint32_t slots;    /* 0 = default */
    uint32_t flags;    /* PROTO_SHARE_* */
    int32_t cpu;       /* the job runs on; -1 unknown */
    uint32_t pad;
    char segment[PROTO_LABEL_MAX]; /* "" = unique */
    char pair[PROTO_LABEL_MAX];    /* "" = by NUMA node */
};
#define PROTO_SHARE_ALL 1u

/* With fds: channel memfd, worker eventfd, job eventfd; without any when status is an error. */
struct proto_welcome {
    int32_t status;
    uint32_t notify_max;
    uint32_t supervisor_pid; /* for PR_SET_PTRACER */
    uint32_t channel;        /* handle */
    uint32_t flags;          /* PROTO_WELCOME_* */
    uint32_t pad;
    char segment[LAYOUT_NAME_MAX];
    char worker[PROTO_LABEL_MAX];
    char text[PROTO_TEXT_MAX];
};

#define PROTO_WELCOME_RDMA 1u /* the worker has a device: ask for a grant for private memory */

struct proto_channel {
    uint32_t handle;
    uint32_t slots;
    uint32_t adopt; /* the rings were served before: keep their counters */
    uint32_t pad;
};

enum region_kind {
    REGION_KIND_SHARED = 1,  /* one fd: the file to map */
    REGION_KIND_PRIVATE = 2, /* no fd: [base, base + length) of the job */
    REGION_KIND_GPU = 3,     /* struct proto_gpu beside it; an fd for each way that has one */
    REGION_KIND_EVENT = 4,   /* the same, for an event of a GPU: no memory, only to wait for */
};

/* Access bits as in tesup.h. */
#define REGION_ACCESS_READ  1u
#define REGION_ACCESS_WRITE 2u
#define REGION_ACCESS_MASK  3u

struct proto_region {
    uint32_t handle;
    uint32_t kind;
    uint32_t access;
    uint32_t pad;
    uint64_t base;   /* address in the job, for requests by address */
    uint64_t offset; /* in the file */
    uint64_t length;
};

/* Handles of cuMemCreate in one region; with a dmabuf's they fit into one packet (SCM_MAX_FD of the
 * kernel is 253). */
#define PROTO_GPU_PIECES_MAX 240u
#define PROTO_GPU_FDS_MAX    241

/* Where memory of a GPU is, and how others reach it.  Base and length of its region are those of
 * the job's device pointer. */
struct proto_gpu {
    uint8_t uuid[16];
    uint32_t ways;          /* PROTO_GPU_*; IPC or VMM, one of the two */
    uint32_t dmabuf_result; /* why there is no dmabuf: an enum cuda_result; 0 where there is one */
    uint64_t buffer;        /* tells the process's allocations apart; never used twice in it */
    uint64_t offset;        /* of the region in its allocation, or in its first piece */
    uint64_t dmabuf_offset; /* of the region in the dmabuf */
    uint32_t pieces;        /* of VMM; 0 with IPC */
    uint32_t pad;
    uint8_t ipc[64];
    uint64_t piece[PROTO_GPU_PIECES_MAX]; /* bytes of each, side by side in the job */
};
#define PROTO_GPU_IPC    1u
#define PROTO_GPU_VMM    2u /* an fd for each piece: its handle */
#define PROTO_GPU_EVENT  8u /* the IPC handle of an event */
#define PROTO_GPU_DMABUF 4u /* an fd behind those: what a NIC can register */

struct proto_region_gpu {
    struct proto_region region;
    struct proto_gpu gpu;
};

/* As many descriptors as it offers. */
static inline bool proto_gpu_fits(const struct proto_gpu *gpu, int fd_count)
{
    bool vmm = (gpu->ways & PROTO_GPU_VMM) != 0, dmabuf = (gpu->ways & PROTO_GPU_DMABUF) != 0;

    return vmm == (gpu->pieces > 0) && gpu->pieces <= PROTO_GPU_PIECES_MAX &&
           (uint32_t)fd_count == gpu->pieces + (dmabuf ? 1u : 0u);
}

/* One fd: the context of the worker's device (shm/uverbs.h). */
struct proto_grant {
    uint32_t handle; /* of the region */
    uint32_t driver;
    uint32_t domain;
    uint32_t access; /* IBV_ACCESS_* to register with */
};

/* One registration for each GiB, or the error that ended it. */
struct proto_key {
    uint32_t mr, lkey, rkey;
};
#define PROTO_KEYS_MAX  256u
#define PROTO_KEY_SHIFT 30u
struct proto_keys {
    uint32_t handle;
    uint32_t count;
    uint32_t error; /* errno of the job's attempt; 0 when count covers the region */
    uint32_t pad;
    struct proto_key key[PROTO_KEYS_MAX];
};

struct proto_remote {
    uint32_t handle;
    uint32_t timeout_ms;
    char name[LAYOUT_NAME_MAX];
};

struct proto_handle {
    uint32_t handle;
    uint32_t pad;
};

struct proto_reply {
    int32_t status;
    uint32_t handle;
    char text[PROTO_TEXT_MAX];
};

/* How the verbs fabric sets up queue pairs.  The same numbers go to all of an endpoint's QPs, so
 * that all of them see the death of a path at the same time (ibv_modify_qp(3)). */
struct proto_rdma {
    uint32_t gid_index;   /* PROTO_GID_AUTO: the best that works */
    uint32_t mtu;         /* bytes; 0: what both ports have */
    uint32_t data_qps;    /* per endpoint; large transfers are striped over them */
    uint32_t timeout;     /* of a packet: 4.096 us << timeout */
    uint32_t retries;     /* of a packet that got no answer */
    uint32_t rnr_retries; /* of a SEND that found no receive buffer; 7: for ever */
    uint32_t fused_max;   /* a transfer up to this many bytes shares the notification QP */
    uint32_t traffic_class;
};
#define PROTO_GID_AUTO UINT32_MAX

struct proto_worker_config {
    uint8_t peer_key[32];
    uint32_t peer_auth;    /* 0 = none, 1 = pre-shared key */
    uint32_t worker_index; /* of its block in the counters segment */
    uint32_t fabric;       /* enum proto_fabric */
    uint32_t idle;         /* enum proto_idle */
    uint32_t spin_us;
    uint32_t notify_max;
    uint32_t slice_bytes; /* a large transfer's turn */
    uint32_t tcp_window; /* bytes in flight towards us on one connection; 0 = the kernel's choice */
    uint32_t endpoint_max;
    uint32_t connect_ms;    /* connect + handshake */
    uint32_t request_ms;    /* default deadline of a request, 0 = none */
    uint32_t notify_native; /* MC_RDMA_NOTIFY_ENABLED */
    uint32_t notify_oob;    /* MC_RDMA_NOTIFY_OOB_FALLBACK */
    struct proto_rdma rdma;
    char name[PROTO_LABEL_MAX];         /* of the pair */
    char device[PROTO_LABEL_MAX];       /* RDMA device, "mlx5_0" or "mlx5_0:2"; "" none */
    char gpu[PROTO_LABEL_MAX];          /* bus id, or a UUID where there is MIG; "" none */
    char address[LAYOUT_NAME_MAX];      /* HOST:PORT of this supervisor */
    char local_socket[LAYOUT_NAME_MAX]; /* path of this supervisor's socket */
};
enum proto_fabric {
    PROTO_FABRIC_AUTO = 0,
    PROTO_FABRIC_TCP = 1,
    PROTO_FABRIC_LOCAL = 2,
    PROTO_FABRIC_VERBS = 3,
};
enum proto_idle { PROTO_IDLE_ADAPTIVE = 0, PROTO_IDLE_BUSY = 1, PROTO_IDLE_SLEEP = 2 };

/* One fd: the job's pidfd. */
struct proto_session {
    uint32_t uid;
    uint32_t pid;
    uint64_t start_time; /* field 22 of /proc/PID/stat: guards against a reused pid */
    uint32_t flags;      /* PROTO_SHARE_* */
    uint32_t trusted;    /* PROTO_TRUST_* */
    char segment[PROTO_LABEL_MAX];
};

#define PROTO_TRUST_MEMORY 1u /* its private memory may be reached */
#define PROTO_TRUST_DEVICE 2u /* it may register memory with the worker's device itself */

/* One fd: the connected socket of a peer that proved its key; the worker answers WELCOME. */
struct proto_peer {
    uint8_t challenge[32];
    uint32_t hello_len;
    uint32_t pad;
    uint8_t hello[PROTO_HELLO_MAX]; /* the whole HELLO as it arrived */
};

/* One fd: a connected Unix socket from the peer worker that was given `token`. */
struct proto_local_link {
    uint8_t token[16]; /* first 4 bytes: worker index */
};

struct proto_drain {
    uint32_t deadline_ms;
    uint32_t pad;
};

static_assert(sizeof(struct proto_peer) <= WIRE_PAYLOAD_MAX, "largest payload");
static_assert(PROTO_GPU_FDS_MAX <= WIRE_FDS_MAX, "most descriptors");

#endif
