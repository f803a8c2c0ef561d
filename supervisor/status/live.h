/* One frame of `tesup status --watch`: rates, queues, stalls. */
#ifndef TESUP_SUPERVISOR_STATUS_LIVE_H
#define TESUP_SUPERVISOR_STATUS_LIVE_H

#include "supervisor/status/rates.h"
#include "supervisor/status/screen.h"

/* 0, or -1 when a table could not be made. */
int status_live_print(const struct status *status, const struct status_rates *rates,
                      const struct status_screen *screen);

#endif
