#include "worker/resolve.h"

#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shm/list.h"
#include "shm/name.h"
#include "worker/thread.h"

#define LOOKUPS_MAX 32 /* threads at once; those whose endpoint gave up count until they end */
#define STACK_BYTES (256u * 1024u)

/* Shared by the loop and one thread; the last of the two to let go frees it. */
struct lookup {
    atomic_int owners;
    int event;
    int error;
    struct addrinfo *found;
    char host[NAME_HOST_MAX];
    char port[8];
};

static atomic_int lookups_running;

static int lookup_run(const char *host, const char *port, int flags, struct addrinfo **found)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};

    return getaddrinfo(host, port, &hints, found);
}

static void lookup_release(struct lookup *lookup)
{
    /* acq_rel: what the other owner wrote before it let go is seen by the one that frees. */
    if (atomic_fetch_sub_explicit(&lookup->owners, 1, memory_order_acq_rel) > 1)
        return;
    if (lookup->found != NULL)
        freeaddrinfo(lookup->found);
    close(lookup->event);
    free(lookup);
}

static void *lookup_thread(void *argument)
{
    struct lookup *lookup = argument;
    uint64_t one = 1;

    lookup->error = lookup_run(lookup->host, lookup->port, 0, &lookup->found);
    /* The write publishes both to the loop's read; an eventfd that counts to one is never full. */
    (void)!write(lookup->event, &one, sizeof(one));
    lookup_release(lookup);
    atomic_fetch_sub(&lookups_running, 1);
    return NULL;
}

static struct lookup *lookup_new(const char *host, const char *port)
{
    struct lookup *lookup = calloc(1, sizeof(*lookup));

    if (lookup == NULL)
        return NULL;
    atomic_init(&lookup->owners, 2);
    snprintf(lookup->host, sizeof(lookup->host), "%s", host);
    snprintf(lookup->port, sizeof(lookup->port), "%s", port);
    lookup->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (lookup->event >= 0)
        return lookup;
    free(lookup);
    return NULL;
}

static int lookup_spawn(struct lookup *lookup)
{
    pthread_attr_t attributes;
    pthread_t thread;
    int rc;

    if (pthread_attr_init(&attributes) != 0)
        return -1;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    rc = thread_spawn(&thread, &attributes, lookup_thread, lookup);
    pthread_attr_destroy(&attributes);
    return rc;
}

static void resolve_on_event(struct source *source, uint32_t events)
{
    struct resolve *resolve = list_entry(source, struct resolve, source);
    struct lookup *lookup = resolve->lookup;
    struct addrinfo *found;
    uint64_t count;
    int error;

    (void)events;
    if (read(source->fd, &count, sizeof(count)) != sizeof(count))
        return;
    found = lookup->found;
    error = lookup->error;
    lookup->found = NULL;
    resolve_stop(resolve);
    resolve->done(resolve, error, found);
}

void resolve_init(struct resolve *resolve, struct reactor *reactor,
                  void (*done)(struct resolve *, int, struct addrinfo *))
{
    *resolve = (struct resolve){
        .source = {.fd = -1, .ready = resolve_on_event}, .reactor = reactor, .done = done};
}

static int resolve_by_thread(struct resolve *resolve, const char *host, const char *port)
{
    struct lookup *lookup;

    if (atomic_fetch_add(&lookups_running, 1) >= LOOKUPS_MAX)
        goto err_count;
    lookup = lookup_new(host, port);
    if (lookup == NULL)
        goto err_count;
    resolve->lookup = lookup;
    resolve->source.fd = lookup->event;
    if (reactor_watch(resolve->reactor, &resolve->source, EPOLLIN) < 0)
        goto err_lookup;
    if (lookup_spawn(lookup) < 0)
        goto err_watch;
    return 0;

err_watch:
    reactor_watch(resolve->reactor, &resolve->source, 0);
err_lookup:
    resolve->source.fd = -1;
    resolve->lookup = NULL;
    close(lookup->event);
    free(lookup);
err_count:
    atomic_fetch_sub(&lookups_running, 1);
    return EAI_AGAIN;
}

void resolve_start(struct resolve *resolve, const char *host, const char *port)
{
    struct addrinfo *found = NULL;
    int error = lookup_run(host, port, AI_NUMERICHOST, &found);

    if (error == EAI_NONAME) {
        error = resolve_by_thread(resolve, host, port);
        if (error == 0)
            return;
    }
    resolve->done(resolve, error, found);
}

void resolve_stop(struct resolve *resolve)
{
    if (resolve->lookup == NULL)
        return;
    reactor_watch(resolve->reactor, &resolve->source, 0);
    resolve->source.fd = -1;
    lookup_release(resolve->lookup);
    resolve->lookup = NULL;
}
