/* Waits with a deadline: a test never hangs, it says what did not come. */
#ifndef TESUP_TESTS_HARNESS_WAIT_H
#define TESUP_TESTS_HARNESS_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define WAIT_MS 15000 /* for what must come, however slow the machine is */

uint64_t wait_now_ms(void);
void wait_sleep_ms(unsigned ms);

/* One look at the world, again and again until the deadline. */
struct wait {
    uint64_t until_ms;
    const char *what;
};
struct wait wait_begin(const char *what, unsigned ms);
/* Sleeps a little; fails the test when the time is over. */
void wait_step(const struct wait *wait);

/* Until another process has set the word to `value` or more. */
void wait_word(const _Atomic uint64_t *word, uint64_t value, const char *what);
/* Until that process, which need not be a child, is gone (a zombie counts as gone). */
void wait_pid_gone(pid_t pid, unsigned ms);
/* Waits for a child's end, kills it when it is late; its exit code or 128 + signal. */
int wait_child(pid_t pid, unsigned ms, const char *what);

#endif
