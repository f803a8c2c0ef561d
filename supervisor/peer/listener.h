/* The peers' TCP port: one listening socket per address that the host's name has. */
#ifndef TESUP_SUPERVISOR_PEER_LISTENER_H
#define TESUP_SUPERVISOR_PEER_LISTENER_H

#include <stdint.h>

#include "shm/layout.h"
#include "supervisor/acceptor.h"

#define LISTENER_SOCKETS 8

struct listener {
    struct acceptor acceptor[LISTENER_SOCKETS];
    unsigned count;
    uint16_t port;                 /* the real one */
    char address[LAYOUT_NAME_MAX]; /* numeric ADDR:PORT of the first */
};

/* Port 0 takes a free one. 0, or -1 with a sentence in text. */
int listener_open(struct listener *listener, struct supervisor *supervisor, const char *host,
                  uint16_t port, char *text, size_t text_size);
void listener_close(struct listener *listener);

#endif
