/* One connection of somebody who asks for our card. */
#ifndef TESUP_COMPAT_MOONCAKE_GUEST_H
#define TESUP_COMPAT_MOONCAKE_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/compat/mooncake/card.h"

struct guest {
    int fd; /* -1: nobody */
    uint64_t deadline;
    uint8_t question[CARD_QUESTION];
    size_t received;
    uint8_t *answer; /* NULL until the question is there */
    size_t size, sent;
};

/* What the connection waits for, as in poll(2). */
short guest_events(const struct guest *guest);
/* Reads or writes what it can; `make` gives the answer. False: it is over. */
bool guest_do_work(struct guest *guest, uint8_t *(*make)(void *context, size_t *size),
                   void *context);
void guest_close(struct guest *guest);

#endif
