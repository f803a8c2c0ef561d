/* From a finished handshake to a link: which endpoint is kept, and which fabric carries it. */
#ifndef TESUP_WORKER_LINK_SETUP_H
#define TESUP_WORKER_LINK_SETUP_H

#include <netdb.h>

#include "worker/endpoint.h"

/* The initiator got its WELCOME: known now, kept or not, then linked over tcp or local. */
void link_setup_initiator(struct endpoint *endpoint, const struct handshake_welcome *welcome);

/* It agreed upon RDMA, and there is no way to the peer's GID. */
void link_setup_no_way(struct endpoint *endpoint, const struct handshake_welcome *welcome,
                       const char *text);

/* Socket options of every peer connection: no delay, a bounded window, and a dead host is noticed
 * in about 4 s. */
void link_setup_socket(const struct worker *worker, int fd);
/* Starts a non-blocking connect. 0 (maybe in progress) or -1 with errno. */
int connect_start_socket(const struct worker *worker, int fd, const struct addrinfo *address);

/* Initiator's half of a local link: reach the peer's supervisor, hand over the rings. */
int link_setup_local(struct endpoint *endpoint, const struct handshake_welcome *welcome, char *text,
                     size_t text_size);

#endif
