/* The engine's own socket: it makes ip:port ours on this host, and answers who asks for our card.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/compat/mooncake/engine.h"
#include "client/compat/mooncake/guest.h"
#include "client/compat/mooncake/resolve.h"

#define GUESTS_MAX 32u
#define BACKLOG    64
#define REST_MS    100 /* when there is no descriptor for a guest */

struct host { /* the answering thread's own */
    struct engine *engine;
    struct guest guests[GUESTS_MAX];
    struct pollfd wait[GUESTS_MAX + 2];
};

static uint8_t *answer_make(void *context, size_t *size)
{
    struct engine *engine = context;
    struct card card = {0};
    uint8_t *bytes = NULL;

    pthread_mutex_lock(&engine->slot->lock);
    (void)tesup_arm(engine->channel); /* moves to the successor of a dead supervisor */
    if (!engine->withdrawn)
        snprintf(card.segment, sizeof(card.segment), "%s", tesup_segment_name(engine->session));
    card.ranges = memory_ranges(&engine->memory, &card.count);
    pthread_mutex_unlock(&engine->slot->lock);
    if (card.ranges != NULL)
        bytes = card_write(&card, size);
    card_free(&card);
    return bytes;
}

/* The longest silent one makes room for who comes now. */
static struct guest *guest_place(struct host *host)
{
    struct guest *oldest = &host->guests[0];

    for (unsigned i = 0; i < GUESTS_MAX; i++) {
        if (host->guests[i].fd < 0)
            return &host->guests[i];
        if (host->guests[i].deadline < oldest->deadline)
            oldest = &host->guests[i];
    }
    guest_close(oldest);
    return oldest;
}

/* False: there is somebody, but no descriptor for him. */
static bool guest_let_in(struct host *host)
{
    int fd = accept4(host->engine->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0)
        return errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS;
    *guest_place(host) =
        (struct guest){.fd = fd, .deadline = clock_now() + CARD_MS * CLOCK_NS_PER_MS};
    return true;
}

/* Fills `wait`; how long to sleep. */
static int host_prepare(struct host *host, bool rest)
{
    uint64_t now = clock_now(), first = UINT64_MAX;

    host->wait[0] = (struct pollfd){.fd = host->engine->stop, .events = POLLIN};
    host->wait[1] = (struct pollfd){.fd = rest ? -1 : host->engine->listener, .events = POLLIN};
    for (unsigned i = 0; i < GUESTS_MAX; i++) {
        struct guest *guest = &host->guests[i];

        if (guest->fd >= 0 && guest->deadline <= now)
            guest_close(guest);
        host->wait[2 + i] = (struct pollfd){.fd = guest->fd, .events = guest_events(guest)};
        if (guest->fd >= 0 && guest->deadline < first)
            first = guest->deadline;
    }
    if (rest)
        return REST_MS;
    return first == UINT64_MAX ? -1 : clock_ms_until(first, now);
}

static void *answer_run(void *argument)
{
    struct host host = {.engine = argument};
    bool rest = false;

    for (unsigned i = 0; i < GUESTS_MAX; i++)
        host.guests[i].fd = -1;
    for (;;) {
        int ms = host_prepare(&host, rest);

        rest = false;
        if (poll(host.wait, GUESTS_MAX + 2, ms) <= 0)
            continue;
        if (host.wait[0].revents != 0)
            break;
        for (unsigned i = 0; i < GUESTS_MAX; i++)
            if (host.wait[2 + i].revents != 0 &&
                !guest_do_work(&host.guests[i], answer_make, host.engine))
                guest_close(&host.guests[i]);
        if (host.wait[1].revents != 0)
            rest = !guest_let_in(&host);
    }
    for (unsigned i = 0; i < GUESTS_MAX; i++)
        if (host.guests[i].fd >= 0)
            guest_close(&host.guests[i]);
    return NULL;
}

/* Listens there. The descriptor, or -1 with errno. */
static int listener_open(const struct addrinfo *address)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int on = 1;
    int error;

    if (fd < 0)
        return -1;
    /* A port of a minute ago is free. */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

static int label_make(struct engine *engine, char *text, size_t text_size)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof(address);
    char host[NI_MAXHOST], port[NI_MAXSERV];
    int length;

    if (getsockname(engine->listener, (struct sockaddr *)&address, &size) < 0 ||
        getnameinfo((struct sockaddr *)&address, size, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        snprintf(text, text_size, "the address of our own socket is unknown");
        return TRANSFER_ENGINE_SOCKET;
    }
    length = snprintf(engine->label, sizeof(engine->label),
                      address.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
    if (length > 0 && (size_t)length < sizeof(engine->label)) {
        memcpy(engine->host, host, strlen(host) + 1);
        return 0;
    }
    snprintf(text, text_size, "%.80s:%s is longer than the %u characters of a name", host, port,
             ENGINE_LABEL_MAX - 1);
    return TRANSFER_ENGINE_INVALID_ARGUMENT;
}

static int thread_start(struct engine *engine)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all); /* signals are the program's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&engine->answering, NULL, answer_run, engine);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int answer_bind(struct engine *engine, const char *host, uint64_t port, char *text,
                size_t text_size)
{
    uint64_t deadline = clock_now() + CARD_MS * CLOCK_NS_PER_MS;
    struct addrinfo *list = NULL;
    char service[8];
    int rc;

    snprintf(service, sizeof(service), "%u", (unsigned)(uint16_t)port);
    rc = resolve_host(host, service, AF_UNSPEC, deadline, &list);
    if (rc != 0) {
        snprintf(text, text_size, "the host '%.80s' is not found: %s", host, gai_strerror(rc));
        return TRANSFER_ENGINE_DNS;
    }
    errno = EADDRNOTAVAIL;
    for (const struct addrinfo *at = list; at != NULL && engine->listener < 0; at = at->ai_next)
        engine->listener = listener_open(at);
    if (engine->listener < 0)
        snprintf(text, text_size, "cannot listen at '%.80s' port %s: %s", host, service,
                 strerrordesc_np(errno));
    freeaddrinfo(list);
    return engine->listener < 0 ? TRANSFER_ENGINE_SOCKET : label_make(engine, text, text_size);
}

int answer_start(struct engine *engine, const char *call)
{
    int rc;

    engine->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (engine->stop < 0)
        return refuse(TRANSFER_ENGINE_SOCKET, call, "no eventfd: %s", strerrordesc_np(errno));
    rc = thread_start(engine);
    if (rc == 0)
        return 0;
    close(engine->stop);
    engine->stop = -1;
    return refuse(TRANSFER_ENGINE_CONTEXT, call, "no thread that answers peers: %s",
                  strerrordesc_np(rc));
}

void answer_stop(struct engine *engine)
{
    const uint64_t one = 1;

    if (engine->stop < 0)
        return;
    (void)!write(engine->stop, &one, sizeof(one));
    pthread_join(engine->answering, NULL);
    close(engine->stop);
    engine->stop = -1;
}
