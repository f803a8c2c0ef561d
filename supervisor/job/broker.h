/* The supervisor's Unix socket: jobs say HELLO here, workers of peers on this host bring links. */
#ifndef TESUP_SUPERVISOR_JOB_BROKER_H
#define TESUP_SUPERVISOR_JOB_BROKER_H

#include "shm/list.h"
#include "supervisor/acceptor.h"

struct broker {
    struct acceptor acceptor;
    struct list guests; /* struct broker_guest: connected, have not said who they are */
    unsigned guest_count;
    struct log_limit broken;
    bool bound;
};

void broker_init(struct broker *broker);
/* Binds paths.socket, in place of a stale one. 0, or -1 with text. */
int broker_open(struct broker *broker, struct supervisor *supervisor, char *text, size_t text_size);
/* Nobody comes in any more; the socket's file is removed. */
void broker_close(struct broker *broker);

#endif
