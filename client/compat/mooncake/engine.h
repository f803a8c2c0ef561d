/* Inside libtransfer_engine: an engine and what its files offer each other.
 *
 * An engine is one session of libtesup, one channel and one lock, which lies in its slot (slot.h).
 * What may take long, like asking a peer or registering memory, happens without the lock; the
 * engine stays until such calls are back.  One call at a time submits (`busy`), because consecutive
 * requests to one peer may be one group.  Completions are taken by whoever polls.
 */
#ifndef TESUP_COMPAT_MOONCAKE_ENGINE_H
#define TESUP_COMPAT_MOONCAKE_ENGINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/compat/mooncake/card.h"
#include "client/compat/mooncake/code.h"
#include "client/compat/mooncake/environment.h"
#include "client/compat/mooncake/say.h"
#include "client/compat/mooncake/slot.h"
#include "client/include/tesup.h"
#include "shm/atomics.h"
#include "shm/clock.h"
#include "shm/list.h"

#define ENGINE_LABEL_MAX 64u /* ip:port with its NUL: the buffers of callers have 64 bytes */
#define ENGINE_PEERS_MAX 65536u

/* ---- memory.c ---- */

struct memory_entry {
    uint64_t base, length;
    uint32_t access; /* TESUP_ACCESS_* */
    bool read_only;  /* the program cannot write there: a READ must not land */
    bool ready;      /* false while it is registered or unregistered */
    bool gpu;        /* of a GPU, or else of nobody */
    bool gpu_said;   /* the program says so */
    tesup_region_t region;
};

struct memory_table { /* sorted by base; no two overlap */
    struct memory_entry *entries;
    size_t count, room;
};

/* ---- peer.c ---- */

struct peer {
    char name[LAYOUT_NAME_MAX];    /* as it was given to openSegment */
    char segment[LAYOUT_NAME_MAX]; /* HOST:PORT/SEGMENT */
    bool self;                     /* its ranges are the engine's own memory */
    bool direct;                   /* the name is a segment: there is no engine to ask */
    bool open;
    bool stale; /* ask and open again before the next request */
    tesup_remote_t remote;
    struct range *ranges; /* of its card */
    size_t range_count;
};

/* ---- batch.c ---- */

struct task {
    uint64_t bytes;
    uint32_t pieces; /* not finished */
    bool failed;
};

struct batch {
    uint64_t id;
    size_t size;  /* as allocated */
    size_t count; /* tasks so far */
    size_t open;  /* tasks with pieces */
    size_t room;
    struct task *tasks;
};

struct batch_table {
    struct batch **batches; /* NULL: free */
    uint32_t *free_indexes;
    uint32_t count, room, free_count;
};

/* ---- piece.c: what one request of libtesup is a part of ---- */

struct call { /* a submit with a notification */
    uint32_t pieces;
    bool failed;  /* then there is no notification */
    bool missing; /* all arrived, but libtesup thought otherwise: the notification is still due */
    uint32_t name_len, msg_len;
    char text[]; /* name, then message */
};

struct piece {
    struct list link; /* free, queued or to be sent again */
    struct tesup_request request;
    struct peer *peer;
    struct batch *batch; /* NULL: a notification alone */
    size_t task;
    struct call *call; /* NULL: nothing is bound to it */
    uint64_t give_up_at;
    int *outcome; /* of somebody who waits for this very piece; 1 until then */
};

struct engine {
    struct slot *slot;
    struct tesup_session *session;
    struct tesup_channel *channel;
    char label[ENGINE_LABEL_MAX]; /* ip:port */
    char host[ENGINE_LABEL_MAX];  /* the address in it */
    bool private_daemon;          /* we may start it again, from `restart_at` on */
    bool force_tcp;
    uint64_t restart_at;
    bool withdrawn;       /* removeLocalSegment */
    uint32_t timeout_ms;  /* for what waits here; MC_TRANSFER_TIMEOUT */
    uint32_t deadline_ms; /* of a request; 0: the supervisor's */

    int listener; /* at `label` */
    int stop;     /* eventfd: the answering thread ends */
    pthread_t answering;

    struct memory_table memory;
    struct peer **peers; /* by segment_id_t; [0] is ourselves */
    size_t peer_count, peer_room;
    struct batch_table batches;

    bool busy;        /* a call is submitting */
    uint32_t looks;   /* in vain */
    unsigned waiting; /* calls that want to */
    bool group_open;  /* the last request that libtesup took said TESUP_MORE */
    struct list free_pieces;
    struct list again; /* refused for lack of room at the other side */
    void *chunks;      /* memory of all pieces */
    uint64_t in_flight_bytes;
    uint64_t done_bytes; /* since `load_at` */
    uint64_t load_at;
    double load_bps;
};

/* In a child: closes what must not stay open twice. */
void engine_on_fork(struct engine *engine);

/* The entry with `address`, ready or not; NULL. */
struct memory_entry *memory_find(const struct memory_table *table, uint64_t address);
void memory_fini(struct memory_table *table);
/* What peers may reach of it, sorted, to be freed; NULL without memory. */
struct range *memory_ranges(const struct memory_table *table, size_t *count);

/* ---- answer.c ---- */

/* Binds, which gives the engine its label. 0, or a positive code with a sentence in `text`. */
int answer_bind(struct engine *engine, const char *host, uint64_t port, char *text,
                size_t text_size);
/* Starts to answer; the engine is in its slot. */
int answer_start(struct engine *engine, const char *call);
void answer_stop(struct engine *engine);

/* ---- ask.c ---- */

/* Asks the engine at `name` (ip:port, [ip]:port, host:port). 0 with a card, or a positive code with
 * a sentence in `text`. */
int ask_card(const char *name, struct card *card, char *text, size_t text_size);

/* ---- peer.c, all under the lock ---- */

/* The peer of an id, or NULL. */
struct peer *peer_get(const struct engine *engine, int64_t id);
/* Makes it usable: asks and opens what is not open or stale, without the lock. 0 or a positive code
 * after a sentence. */
int peer_prepare(struct engine *engine, struct peer *peer, const char *call);
/* Asks again in any case. */
int peer_refresh(struct engine *engine, struct peer *peer, const char *call);
/* Ourselves, at id 0. 0 or a positive code. */
int peers_init(struct engine *engine);
void peers_fini(struct engine *engine);

/* ---- batch.c, under the lock ---- */

struct batch *batch_find(const struct engine *engine, uint64_t id);
/* Room for `count` more tasks. 0, or a positive code. */
int batch_grow(struct batch *batch, size_t count);
void batches_fini(struct batch_table *table);

/* ---- piece.c, under the lock ---- */

/* NULL without memory. */
struct piece *piece_new(struct engine *engine);
void piece_free(struct engine *engine, struct piece *piece);
struct call *call_new(const char *name, const char *msg);
/* The piece is over. */
void piece_end(struct engine *engine, struct piece *piece, int status, uint64_t bytes);
void pieces_fini(struct engine *engine);
/* Nobody waits for it any more, and what its notification points at is gone. */
void piece_forget(struct engine *engine, struct piece *piece);

/* ---- notify.c ---- */

/* 0, or a positive code after a sentence. */
int notification_check(const struct engine *engine, const notify_msg_t *msg, const char *call);

/* ---- send.c, under the lock ---- */

/* Takes completions. How many, or a negative code of libtesup; TESUP_ERR_NO_DAEMON while there is
 * no supervisor. */
int engine_progress(struct engine *engine);
/* Nothing was there: now and then the CPU is given away, without the lock, because the worker may
 * wait for it while a program looks again and again. */
void engine_idle(struct engine *engine);
/* Waits until nobody else submits. False: the engine is being destroyed. */
bool send_begin(struct engine *engine);
void send_end(struct engine *engine);
/* Hands all pieces of `queue` to the worker, between send_begin and send_end; those that cannot be
 * are ended as failed. */
void send_pieces(struct engine *engine, struct list *queue, const char *call);
/* Sleeps a little until something happens, without the lock for a moment. TESUP_OK or an error. */
int send_wait(struct engine *engine);

/* ---- daemon.c ---- */

/* Attaches to the supervisor of the environment, else to a private one that is started if need be.
 * 0, or a positive code after a sentence. */
int daemon_attach(struct engine *engine, const struct environment *environment, const char *call);
/* After TESUP_ERR_NO_DAEMON: starts the private one again, without the lock. TESUP_OK to go on. */
int daemon_restart(struct engine *engine, const char *call);

#endif
