/**
 * @file tesup.h
 * @brief Hand KV-cache transfers and notifications to a tesup worker through shared memory.
 *
 * A process attaches to the supervisor of its host, names its *segment* (the memory it offers and
 * the mailbox for its notifications), registers memory, opens the segments of other processes as
 * `HOST:PORT/SEGMENT`, and submits READs, WRITEs and notifications.  A worker process moves the
 * bytes; this library only writes descriptors to rings and reads completions from them.
 *
 * Error rule: 0 is success, a positive value is a documented outcome (#TESUP_AGAIN), a negative
 * value is an error.  tesup_strerror() gives a phrase, tesup_last_error() the sentence with names.
 *
 * Thread safety: a channel belongs to one thread at a time.  All functions on a #tesup_session but
 * tesup_detach() are thread-safe; those that ask the supervisor wait for each other.  After fork()
 * the child's calls return #TESUP_ERR_FORKED; tesup_detach() frees what is the child's.
 *
 * Should the supervisor die, the session moves to its successor at the same socket by itself: what
 * was in flight ends as #TESUP_ERR_UNCERTAIN, and peers must be told the regions' handles again.
 */
#ifndef TESUP_H
#define TESUP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TESUP_API __attribute__((visibility("default")))

/** @name Status codes
 *  Returned by functions and carried in completions. @{ */
#define TESUP_OK              0     /**< done */
#define TESUP_AGAIN           1     /**< no room now: nothing was accepted; poll, then retry */
#define TESUP_ERR_INVALID     (-1)  /**< an argument makes no sense */
#define TESUP_ERR_DENIED      (-2)  /**< access flags or the trust rule forbid it */
#define TESUP_ERR_GONE        (-3)  /**< the region, segment or session existed and is gone */
#define TESUP_ERR_NOT_FOUND   (-4)  /**< no such segment, worker or handle */
#define TESUP_ERR_UNREACHABLE (-5)  /**< no connection to the peer; nothing was sent */
#define TESUP_ERR_TIMEOUT     (-6)  /**< deadline passed; no byte can land any more */
#define TESUP_ERR_CANCELLED   (-7)  /**< cancelled; no byte can land any more */
#define TESUP_ERR_UNCERTAIN   (-8)  /**< posted, outcome unknown; never replayed */
#define TESUP_ERR_FAULT       (-9)  /**< memory vanished or cannot be touched */
#define TESUP_ERR_LIMIT       (-10) /**< a limit was reached */
#define TESUP_ERR_NO_MEMORY   (-11) /**< the system refused memory */
#define TESUP_ERR_NO_DAEMON   (-12) /**< no supervisor at the socket */
#define TESUP_ERR_FORKED      (-13) /**< called in a child of the process that attached */
#define TESUP_ERR_VERSION     (-14) /**< library and supervisor speak different versions */
#define TESUP_ERR_PROTOCOL    (-15) /**< the other side broke the protocol */
#define TESUP_ERR_EXISTS      (-16) /**< the segment's name is taken */
#define TESUP_ERR_UNSUPPORTED (-17) /**< not possible here; tesup_last_error() says what is */
#define TESUP_ERR_TOO_LONG    (-18) /**< name + message exceed tesup_notify_max() */
#define TESUP_ERR_AUTH        (-19) /**< the peer does not know the key */
#define TESUP_ERR_SYSTEM      (-20) /**< a system call failed */
#define TESUP_ERR_SKIPPED     (-21) /**< not sent: a transfer that it waited for failed */
/** @} */

#define TESUP_NOTIFY_MAX 65528u /**< name + message bytes that always fit */

struct tesup_session; /**< one attachment of a process */
struct tesup_channel; /**< one set of rings, for one thread */

/** Handles are (index, generation); 0 is never valid. A stale one gives #TESUP_ERR_GONE. */
typedef uint32_t tesup_region_t;
typedef uint32_t tesup_remote_t;

/** Options of tesup_attach(). Zero-initialise; NULL and 0 mean the default. */
struct tesup_options {
    const char *socket;  /**< supervisor's socket; default `$TESUP_SOCKET`, then the default path */
    const char *segment; /**< name of this process's segment; default unique per process */
    /** Which worker: a name of a pair or NIC (`mlx5_0+44:00.0`, `mlx5_0`), a GPU's bus id or UUID,
     *  or `gpu:` with either or with an index (`gpu:0`, counted in `CUDA_VISIBLE_DEVICES` or,
     * without it, by bus id as with `CUDA_DEVICE_ORDER=PCI_BUS_ID`), or `numa:` with a node
     * (`numa:1`). Default: `$TESUP_PAIR`, then the NUMA node we run on. */
    const char *pair;
    uint32_t slots; /**< in flight per channel: 16, 32 … 4096; 0: as the daemon says (1024) */
    uint32_t timeout_ms; /**< for attach and later control calls; default 10,000 */
    uint32_t flags;      /**< TESUP_SHARE_* */
};

#define TESUP_SHARE_UID 0u /**< jobs of the same uid and of root may open it (default) */
#define TESUP_SHARE_ALL 1u /**< jobs of any uid on authenticated peers may open it */

/** Region access: what remote jobs may do. Local use is always allowed. */
#define TESUP_ACCESS_LOCAL        0u
#define TESUP_ACCESS_REMOTE_READ  1u
#define TESUP_ACCESS_REMOTE_WRITE 2u

#define TESUP_OP_READ   1u /**< remote → local */
#define TESUP_OP_WRITE  2u /**< local → remote */
#define TESUP_OP_NOTIFY 3u /**< a notification of its own */
#define TESUP_OP_NOP    0u /**< goes through the worker and comes back */
#define TESUP_OP_WAIT   5u /**< ends when the CUDA event that is its local_region has come */

#define TESUP_NOTIFY_ALWAYS 0x02u /**< bound notification arrives whatever the outcome */
#define TESUP_REMOTE_ADDR   0x04u /**< remote_offset is an address of the owner's process */
/** More requests of this group follow.  A group is the requests of one channel that say so, to
 *  whatever segments, and the next one that does not: the notification of that one waits until all
 *  of them have moved.  It is not sent if one of them failed (its request then ends as
 *  #TESUP_ERR_SKIPPED, unless it failed itself), or carries that one's outcome with
 *  #TESUP_NOTIFY_ALWAYS.  What tesup_submit() refuses is not in the group; a #TESUP_OP_NOP ends a
 *  group whose notification shall not be sent.  When worker or supervisor die inside a group, its
 *  notification is not sent. */
#define TESUP_MORE 0x08u
/** This request starts when the last #TESUP_OP_WAIT before it on its channel has ended, and is
 *  skipped (#TESUP_ERR_SKIPPED) when that one failed, was cancelled, or never was.  So a job need
 *  not synchronise with its stream: it records an event behind the work, and submits the wait and
 *  what is to be moved after it.  What the event was recorded behind when the worker takes the
 *  wait counts: recorded again before that, it is waited for as recorded last; after the wait's
 *  completion never.  Its notification keeps its place among those of the channel for that segment.
 */
#define TESUP_AFTER 0x10u

/** One piece of work. Zero-initialise, then fill what the operation needs. */
struct tesup_request {
    uint32_t op;           /**< TESUP_OP_* */
    uint32_t flags;        /**< TESUP_NOTIFY_ALWAYS, TESUP_REMOTE_ADDR, TESUP_MORE, TESUP_AFTER */
    uint64_t cookie;       /**< comes back in the completion */
    tesup_remote_t remote; /**< from tesup_segment_open() */
    tesup_region_t local_region;
    uint64_t local_offset;        /**< bytes */
    tesup_region_t remote_region; /**< the owner's handle; unused with TESUP_REMOTE_ADDR */
    uint32_t deadline_ms;         /**< from acceptance; 0 = the worker's default */
    uint64_t remote_offset;       /**< bytes in remote_region, or an address */
    uint64_t length;              /**< bytes */
    const void *name; /**< notification's name; NULL with name_len 0 and msg_len 0: none */
    const void *msg;  /**< notification's message */
    uint32_t name_len;
    uint32_t msg_len;
};

/** The end of one request. Exactly one per accepted request.
 *  #TESUP_OK means for a WRITE that all bytes are in the target's memory, for a READ that they are
 *  here, for a notification that it was handed to the connection: nobody confirms its arrival. */
struct tesup_completion {
    uint64_t cookie;
    uint64_t ticket; /**< as tesup_submit() gave it */
    uint64_t bytes;  /**< moved */
    int32_t status;  /**< TESUP_OK or TESUP_ERR_*, or TESUP_AGAIN: refused, nothing was sent */
    uint32_t op;
};

#define TESUP_NOTIFICATION_MESSAGE 1u
#define TESUP_NOTIFICATION_EVENT   2u /**< a watched segment is gone: status says why */

/** One arrived notification. The pointers are valid until tesup_notify_release(). */
struct tesup_notification {
    uint32_t kind;         /**< TESUP_NOTIFICATION_* */
    int32_t status;        /**< outcome of the bound transfer; TESUP_OK without one; event: why */
    tesup_remote_t remote; /**< event: the watched handle */
    uint32_t from_len;
    uint32_t name_len;
    uint32_t msg_len;
    const char *from; /**< sender's HOST:PORT/SEGMENT; no NUL; event: the watched one */
    const void *name;
    const void *msg;
    uint64_t bytes; /**< moved by the bound transfer */
};

/** @brief Attach this process to the supervisor of its host.
 *  @param options may be NULL.
 *  @param[out] session set on success only; free with tesup_detach().
 *  @return 0; #TESUP_ERR_NO_DAEMON with the path that was tried; #TESUP_ERR_EXISTS when the name of
 *  the segment is taken by a process that lives (one that has ended is waited for, up to 4 s);
 *  #TESUP_ERR_NOT_FOUND for an unknown pair; #TESUP_ERR_UNREACHABLE when the
 *  worker is not ready within 5 s; #TESUP_ERR_INVALID, #TESUP_ERR_TOO_LONG, #TESUP_ERR_DENIED,
 *  #TESUP_ERR_LIMIT, #TESUP_ERR_NO_MEMORY, #TESUP_ERR_VERSION, #TESUP_ERR_TIMEOUT,
 *  #TESUP_ERR_PROTOCOL, #TESUP_ERR_SYSTEM. */
TESUP_API int tesup_attach(const struct tesup_options *options, struct tesup_session **session);

/** @brief Detach: regions are revoked and drained, then everything is freed.
 *  Channels of the session must not be used by other threads any more. NULL is fine. */
TESUP_API void tesup_detach(struct tesup_session *session);

/** @brief Full name of this process's segment, `HOST:PORT/SEGMENT`. Owned by the session, valid
 *  until tesup_detach(). */
TESUP_API const char *tesup_segment_name(const struct tesup_session *session);

/** @brief Largest name + message in bytes: #TESUP_NOTIFY_MAX, or 1 MiB when fallback is on. */
TESUP_API uint32_t tesup_notify_max(const struct tesup_session *session);

/** @brief The channel that tesup_attach() opened. Notifications arrive on this one. */
TESUP_API struct tesup_channel *tesup_channel_main(struct tesup_session *session);

/** @brief Open one more channel, for one more thread. Requests only, no mailbox.
 *  @return 0, #TESUP_ERR_LIMIT, #TESUP_ERR_NO_DAEMON, #TESUP_ERR_TIMEOUT, #TESUP_ERR_SYSTEM */
TESUP_API int tesup_channel_open(struct tesup_session *session, struct tesup_channel **channel);
/** @brief Close a channel of tesup_channel_open().
 *  Its requests in flight are given up: no completion tells how they ended, and bytes that were on
 *  their way may still land for a moment. */
TESUP_API void tesup_channel_close(struct tesup_channel *channel);

/** @brief What a kernel needs of a channel: register it with CUDA, and give the device's address of
 *  it to tesup_device_open() of tesup_device.cuh. */
struct tesup_lent {
    void *base;
    uint64_t size;
};

/** @brief Lend a channel to a CUDA kernel, until tesup_channel_reclaim(). Handles are what they are
 *  here. Meanwhile every call on the channel but tesup_channel_wake() is refused.
 *  @return 0, #TESUP_ERR_INVALID with requests in flight, #TESUP_ERR_UNSUPPORTED for a session that
 *  outlived a supervisor, #TESUP_AGAIN, #TESUP_ERR_NO_DAEMON */
TESUP_API int tesup_channel_lend(struct tesup_channel *channel, struct tesup_lent *lent);
/** @brief Wake the worker if it sleeps: a kernel cannot. Call it while a kernel posts, as often as
 *  a request may wait at most; not needed with `idle = busy`.
 *  @return 0, #TESUP_ERR_INVALID when it is not lent */
TESUP_API int tesup_channel_wake(struct tesup_channel *channel);
/** @brief Take a channel back when no kernel uses it any more.
 *  @return 0, #TESUP_ERR_INVALID while its requests are in flight, or when it is not lent */
TESUP_API int tesup_channel_reclaim(struct tesup_channel *channel);

/** @brief Allocate shared, sealed, zeroed memory and register it.
 *  @param[out] address page-aligned start in this process. Free with tesup_mem_free(). */
TESUP_API int tesup_mem_alloc(struct tesup_session *session, size_t length, uint32_t access,
                              void **address, tesup_region_t *region);
/** @brief Unregister and unmap memory of tesup_mem_alloc(). */
TESUP_API int tesup_mem_free(struct tesup_session *session, tesup_region_t region);

/** @brief Register a memfd, POSIX shared memory or hugetlb file. The library duplicates @p fd.
 *  @param offset,length bytes; must lie within the file.
 *  @param base address that peers may use with TESUP_REMOTE_ADDR; may be NULL.
 *  @return 0, #TESUP_ERR_INVALID outside of the file, #TESUP_ERR_DENIED for remote write to a
 *  read-only @p fd, #TESUP_ERR_LIMIT, #TESUP_ERR_NO_DAEMON, #TESUP_ERR_TIMEOUT */
TESUP_API int tesup_mem_register_fd(struct tesup_session *session, int fd, uint64_t offset,
                                    uint64_t length, const void *base, uint32_t access,
                                    tesup_region_t *region);
/** @brief Register private memory of this process by address.
 *  The worker reaches it through /proc/PID/mem (proc(5)), which belongs to this address space:
 *  after exec nothing moves any more. As a NIC, it does not ask for a page's protection.
 *  #TESUP_ERR_UNSUPPORTED names the remedy where Yama or the uid forbids the worker's reach.
 *  What of the range this process has touched, alone and 2 MiB in a row, is made anew of huge pages
 *  (MADV_COLLAPSE of madvise(2); at most one second per process): a worker needs about half of the
 *  time then. Nothing else changes: no byte more is resident. `TESUP_HUGE_PAGES=0` turns it off.
 *  A CUDA device pointer is registered as by tesup_mem_register_gpu(). */
TESUP_API int tesup_mem_register(struct tesup_session *session, void *address, uint64_t length,
                                 uint32_t access, tesup_region_t *region);
/** @brief Register memory of a GPU: [@p pointer, @p pointer + @p length) of one allocation of
 *  cudaMalloc or cuMemAlloc, or mapped from up to 240 handles of cuMemCreate with POSIX
 *  descriptors. Unregister it before it is freed. Work on the GPU is not waited for: synchronise
 *  what wrote the bytes before a request reads them, or see #TESUP_AFTER. What a request wrote is
 * seen by all that is launched after its completion or its notification.
 *  @return 0, #TESUP_ERR_INVALID for no such memory or past its end, #TESUP_ERR_LIMIT for
 *  more handles, #TESUP_ERR_UNSUPPORTED for
 *  memory that cannot be shared (managed, of a pool), of a GPU that the worker does not serve, or
 *  where CUDA is not loaded or refuses; tesup_last_error() has CUDA's name of the error. */
TESUP_API int tesup_mem_register_gpu(struct tesup_session *session, void *pointer, uint64_t length,
                                     uint32_t access, tesup_region_t *region);
/** @brief Register an event of CUDA, for #TESUP_OP_WAIT.
 *  @param event a cudaEvent_t or CUevent, made with cudaEventInterprocess | cudaEventDisableTiming;
 *  a context of its device must be current. It stays the caller's; unregister it by
 *  tesup_mem_unregister() before it is destroyed. Several waits may be under way.
 *  @param[out] handle goes into tesup_request.local_region of a wait; nothing is moved by it.
 *  @return 0; #TESUP_ERR_INVALID for an event that cannot be shared; #TESUP_ERR_DENIED for a job
 *  that the supervisor does not trust with handles of CUDA IPC; #TESUP_ERR_UNSUPPORTED as of
 *  tesup_mem_register_gpu(). The driver's part: cuIpcGetEventHandle, cuStreamWaitEvent. */
TESUP_API int tesup_event_register_gpu(struct tesup_session *session, void *event,
                                       tesup_region_t *handle);
/** @brief Revoke, drain and free a region. On return no byte can be read or land any more.
 *  For regions of tesup_mem_register(), tesup_mem_register_fd() and tesup_mem_register_gpu(), and
 *  events of tesup_event_register_gpu(): those that wait for one end as #TESUP_ERR_GONE.
 *  @return 0, #TESUP_ERR_GONE for a handle that is not registered, #TESUP_ERR_INVALID for one of
 *  tesup_mem_alloc(), #TESUP_ERR_TIMEOUT: then bytes may still move */
TESUP_API int tesup_mem_unregister(struct tesup_session *session, tesup_region_t region);

/** @brief Open another process's segment `HOST:PORT/SEGMENT` (IPv4, [IPv6] or host name).
 *  Waits until the peer answered. @return 0, #TESUP_ERR_NOT_FOUND, #TESUP_ERR_DENIED,
 *  #TESUP_ERR_UNREACHABLE (after about a second of tries), #TESUP_ERR_AUTH, #TESUP_ERR_TIMEOUT,
 *  #TESUP_ERR_LIMIT, #TESUP_ERR_INVALID, #TESUP_ERR_NO_DAEMON */
TESUP_API int tesup_segment_open(struct tesup_session *session, const char *name,
                                 tesup_remote_t *remote);
/** @brief Close a segment. @return 0, #TESUP_AGAIN while requests to it are in flight,
 *  #TESUP_ERR_GONE, #TESUP_ERR_TIMEOUT */
TESUP_API int tesup_segment_close(struct tesup_session *session, tesup_remote_t remote);
/** @brief Get one #TESUP_NOTIFICATION_EVENT when that job, its worker or its host is gone.
 *  Already gone: the event comes at once. A watch fires once. A lost connection fires it too
 *  (#TESUP_ERR_UNREACHABLE), and the segment may be reached again later. */
TESUP_API int tesup_segment_watch(struct tesup_session *session, tesup_remote_t remote);

/** @brief Submit @p count requests in order; one wake-up at most.
 *  Makes no system call while the worker is awake, never blocks. Notifications of one channel to
 *  one segment arrive in this order, each behind the transfer it is bound to; one without a
 *  transfer may overtake earlier transfers.
 *  @param[out] tickets may be NULL; identifies each accepted request for tesup_cancel().
 *  @param[out] accepted how many of the first requests were accepted; must not be NULL.
 *  @return 0 when all were; #TESUP_AGAIN when the rings or the window to one segment are full;
 *  #TESUP_ERR_INVALID, #TESUP_ERR_TOO_LONG for the first that was not; #TESUP_ERR_GONE for a handle
 *  that did not survive the supervisor; #TESUP_ERR_NO_DAEMON, #TESUP_ERR_PROTOCOL (the rings were
 *  overwritten), #TESUP_ERR_FORKED */
TESUP_API int tesup_submit(struct tesup_channel *channel, const struct tesup_request *requests,
                           uint32_t count, uint64_t *tickets, uint32_t *accepted);
/** @brief Ask to cancel. The request's own completion says how it ended, when no byte can land.
 *  @return 0, #TESUP_AGAIN when the ring is full, #TESUP_ERR_GONE when it is not in flight */
TESUP_API int tesup_cancel(struct tesup_channel *channel, uint64_t ticket);

/** @brief Take up to @p max completions without waiting.
 *  @return how many (0 or more), or a negative error. */
TESUP_API int tesup_poll(struct tesup_channel *channel, struct tesup_completion *completions,
                         uint32_t max);
/** @brief Sleep until a completion or a notification is there, @p timeout_ms passed (-1: for ever).
 *  @return 0 (rarely with nothing there: look, then wait again), #TESUP_ERR_TIMEOUT,
 *  #TESUP_ERR_GONE while there is no supervisor, #TESUP_ERR_PROTOCOL. */
TESUP_API int tesup_wait(struct tesup_channel *channel, int timeout_ms);
/** @brief A file descriptor for poll(2)/epoll(7): readable when tesup_wait() would return.
 *  Call tesup_arm() before each sleep; it returns #TESUP_AGAIN when there is something already. */
TESUP_API int tesup_fd(const struct tesup_channel *channel);
TESUP_API int tesup_arm(struct tesup_channel *channel);

/** @brief Look at the next notification, without waiting and without removing it.
 *  @return 0, #TESUP_AGAIN when there is none, or a negative error. */
TESUP_API int tesup_notify_peek(struct tesup_channel *channel, struct tesup_notification *out);
/** @brief Remove the notification that tesup_notify_peek() returned. */
TESUP_API int tesup_notify_release(struct tesup_channel *channel);

/** @brief A phrase for a status code. Never NULL. */
TESUP_API const char *tesup_strerror(int code);
/** @brief The sentence about the last error of this thread: names, errno, remedy. Never NULL. */
TESUP_API const char *tesup_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
