/* Inside libtesup: the session, its channels, and what the files of this folder offer each other.
 *
 * Locks, outermost first:
 *   session.lock   the control socket with its one outstanding request, attach state, channel list
 *   book.lock      one book of handles; held for moments only, never across a system call
 * A channel has no lock: it belongs to one thread.  When the supervisor was lost, each channel
 * moves to the new attachment in its own thread, at its next call (channel_tend).
 */
#ifndef TESUP_CLIENT_INTERNAL_H
#define TESUP_CLIENT_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

#include "client/include/tesup.h"
#include "shm/channel.h"
#include "shm/clock.h"
#include "shm/list.h"
#include "shm/proto.h"
#include "shm/spin.h"
#include "shm/wire.h"

#define SESSION_TIMEOUT_MS 10000u
#define SESSION_SLOTS_MIN  16u
#define SESSION_RETRY_MS   100u  /* between two looks for a supervisor's successor */
#define SESSION_GRACE_MS   1000u /* workers of a dead supervisor are gone after this */
#define SESSION_SPIN_US    20u   /* before tesup_wait sleeps; TESUP_SPIN_US changes it */
#define SESSION_LATE_MAX   16u

/* ---- error.c: the sentence of this thread ---- */

/* Keeps the sentence. Returns `code`. */
int error_note(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Inline, so that static analysis sees that an error stays an error. */
static inline int error_code(int code, int noted)
{
    (void)noted;
    return code;
}
#define error_set(code, ...) error_code((code), error_note((code), __VA_ARGS__))
/* The same for a failed system call: adds errno and the remedy, chooses the code by errno. */
int error_system(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- book.c: the user's handles and what the supervisor calls them now ---- */

struct book_entry {
    uint32_t user; /* what the application holds; never changes */
    uint32_t wire; /* what the supervisor holds; 0 = it has none now */
    void *object;
};

struct book {
    pthread_mutex_t lock;
    struct book_entry *entries; /* by `user`; changed only under session.lock too */
    size_t count, room;
};

void book_init(struct book *book);
void book_fini(struct book *book);
/* TS_OK, TS_ERR_EXISTS when `user` is taken, TS_ERR_NO_MEMORY. */
int book_add(struct book *book, uint32_t user, uint32_t wire, void *object);
/* The object, or NULL; *wire is set with it. */
void *book_find(struct book *book, uint32_t user, uint32_t *wire);
void book_move(struct book *book, uint32_t user, uint32_t wire);
/* Removes the entry and returns its object, or NULL. */
void *book_take(struct book *book, uint32_t user);
/* The user's handle for the supervisor's; 0 when there is none. */
uint32_t book_user(struct book *book, uint32_t wire);

/* ---- objects behind the handles ---- */

struct region {
    uint32_t kind, access;
    uint64_t base, offset, length;
    int fd;        /* kept to register again with a successor; -1 for private memory */
    void *mapping; /* of tesup_mem_alloc; NULL else */
    size_t mapped;
    struct region_gpu *gpu; /* NULL: host memory */
};

/* What a GPU's memory is offered by. */
struct region_gpu {
    struct proto_gpu ask;
    int fd_count;
    int fds[PROTO_GPU_FDS_MAX];
};

struct remote {
    char name[LAYOUT_NAME_MAX];
    bool reopening;   /* after a loss: not open again yet */
    uint32_t open_id; /* the message that does it; 0 = not sent yet */
    /* Under remotes.lock: */
    bool watched;
    bool event_owed; /* the watched segment was not there when we came back */
    int status;      /* why it could not be opened again */
};

/* ---- session.c, reattach.c ---- */

struct channel_fds {
    int memfd, worker_bell, job_bell; /* -1 = none */
    uint32_t handle;
};

struct segment_label { /* older names stay valid: the application may hold them */
    struct segment_label *older;
    char text[LAYOUT_NAME_MAX];
};

struct tesup_session {
    uint64_t forks; /* session_forks at attach: differs in a child */
    uint32_t timeout_ms;
    uint64_t spin_ns;
    bool huge_pages; /* for private memory; TESUP_HUGE_PAGES=0: no */
    char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
    struct proto_hello hello; /* what a successor is told again */

    /* Even: attached, and counts the attachments.  Odd: the supervisor of the one before is lost.
     */
    _Atomic uint64_t attachment;
    _Atomic uint64_t lost_at; /* clock_now() of the last loss */
    _Atomic uint64_t moved;   /* 1 once a handle differs on the two sides */
    _Atomic uint64_t opening; /* remotes that are `reopening` */
    _Atomic uint64_t events_owed;
    _Atomic uint64_t notify_max;
    _Atomic uint64_t granted; /* 1 once private memory was registered with the worker's device */
    bool rdma;                /* the worker has one */

    pthread_mutex_t lock;
    int socket; /* the number stays: a successor's connection is put in its place */
    uint32_t next_id;
    uint64_t retry_at; /* no look for a successor before */
    uint32_t supervisor_pid;
    char worker[PROTO_LABEL_MAX];
    _Atomic(struct segment_label *) label; /* changed under lock, read by anybody */
    struct book regions, remotes;
    struct list channels;
    struct tesup_channel *main;
    struct channel_fds fresh; /* main channel of a successor until `main` takes it */
    struct {
        uint32_t id, undo; /* answer that nobody waits for any more, message that undoes it */
    } late[SESSION_LATE_MAX];
    uint32_t late_next;
};

extern _Atomic uint64_t session_forks; /* counts fork() in children */

/* TESUP_OK, or TESUP_ERR_FORKED / TESUP_ERR_INVALID with a sentence. */
int session_guard_slow(const struct tesup_session *session);
static inline int session_guard(const struct tesup_session *session)
{
    if (session != NULL && session->forks == atomic_peek(&session_forks))
        return TS_OK;
    return session_guard_slow(session);
}

/* HELLO on `socket`: fills the session's names, limits and `fresh`. */
int session_hello(struct tesup_session *session, int socket, uint64_t deadline);
/* Somebody saw the end of the connection of `attachment`. */
void session_lose(struct tesup_session *session, uint64_t attachment);
/* Has the supervisor hung up?  One system call. */
void session_look(struct tesup_session *session, uint64_t attachment);
/* Sleeps until workers of a lost supervisor cannot touch memory any more. */
void session_outlive_workers(const struct tesup_session *session);
/* Attaches to a successor; under lock, while lost.  TS_OK or TS_ERR_NO_DAEMON with a sentence. */
int session_reattach(struct tesup_session *session);

void channel_fds_close(struct channel_fds *fds);

/* ---- place.c: which worker the job asks for ---- */

/* The option, else $TESUP_PAIR, with a GPU's index made a bus id; "" for neither. TS_OK or error.
 */
int place_read(const char *option, char pair[PROTO_LABEL_MAX]);

/* ---- control.c: requests to the supervisor ---- */

int control_path(const char *option, char *path, size_t size);
int control_connect(const char *path, uint64_t deadline, int *socket);
/* Sends `message` and replaces it by its answer (close it).  TS_ERR_GONE at end of file. */
int control_exchange(struct tesup_session *session, int socket, struct wire_message *message,
                     uint64_t deadline);

/* Locks and makes sure that there is a supervisor; control_end only after TS_OK. */
int control_begin(struct tesup_session *session);
void control_end(struct tesup_session *session);
/* One request within `ms`.  Answers with an error status become the result, with the
 * supervisor's sentence about `what`; the message needs wire_message_close() after TS_OK only. */
int control_call(struct tesup_session *session, struct wire_message *message, uint64_t ms,
                 const char *what);
/* The same for a message that is nothing but a handle. */
int control_call_handle(struct tesup_session *session, enum wire_type type, uint32_t handle,
                        const char *what);
/* Sends without waiting for the answer, which control_collect takes. Returns the id, 0 = not sent.
 */
uint32_t control_post(struct tesup_session *session, struct wire_message *message);
uint32_t control_post_handle(struct tesup_session *session, enum wire_type type, uint32_t handle);
/* Nobody waits for the answer to message `id` any more: what it makes is undone when it comes. */
void control_disown(struct tesup_session *session, uint32_t id, uint16_t type);
/* Takes answers that nobody waits for, without waiting. */
void control_collect(struct tesup_session *session);

/* ---- memory.c, remote.c ---- */

/* Registers `region` with the supervisor. */
int region_register(struct tesup_session *session, const struct region *region, uint32_t *wire);
/* Private memory: registers it with the worker's device, too, if it has one (grant.c). */
void region_grant(struct tesup_session *session, const struct region *region, uint32_t wire);
/* Does so for all of it when the channel is served by another process than before. */
void session_grant_again(struct tesup_channel *channel);
/* NULL with a sentence. */
struct region *region_new(uint32_t kind, uint32_t access, uint64_t length);
/* Registers it under a handle that the application does not hold yet; takes the region in any case.
 */
int region_enter(struct tesup_session *session, struct region *region, uint32_t *handle);
/* May anything be registered with these arguments? */
int region_check(struct tesup_session *session, uint64_t length, uint32_t access, const void *out);
void region_free(struct region *region);
/* Answer to an opening that began when we came back; false when `id` is none. */
bool remote_on_answer(struct tesup_session *session, uint32_t id, int status, uint32_t wire);
/* An event that the library itself owes: the status into *status, or false. */
bool remote_event_owed(struct tesup_session *session, uint32_t *user, int *status);
/* The application took an event (`own`: one that the library owed); a watch fires once. */
void remote_event_taken(struct tesup_session *session, uint32_t user, bool own);
/* All remotes of the session, opened again with a successor. */
void remotes_reopen(struct tesup_session *session);

/* ---- huge.c ---- */

/* Makes whole huge pages of what this process has touched, alone, in the range. */
void huge_pages_make(uint64_t base, uint64_t length);

/* ---- gpu.c ---- */

/* Is it memory that CUDA has in this process, on a device or for all of them?  A process that has
 * not loaded CUDA has none. */
bool gpu_owns(const void *address);

/* ---- channel.c ---- */

struct slot_note { /* what we gave the worker, so that we need not believe its answer */
    uint64_t ticket;
    uint64_t cookie;
    uint32_t notify_bytes; /* charged to the window of `window` */
    uint16_t window;
    uint8_t op;
    bool used;
};

struct mailbox_look { /* the notification that the application looks at */
    bool valid;
    struct ring_consumer *ring; /* NULL for an event of our own */
    struct notify_record header;
    const uint8_t *body;
    uint32_t remote;
};

enum submit_group {
    GROUP_NONE = 0,
    GROUP_OPEN, /* the last accepted request said TESUP_MORE */
    GROUP_LOST, /* so it did, and the rings that it went into are gone */
};

struct tesup_channel {
    struct tesup_session *session;
    uint64_t attachment; /* the session's when these rings came */
    bool broken;         /* a ring was impossible: never used again */
    bool lent;           /* a kernel uses the rings: every other call is refused */
    bool settling;       /* the rings are left; requests in flight end as uncertain */
    enum submit_group group;
    uint32_t slots, in_flight;
    struct ring_producer sq, ntx;
    struct ring_consumer cq;
    struct doorbell worker_bell;
    uint16_t *free_slots; /* a stack of slots - in_flight numbers */
    struct slot_note *notes;
    uint32_t *window; /* notification bytes in flight by remote index */
    uint32_t window_limit, notify_max;
    uint32_t idle_polls;
    uint64_t epoch;     /* of the worker that served these rings when we last looked */
    uint64_t looked_at; /* clock_now() of the last look at the supervisor */

    struct doorbell job_bell, nrx_bell;
    struct ring_consumer nrx;
    struct mailbox_look look;
    struct spin spin;
    bool main;
    bool rung;     /* job_bell has something to be read */
    bool has_left; /* unread notifications of a lost worker are in `left` */
    uint32_t handle;
    int epoll; /* what tesup_fd gives: the bell and the control socket */
    struct channel_map map, left_map;
    struct ring_consumer left_nrx;
    struct list link; /* session.channels */
};

static inline int channel_guard(const struct tesup_channel *channel)
{
    int rc = session_guard(channel != NULL ? channel->session : NULL);

    if (rc == TS_OK && channel != NULL && channel->lent)
        rc = error_set(TS_ERR_INVALID, "the channel is lent: tesup_channel_reclaim comes first");
    return rc;
}

/* Are these rings served?  The fast path asks only this. */
static inline bool channel_live(const struct tesup_channel *channel)
{
    return channel->attachment == atomic_peek(&channel->session->attachment) && !channel->broken;
}

/* Under session.lock; takes the fds in any case. */
int channel_new(struct tesup_session *session, bool is_main, struct channel_fds *fds,
                struct tesup_channel **channel);
/* Unmaps, closes, frees; in a child too. */
void channel_free(struct tesup_channel *channel);
/* A ring was impossible: returns TS_ERR_PROTOCOL with a sentence. */
int channel_break(struct tesup_channel *channel, const char *what);
/* For rings that are not live: TS_OK when they are (again), TS_AGAIN while the worker may still
 * answer or others are at work, else an error.  May set `settling`. */
int channel_tend(struct tesup_channel *channel);
bool channel_has_work(struct tesup_channel *channel);
/* Now and then, when nothing happens: is the supervisor still there? */
void channel_idle(struct tesup_channel *channel);
void channel_slot_release(struct tesup_channel *channel, uint32_t slot);
/* Puts the session's socket into (or out of) what tesup_fd gives. */
int channel_watch_socket(struct tesup_channel *channel, int socket, bool on);

#endif
