/* From a segment's name to the worker that serves it. */
#ifndef TESUP_SUPERVISOR_PEER_ROUTE_H
#define TESUP_SUPERVISOR_PEER_ROUTE_H

#include "supervisor/peer/accept.h"

/* peer_gate.deliver of the supervisor. */
int peer_route(struct peer_gate *gate, const struct peer_guest *guest, char *text,
               size_t text_size);

#endif
