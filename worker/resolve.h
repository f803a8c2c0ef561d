/* Host names to addresses, without stopping the loop.
 *
 * getaddrinfo(3) may wait for a name server for half a minute, and every job of the worker would
 * wait with it.  An address in digits needs no server and is answered at once; a name is looked up
 * by a thread of its own, which touches nothing but its own struct lookup and rings an eventfd.
 */
#ifndef TESUP_WORKER_RESOLVE_H
#define TESUP_WORKER_RESOLVE_H

#include "worker/reactor.h"

struct addrinfo;
struct lookup;

struct resolve {
    struct source source; /* the lookup's eventfd; fd -1 when none runs */
    struct reactor *reactor;
    struct lookup *lookup;
    /* Ends every resolve_start() that was not stopped, once: `error` 0 and a list that is now the
     * callee's (freeaddrinfo), or a getaddrinfo error. */
    void (*done)(struct resolve *resolve, int error, struct addrinfo *found);
};

void resolve_init(struct resolve *resolve, struct reactor *reactor,
                  void (*done)(struct resolve *, int, struct addrinfo *));
/* `done` may be called from inside. EAI_AGAIN when too many names are being looked up already. */
void resolve_start(struct resolve *resolve, const char *host, const char *port);
/* No `done` follows. A thread that still waits for the name server ends by itself. */
void resolve_stop(struct resolve *resolve);

#endif
