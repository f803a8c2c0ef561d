/* getaddrinfo(3) knows no deadline, so names are looked up by a thread that is left alone when it
 * is late. */
#include "client/compat/mooncake/resolve.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "shm/clock.h"

struct lookup {
    pthread_mutex_t lock;
    pthread_cond_t over;
    unsigned users; /* who asks, and the thread */
    bool done;
    int rc;
    struct addrinfo *list;
    struct addrinfo hints;
    char *host, *port;
};

static void lookup_drop(struct lookup *lookup)
{
    bool last = --lookup->users == 0;

    pthread_mutex_unlock(&lookup->lock);
    if (!last)
        return;
    if (lookup->list != NULL)
        freeaddrinfo(lookup->list);
    pthread_cond_destroy(&lookup->over);
    pthread_mutex_destroy(&lookup->lock);
    free(lookup->host);
    free(lookup->port);
    free(lookup);
}

static void *lookup_run(void *argument)
{
    struct lookup *lookup = argument;
    struct addrinfo *list = NULL;
    int rc = getaddrinfo(lookup->host, lookup->port, &lookup->hints, &list);

    pthread_mutex_lock(&lookup->lock);
    lookup->rc = rc;
    lookup->list = rc == 0 ? list : NULL;
    lookup->done = true;
    pthread_cond_signal(&lookup->over);
    lookup_drop(lookup);
    return NULL;
}

static struct lookup *lookup_new(const char *host, const char *port, const struct addrinfo *hints)
{
    struct lookup *lookup = calloc(1, sizeof(*lookup));

    if (lookup == NULL)
        return NULL;
    lookup->host = strdup(host);
    lookup->port = strdup(port);
    lookup->hints = *hints;
    lookup->users = 1;
    pthread_mutex_init(&lookup->lock, NULL);
    pthread_cond_init(&lookup->over, NULL);
    if (lookup->host != NULL && lookup->port != NULL)
        return lookup;
    pthread_mutex_lock(&lookup->lock);
    lookup_drop(lookup);
    return NULL;
}

/* Signals are the program's: none is taken by this thread. */
static int lookup_start(struct lookup *lookup)
{
    sigset_t all, before;
    pthread_t thread;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    lookup->users++;
    rc = pthread_create(&thread, NULL, lookup_run, lookup);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        lookup->users--;
    else
        pthread_detach(thread);
    return rc;
}

static int lookup_wait(struct lookup *lookup, uint64_t deadline, struct addrinfo **list)
{
    struct timespec until = {.tv_sec = (time_t)(deadline / CLOCK_NS_PER_S),
                             .tv_nsec = (long)(deadline % CLOCK_NS_PER_S)};
    int rc;

    while (!lookup->done &&
           pthread_cond_clockwait(&lookup->over, &lookup->lock, CLOCK_MONOTONIC, &until) == 0)
        ;
    rc = lookup->done ? lookup->rc : EAI_AGAIN;
    if (rc == 0) {
        *list = lookup->list;
        lookup->list = NULL;
    }
    return rc;
}

int resolve_host(const char *host, const char *port, int family, uint64_t deadline,
                 struct addrinfo **list)
{
    struct addrinfo hints = {.ai_family = family,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct lookup *lookup;
    int rc = getaddrinfo(host, port, &hints, list);

    if (rc != EAI_NONAME)
        return rc;
    hints.ai_flags = AI_NUMERICSERV;
    lookup = lookup_new(host, port, &hints);
    if (lookup == NULL)
        return EAI_MEMORY;
    pthread_mutex_lock(&lookup->lock);
    rc = lookup_start(lookup) == 0 ? lookup_wait(lookup, deadline, list) : EAI_MEMORY;
    lookup_drop(lookup);
    return rc;
}
