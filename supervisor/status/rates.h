/* What moved between two looks, per second. */
#ifndef TESUP_SUPERVISOR_STATUS_RATES_H
#define TESUP_SUPERVISOR_STATUS_RATES_H

#include "supervisor/status/read.h"

struct status_rate {
    double bytes_out, bytes_in;
    double ops_out, ops_in;     /* transfers; out: WRITEs of jobs here, READs that were served */
    double notes_out, notes_in; /* notifications */
    double credit_waits;        /* times that a sender had to wait */
    double refusals;            /* submissions that found no room */
};

struct status_nic_rate {
    char nic[COUNTERS_LABEL];
    size_t pairs; /* that share it */
    struct status_rate rate;
};

struct status_rates {
    double seconds; /* between the looks; 0: this is the first one, all rates are 0 */
    struct status_rate pair[COUNTERS_WORKERS];
    size_t nic_count;
    struct status_nic_rate nic[COUNTERS_WORKERS];
};

/* `before` may be NULL. */
void status_rates_make(const struct status *before, const struct status *now,
                       struct status_rates *rates);

#endif
