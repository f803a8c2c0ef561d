/* Private supervisors in a directory of their own, ended by pid and looked after to the last file.
 */
#ifndef TESUP_TESTS_HARNESS_DAEMON_H
#define TESUP_TESTS_HARNESS_DAEMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DAEMON_PATH    160
#define DAEMON_WORKERS 8

struct daemon {
    pid_t pid; /* 0: does not run */
    char name[32];
    char address[256]; /* HOST:PORT for peers */
    char socket[DAEMON_PATH];
};

/* Group set-up and tear-down: the directory, and that nothing but logs and the key is left in it.
 */
int daemon_group_setup(void **state);
int daemon_group_teardown(void **state);
/* Tear-down of a test that starts its own daemons: jobs that still run are killed, so are daemons
 * after they have shown their log. */
int daemon_test_teardown(void **state);
const char *daemon_directory(void);

/* `tesup serve --name NAME OPTIONS` with one worker on a free port of loopback. */
void daemon_start(struct daemon *daemon, const char *name, const char *options);
/* The same in two steps, with another program: starts it; its standard output. */
int daemon_spawn(struct daemon *daemon, const char *program, const char *name, const char *options);
/* Waits until it says where it listens; takes `output`. */
void daemon_listens(struct daemon *daemon, int output, unsigned ms);
/* How many lines of its log have `part`; workers write there, too. */
unsigned daemon_log_count(const struct daemon *daemon, const char *part);
/* Writes a config file and returns `--config FILE`, good until the next call. */
const char *daemon_config(const char *text);
/* SIGTERM: the exit code is 0, and process, workers, socket and lock file are gone. */
void daemon_stop(struct daemon *daemon);
/* SIGKILL, and waits until supervisor and workers are gone. */
void daemon_kill(struct daemon *daemon);
/* The workers that run now; returns how many. */
size_t daemon_workers(const struct daemon *daemon, pid_t pids[DAEMON_WORKERS]);

#endif
