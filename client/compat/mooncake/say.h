/* What the library says on stderr, by MC_LOG_LEVEL. */
#ifndef TESUP_COMPAT_MOONCAKE_SAY_H
#define TESUP_COMPAT_MOONCAKE_SAY_H

#include "shm/atomics.h"
#include "shm/log.h"

/* One sentence, at most 16 a second of each `format` of each `call`: the function that the program
 * called. */
void say(enum log_level level, const char *call, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a refusal: returns `code`. */
#define refuse(code, call, ...) (say(LOG_LEVEL_ERROR, (call), __VA_ARGS__), (code))
/* Once in the life of the process. */
#define say_once(level, call, ...)                                         \
    do {                                                                   \
        static _Atomic int said;                                           \
        if (atomic_exchange_explicit(&said, 1, memory_order_relaxed) == 0) \
            say((level), (call), __VA_ARGS__);                             \
    } while (0)

/* The value of MC_LOG_LEVEL: the highest level that is written. -1 when it is none. */
int say_level_parse(const char *text);

#endif
