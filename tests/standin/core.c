/* What every call goes through: the lock, refusals, counters; and the account at the end. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/standin/cuda.h"

struct standin_counters *standin_count;
__thread bool standin_in_host_function;

static struct standin_counters own_counters;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t progress = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool initialised, forked;

void standin_lock(void)
{
    pthread_mutex_lock(&lock);
}

void standin_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void standin_wait(void)
{
    pthread_cond_wait(&progress, &lock);
}

void standin_tell(void)
{
    pthread_cond_broadcast(&progress);
}

static void core_forked(void)
{
    forked = true;
}

/* Another process may read the counters at any time. */
static void counters_share(const char *folder)
{
    char path[4096];
    void *shared;
    int fd;

    snprintf(path, sizeof(path), "%s/cuda.%d", folder, (int)getpid());
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(*standin_count)))
        standin_die("STANDIN_CUDA_COUNTERS: cannot make %s", path);
    shared = mmap(NULL, sizeof(*standin_count), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED)
        standin_die("STANDIN_CUDA_COUNTERS: cannot map %s", path);
    close(fd);
    standin_count = shared;
}

static void core_init(void)
{
    const char *folder = standin_env("STANDIN_CUDA_COUNTERS", NULL);

    standin_count = &own_counters;
    if (folder)
        counters_share(folder);
    pthread_atfork(NULL, NULL, core_forked);
    standin_devices_init();
}

enum cuda_result standin_enter(const char *call)
{
    enum cuda_result failed;

    pthread_once(&once, core_init);
    if (forked) /* the driver does not live on in a child */
        return CUDA_NOT_INITIALIZED;
    if (standin_in_host_function)
        standin_die("%s in a host function: it may call nothing of the driver", call);
    standin_lock();
    standin_count->calls++;
    if (!initialised && strcmp(call, "cuInit") != 0 && strcmp(call, "cuDriverGetVersion") != 0) {
        standin_unlock();
        return CUDA_NOT_INITIALIZED;
    }
    failed = standin_fail_call(call);
    if (failed != CUDA_OK) {
        standin_count->failures++;
        if (standin_is_sticky(failed))
            standin_context_kill(failed);
        standin_unlock();
    }
    return failed;
}

enum cuda_result standin_leave(enum cuda_result result)
{
    standin_unlock();
    return result;
}

void standin_start_pause(void)
{
    long ms = strtol(standin_env("STANDIN_CUDA_START_MS", "0"), NULL, 10);
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    standin_unlock();
    nanosleep(&pause, NULL);
    standin_lock();
}

enum cuda_result cuInit(unsigned int flags)
{
    STANDIN_ENTER("cuInit");
    if (flags)
        standin_die("cuInit: flags %u, 0 is the only value", flags);
    if (standin_device_count == 0)
        return standin_leave(CUDA_NO_DEVICE);
    if (!initialised)
        standin_start_pause();
    initialised = true;
    return standin_leave(CUDA_OK);
}

/* What is left when the process ends by itself is a leak, unless its device was lost. */
__attribute__((destructor)) static void core_end(void)
{
    const char *leaks = standin_env("STANDIN_CUDA_LEAKS", "abort");
    char text[400] = "";
    size_t used = 0;

    if (!initialised || forked || strcmp(leaks, "allow") == 0)
        return;
    for (cuda_device i = 0; i < standin_device_count; i++) {
        if (standin_context_dead(standin_context_of(i)) != CUDA_OK)
            return;
    }
#define STANDIN_LEFT(field, alive)                                                    \
    if ((alive) && standin_count->field && used < sizeof(text))                       \
        used += (size_t)snprintf(text + used, sizeof(text) - used, " %s=%lu", #field, \
                                 (unsigned long)standin_count->field);
    STANDIN_COUNTERS(STANDIN_LEFT)
#undef STANDIN_LEFT
    if (used)
        standin_die("left at the end of the process:%s", text);
}
