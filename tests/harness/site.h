/* Where the two ends of a test live: two supervisors per fabric, or one worker for both. */
#ifndef TESUP_TESTS_HARNESS_SITE_H
#define TESUP_TESTS_HARNESS_SITE_H

#include "tests/harness/daemon.h"

struct site {
    const char *label;
    const struct daemon *left, *right;
};

enum { SITE_TCP, SITE_LOCAL, SITE_WORKER, SITE_COUNT };
extern const struct site sites[SITE_COUNT];

/* Group set-up and tear-down: four supervisors, in the directory of harness/daemon.h. */
int site_group_setup(void **state);
int site_group_teardown(void **state);

#endif
