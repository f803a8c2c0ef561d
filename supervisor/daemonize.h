/* Going to the background: the starter waits until the daemon works, and tells whether it does. */
#ifndef TESUP_SUPERVISOR_DAEMONIZE_H
#define TESUP_SUPERVISOR_DAEMONIZE_H

/* Opens /dev/null for standard streams that are closed, so that no other file gets their numbers.
 */
void daemonize_streams(void);
/* Returns in the child, which is in a session of its own: the descriptor for daemonize_done, or -1
 * with errno.  The parent stays inside: it prints the child's line and exits 0, or exits with the
 * child's code if that ends without one. */
int daemonize_begin(void);
/* Gives `line` to the parent to print; the terminal is let go. */
void daemonize_done(int fd, const char *line);

#endif
