#include "client/compat/mooncake/say.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "shm/clock.h"

#define KINDS 256u /* two kinds in one place only share their limit */
#define BURST 16u  /* sentences of a kind within a second */

struct limit {
    uint64_t since; /* beginning of its second */
    uint64_t count; /* said and left out since then */
};

static struct limit limits[KINDS];
static pthread_mutex_t limits_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int level_max = LOG_LEVEL_WARNING;

static const struct {
    const char *name;
    int level;
} levels[] = {
    {"TRACE", LOG_LEVEL_INFO},      {"DEBUG", LOG_LEVEL_INFO},  {"INFO", LOG_LEVEL_INFO},
    {"WARNING", LOG_LEVEL_WARNING}, {"ERROR", LOG_LEVEL_ERROR}, {"FATAL", LOG_LEVEL_ERROR - 1},
};

int say_level_parse(const char *text)
{
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
        if (strcasecmp(text, levels[i].name) == 0)
            return levels[i].level;
    return -1;
}

/* A lock that another thread held at fork() would stay locked in the child. */
static void say_on_fork(void)
{
    pthread_mutex_init(&limits_lock, NULL);
}

static void say_begin(void)
{
    const char *text = getenv("MC_LOG_LEVEL");
    int level = text != NULL && text[0] != '\0' ? say_level_parse(text) : level_max;

    pthread_atfork(NULL, NULL, say_on_fork);
    log_init("libtransfer_engine");
    if (level < 0)
        log_warning("MC_LOG_LEVEL is '%.40s'; TRACE, INFO, WARNING, ERROR and FATAL are known, "
                    "WARNING is used",
                    text);
    else
        level_max = level;
}

/* *left_out: how many were not said in the second before. */
static bool limit_pass(struct limit *limit, uint64_t *left_out)
{
    uint64_t now = clock_now();

    if (limit->since == 0 || now - limit->since >= CLOCK_NS_PER_S) {
        *left_out = limit->count > BURST ? limit->count - BURST : 0;
        *limit = (struct limit){.since = now};
    }
    return ++limit->count <= BURST;
}

static bool kind_pass(const char *call, const char *format, uint64_t *left_out)
{
    uint64_t kind = (uint64_t)(uintptr_t)call * 31 + (uint64_t)(uintptr_t)format;
    bool pass;

    pthread_mutex_lock(&limits_lock);
    pass = limit_pass(&limits[(kind ^ kind >> 8 ^ kind >> 16) % KINDS], left_out);
    pthread_mutex_unlock(&limits_lock);
    return pass;
}

void say(enum log_level level, const char *call, const char *format, ...)
{
    uint64_t left_out = 0;
    char sentence[896];
    va_list arguments;

    pthread_once(&once, say_begin);
    if ((int)level > level_max || !kind_pass(call, format, &left_out))
        return;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof(sentence), format, arguments);
    va_end(arguments);
    if (left_out > 0)
        log_line(level, "%s: %s (and %llu more like this)", call, sentence,
                 (unsigned long long)left_out);
    else
        log_line(level, "%s: %s", call, sentence);
}
