#include "supervisor/systemd.h"

#if TESUP_HAVE_SYSTEMD
#include <systemd/sd-daemon.h>

#include "shm/list.h"

static void watchdog_feed(struct timer *timer)
{
    struct systemd *systemd = list_entry(timer, struct systemd, watchdog);

    sd_notify(0, "WATCHDOG=1");
    loop_timer_set(systemd->loop, timer, systemd->interval_ms);
}

void systemd_watch(struct systemd *systemd, struct loop *loop)
{
    uint64_t interval_us = 0;

    systemd->loop = loop;
    systemd->watchdog.fire = watchdog_feed;
    if (sd_watchdog_enabled(0, &interval_us) <= 0)
        return;
    systemd->interval_ms = interval_us / 2000; /* twice within the interval */
    loop_timer_set(loop, &systemd->watchdog, 0);
}

void systemd_status(const char *text)
{
    sd_notifyf(0, "STATUS=%s", text);
}

void systemd_ready(void)
{
    sd_notify(0, "READY=1");
}

void systemd_stopping(void)
{
    sd_notify(0, "STOPPING=1");
}
#else
void systemd_watch(struct systemd *systemd, struct loop *loop)
{
    systemd->loop = loop;
}

void systemd_status(const char *text)
{
    (void)text;
}

void systemd_ready(void) {}

void systemd_stopping(void) {}
#endif
