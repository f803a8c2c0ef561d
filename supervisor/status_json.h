/* `tesup status --json`. */
#ifndef TESUP_SUPERVISOR_STATUS_JSON_H
#define TESUP_SUPERVISOR_STATUS_JSON_H

#include <jansson.h>

#include "supervisor/status_read.h"

/* The whole document; NULL without memory. Free with json_decref(). */
json_t *status_json_make(const struct status *status);

#endif
