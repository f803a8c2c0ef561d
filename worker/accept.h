/* The responder's half of a handshake: from the supervisor's hand-over to a ready endpoint. */
#ifndef TESUP_WORKER_ACCEPT_H
#define TESUP_WORKER_ACCEPT_H

#include "shm/handshake.h"
#include "worker/endpoint.h"

/* A peer proved its key to the supervisor: answer WELCOME and make the endpoint. Takes the socket.
 */
void accept_peer(struct worker *worker, const struct proto_peer *peer, int socket);
/* The other half of a local link arrived. Takes the socket. */
void accept_local(struct worker *worker, const struct proto_local_link *link, int socket);
/* The endpoint is going: a local link for it is not awaited any more. */
void accept_forget(struct endpoint *endpoint);

#endif
