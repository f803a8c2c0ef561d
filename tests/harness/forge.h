/* A job that speaks the socket protocol and writes the rings itself: without libtesup in between it
 * can also say and write what a library never would. */
#ifndef TESUP_TESTS_HARNESS_FORGE_H
#define TESUP_TESTS_HARNESS_FORGE_H

#include "shm/channel.h"
#include "shm/wire.h"
#include "tests/harness/daemon.h"

struct forge {
    int socket;
    int worker_event, job_event;
    uint32_t next_id;
    struct channel_map map;
    struct ring_producer sq, ntx;
    struct ring_consumer cq, nrx;
    char name[LAYOUT_NAME_MAX];
};

/* A connected socket that has said nothing. */
int forge_connect(const struct daemon *daemon);
/* Sends one packet as it is, with descriptors. */
void forge_packet(int socket, const void *bytes, size_t size, const int *fds, size_t fd_count);
/* Waits for the next message; fails the test when the socket ends or stays silent. */
void forge_receive(int socket, struct wire_message *message);
/* The other side hangs up within `ms`; messages before that are skipped. */
void forge_expect_hangup(int socket, unsigned ms);

void forge_hello(struct wire_message *message, const char *segment);
void forge_attach(struct forge *forge, const struct daemon *daemon, const char *segment);
/* Leaves without a word. */
void forge_leave(struct forge *forge);

/* Sends `message` and replaces it by its answer, whose status is returned. */
int forge_ask(struct forge *forge, struct wire_message *message);
/* Registers [0, length) of `fd`; the status, with the handle. */
int forge_region(struct forge *forge, int fd, uint64_t length, uint32_t access, uint32_t *handle);
uint32_t forge_open(struct forge *forge, const char *name);

/* Puts a descriptor into the ring without making it visible. */
void forge_sqe(struct forge *forge, const struct sqe *sqe);
/* Puts a record into ntx; its position. */
uint64_t forge_record(struct forge *forge, uint32_t name_len, uint32_t msg_len);
/* Makes descriptors and records visible, and wakes the worker in any case. */
void forge_publish(struct forge *forge);
void forge_wake(const struct forge *forge);
/* Waits for the next completion. */
struct cqe forge_complete(struct forge *forge);

#endif
