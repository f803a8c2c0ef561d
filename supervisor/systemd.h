/* What the service manager is told.  Nothing happens when there is none, or without libsystemd. */
#ifndef TESUP_SUPERVISOR_SYSTEMD_H
#define TESUP_SUPERVISOR_SYSTEMD_H

#include "supervisor/loop.h"

struct systemd {
    struct loop *loop;
    struct timer watchdog;
    uint64_t interval_ms;
};

/* Begins to feed the watchdog if the unit has one. */
void systemd_watch(struct systemd *systemd, struct loop *loop);
void systemd_status(const char *text);
void systemd_ready(void);
void systemd_stopping(void);

#endif
