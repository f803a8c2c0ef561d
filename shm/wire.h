/* Sending and receiving messages of the local protocol (shm/proto.h) over SEQPACKET sockets. */
#ifndef TESUP_SHM_WIRE_H
#define TESUP_SHM_WIRE_H

#include <stdbool.h>
#include <stddef.h>

#include "shm/proto.h"

struct wire_message {
    struct wire_header header;
    union {
        uint8_t bytes[WIRE_PAYLOAD_MAX];
        struct proto_hello hello;
        struct proto_welcome welcome;
        struct proto_channel channel;
        struct proto_region region;
        struct proto_region_gpu region_gpu;
        struct proto_grant grant;
        struct proto_keys keys;
        struct proto_remote remote;
        struct proto_handle handle;
        struct proto_reply reply;
        struct proto_worker_config config;
        struct proto_session session;
        struct proto_peer peer;
        struct proto_local_link link;
        struct proto_drain drain;
    } body;
    int fds[WIRE_FDS_MAX]; /* -1 = none; owned by the message until taken */
    int fd_count;
};

/* Starts a message of `type`: header and body zeroed, length from the table, no fds. */
void wire_message_init(struct wire_message *message, enum wire_type type);
/* Closes the fds that nobody took. */
void wire_message_close(struct wire_message *message);
/* Takes fd `index` out of the message: the caller closes it. */
int wire_message_take(struct wire_message *message, int index);

/* Sends one message; fds stay the caller's. TS_OK; TS_AGAIN when the socket is full (non-blocking
 * sockets); TS_ERR_GONE when the other side is gone; TS_ERR_SYSTEM with errno. */
int wire_send(int socket, const struct wire_message *message);

/* Receives one message without waiting. TS_OK; TS_AGAIN when there is none; TS_ERR_GONE at end of
 * file; TS_ERR_PROTOCOL for a wrong magic, length, type or number of fds (all fds are closed
 * already); TS_ERR_VERSION; TS_ERR_LIMIT when this process may have no more descriptors: the
 * message came without them, header and body are good; TS_ERR_SYSTEM with errno. */
int wire_receive(int socket, struct wire_message *message);

/* Checks header and fd count against the table; split off for the fuzzer. */
int wire_message_check(const struct wire_message *message, size_t received);

/* A NUL-terminated text field of a message: forces the last byte to NUL. */
#define wire_text_close(field) ((field)[sizeof(field) - 1] = '\0')

#endif
