/* A listening socket in the loop: accepts a few connections a turn, rests when descriptors run out.
 */
#ifndef TESUP_SUPERVISOR_ACCEPTOR_H
#define TESUP_SUPERVISOR_ACCEPTOR_H

#include "shm/log.h"
#include "supervisor/loop.h"

struct supervisor;

struct acceptor {
    struct supervisor *supervisor;
    const char *what; /* "job" or "peer", for messages */
    int fd;           /* -1 = closed */
    int reserve;      /* given up for one guest when descriptors run out; -1 = it is */
    struct loop_source source;
    struct timer rest;
    struct log_limit limit;
    void (*accepted)(struct acceptor *acceptor, int fd); /* takes fd, non-blocking */
};

/* Takes the listening, non-blocking socket. 0, or -1 with errno (fd stays the caller's). */
int acceptor_open(struct acceptor *acceptor, struct supervisor *supervisor, int fd,
                  const char *what, void (*accepted)(struct acceptor *acceptor, int fd));
void acceptor_close(struct acceptor *acceptor);

#endif
