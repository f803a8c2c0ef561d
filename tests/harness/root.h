/* Tests with a second user: only root can become another one. */
#ifndef TESUP_TESTS_HARNESS_ROOT_H
#define TESUP_TESTS_HARNESS_ROOT_H

#define ROOT_STRANGER 65534u /* a uid that owns nothing */

/* For main: runs the whole program again by sudo unless root runs it already. */
void root_need(char **argv);
/* Becomes the stranger, for good. In a child. */
void root_leave(void);

#endif
