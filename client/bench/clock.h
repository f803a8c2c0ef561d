/* The clock that times everything, and how two jobs find out whether they share it. */
#ifndef TESUP_BENCH_CLOCK_H
#define TESUP_BENCH_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "client/bench/messages.h"

#define CLOCK_NS_PER_MS UINT64_C(1000000)
#define CLOCK_NS_PER_S  UINT64_C(1000000000)

uint64_t clock_now_ns(void); /* CLOCK_MONOTONIC */
/* What names this host's CLOCK_MONOTONIC: the boot and the time namespace. */
void clock_identify(struct message_clock *clock);
bool clock_is_same(const struct message_clock *a, const struct message_clock *b);

#endif
