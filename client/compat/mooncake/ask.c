/* Asks another engine for its card. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/compat/mooncake/engine.h"
#include "client/compat/mooncake/resolve.h"
#include "shm/name.h"

struct asking {
    const char *name;
    uint64_t deadline;
    int fd;
    bool same_host;
    char *text;
    size_t text_size;
};

#define ask_fail(asking, code, format, ...)                                                     \
    (snprintf((asking)->text, (asking)->text_size, "%s: " format, (asking)->name, __VA_ARGS__), \
     (code))

/* 0 when the socket is ready, else ETIMEDOUT. */
static int ask_ready(int fd, short events, uint64_t deadline)
{
    struct pollfd wait = {.fd = fd, .events = events};

    for (;;) {
        uint64_t now = clock_now();

        if (poll(&wait, 1, clock_ms_until(deadline, now)) > 0)
            return 0;
        if (now >= deadline)
            return ETIMEDOUT;
    }
}

static bool host_is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 ||
           strcmp(host, "localhost") == 0;
}

/* Both ends have one address, or the other end's is loopback: the peer is on this host. */
static bool ends_are_equal(int fd)
{
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t here_size = sizeof(here), there_size = sizeof(there);
    char a[NI_MAXHOST], b[NI_MAXHOST];

    return getsockname(fd, (struct sockaddr *)&here, &here_size) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &there_size) == 0 &&
           getnameinfo((struct sockaddr *)&here, here_size, a, sizeof(a), NULL, 0,
                       NI_NUMERICHOST) == 0 &&
           getnameinfo((struct sockaddr *)&there, there_size, b, sizeof(b), NULL, 0,
                       NI_NUMERICHOST) == 0 &&
           (strcmp(a, b) == 0 || host_is_loopback(b));
}

/* 0 or errno. */
static int ask_connect_one(struct asking *asking, const struct addrinfo *address, uint64_t deadline)
{
    socklen_t size = sizeof(int);
    int error = 0;

    asking->fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (asking->fd < 0)
        return errno;
    if (connect(asking->fd, address->ai_addr, address->ai_addrlen) < 0)
        error = errno == EINPROGRESS ? ask_ready(asking->fd, POLLOUT, deadline) : errno;
    if (error == 0 && getsockopt(asking->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    if (error == 0)
        return 0;
    close(asking->fd);
    asking->fd = -1;
    return error;
}

/* Each address of a name gets its share of the time that is left. */
static int ask_connect(struct asking *asking, const struct addrinfo *list)
{
    unsigned left = 0;
    int error = EHOSTUNREACH;

    for (const struct addrinfo *at = list; at != NULL; at = at->ai_next)
        left++;
    for (const struct addrinfo *at = list; at != NULL; at = at->ai_next, left--) {
        uint64_t now = clock_now();
        uint64_t rest = asking->deadline > now ? asking->deadline - now : 0;

        error = ask_connect_one(asking, at, now + rest / left);
        if (error == 0)
            break;
    }
    if (error != 0)
        return ask_fail(asking, TRANSFER_ENGINE_SOCKET,
                        "no engine answers there (%s); does that process run, and is the address "
                        "reachable from here?",
                        strerrordesc_np(error));
    asking->same_host = ends_are_equal(asking->fd);
    return 0;
}

static int ask_question(struct asking *asking)
{
    uint8_t question[CARD_QUESTION];

    card_question_write(question);
    /* Into an empty buffer: it fits. */
    if (send(asking->fd, question, sizeof(question), MSG_NOSIGNAL) == (ssize_t)sizeof(question))
        return 0;
    return ask_fail(asking, TRANSFER_ENGINE_SOCKET, "asking failed: %s", strerrordesc_np(errno));
}

static int ask_receive(struct asking *asking, uint8_t *bytes, size_t size)
{
    while (size > 0) {
        ssize_t got = recv(asking->fd, bytes, size, 0);

        if (got > 0) {
            bytes += got;
            size -= (size_t)got;
        } else if (got == 0) {
            return ask_fail(asking, TRANSFER_ENGINE_REJECT_HANDSHAKE, "%s",
                            "what answers there is no libtransfer_engine of tesup, or it ended");
        } else if (errno != EAGAIN && errno != EINTR) {
            return ask_fail(asking, TRANSFER_ENGINE_SOCKET, "%s", strerrordesc_np(errno));
        } else if (ask_ready(asking->fd, POLLIN, asking->deadline) != 0) {
            return ask_fail(asking, TRANSFER_ENGINE_SOCKET,
                            "no answer within %u ms; is that process stopped?", CARD_MS);
        }
    }
    return 0;
}

static int ask_answer(struct asking *asking, struct card *card)
{
    uint8_t header[CARD_HEADER];
    const char *why = "";
    uint8_t *body;
    int64_t rest;
    int code = ask_receive(asking, header, sizeof(header));

    if (code != 0)
        return code;
    rest = card_header_read(header, &why);
    if (rest < 0)
        return ask_fail(asking, TRANSFER_ENGINE_REJECT_HANDSHAKE, "%s", why);
    body = malloc((size_t)rest + 1);
    if (body == NULL)
        return ask_fail(asking, TRANSFER_ENGINE_MEMORY, "no memory for an answer of %lld bytes",
                        (long long)rest);
    code = ask_receive(asking, body, (size_t)rest);
    if (code == 0 && card_body_read(header, body, card, &why) < 0)
        code = ask_fail(asking, TRANSFER_ENGINE_REJECT_HANDSHAKE, "%s", why);
    free(body);
    return code;
}

/* What a stranger says is checked as what a user types. */
static int card_check(const struct asking *asking, const struct card *card)
{
    struct segment_name parts;
    const char *why = "";

    if (card->segment[0] == '\0')
        return ask_fail(asking, TRANSFER_ENGINE_METADATA, "%s",
                        "that engine took its segment back (removeLocalSegment)");
    if (name_parse(card->segment, &parts, &why) != 0)
        return ask_fail(asking, TRANSFER_ENGINE_REJECT_HANDSHAKE, "its answer names no segment: %s",
                        why);
    if (!asking->same_host && host_is_loopback(parts.host))
        return ask_fail(asking, TRANSFER_ENGINE_ENDPOINT,
                        "its supervisor listens at %s:%s, which other hosts cannot reach: start "
                        "`tesup serve` there with --listen ADDRESS:7400",
                        parts.host, parts.port);
    return 0;
}

static int ask_there(struct asking *asking, const struct addrinfo *list, struct card *card)
{
    int code = ask_connect(asking, list);

    if (code == 0)
        code = ask_question(asking);
    if (code == 0)
        code = ask_answer(asking, card);
    if (asking->fd >= 0)
        close(asking->fd);
    if (code != 0)
        return code;
    code = card_check(asking, card);
    if (code != 0)
        card_free(card);
    return code;
}

int ask_card(const char *name, struct card *card, char *text, size_t text_size)
{
    struct asking asking = {.name = name,
                            .deadline = clock_now() + CARD_MS * CLOCK_NS_PER_MS,
                            .fd = -1,
                            .text = text,
                            .text_size = text_size};
    struct addrinfo *list = NULL;
    struct segment_name parts;
    const char *why = "";
    int rc, code;

    if (name_parse_address(name, &parts, &why) != 0)
        return ask_fail(&asking, TRANSFER_ENGINE_INVALID_ARGUMENT,
                        "no name of an engine (IP:PORT, [IPv6]:PORT or HOST:PORT): %s", why);
    rc = resolve_host(parts.host, parts.port, AF_UNSPEC, asking.deadline, &list);
    if (rc != 0)
        return ask_fail(&asking, TRANSFER_ENGINE_DNS, "the host is not found: %s",
                        gai_strerror(rc));
    code = ask_there(&asking, list, card);
    freeaddrinfo(list);
    return code;
}
