/* Namespaces of this process and its children: what a test changes there nobody else sees. */
#ifndef TESUP_TESTS_HARNESS_NAMESPACE_H
#define TESUP_TESTS_HARNESS_NAMESPACE_H

/* `flags` as for unshare(2); as root, else inside a user namespace that keeps uid and gid.  Fails
 * the test, with the remedy, where neither is allowed. */
void namespace_enter(int flags);
/* A network namespace whose only interface is loopback, with 127.0.0.1 and ::1. */
void namespace_enter_loopback(void);

#endif
