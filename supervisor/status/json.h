/* `tesup status --json`. */
#ifndef TESUP_SUPERVISOR_STATUS_JSON_H
#define TESUP_SUPERVISOR_STATUS_JSON_H

#include <jansson.h>

#include "supervisor/status/rates.h"
#include "supervisor/status/read.h"

/* The whole document; NULL without memory. Free with json_decref(). Without an earlier look
 * (`rates` NULL, or of no time) it has no rates. */
json_t *status_json_make(const struct status *status, const struct status_rates *rates);

#endif
