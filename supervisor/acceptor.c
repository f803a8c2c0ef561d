#include "supervisor/acceptor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shm/list.h"
#include "supervisor/supervisor.h"

#define ACCEPT_BATCH 16
#define REST_MS      100u

static void acceptor_reserve(struct acceptor *acceptor)
{
    if (acceptor->reserve < 0)
        acceptor->reserve = fcntl(acceptor->fd, F_DUPFD_CLOEXEC, 0);
}

static void acceptor_rested(struct timer *timer)
{
    struct acceptor *acceptor = list_entry(timer, struct acceptor, rest);

    acceptor_reserve(acceptor);
    loop_change(&acceptor->supervisor->loop, &acceptor->source, EPOLLIN);
}

/* The connection stays in the backlog and the socket readable: asking again at once would spin. */
static void acceptor_rest(struct acceptor *acceptor, int error)
{
    char text[COUNTERS_TEXT];

    if (error == EMFILE || error == ENFILE)
        report_no_files(text, sizeof(text));
    else
        snprintf(text, sizeof(text), "%s", strerror(error));
    report_problem(acceptor->supervisor, &acceptor->limit, "no %s can be accepted: %s",
                   acceptor->what, text);
    loop_change(&acceptor->supervisor->loop, &acceptor->source, 0);
    loop_timer_set(&acceptor->supervisor->loop, &acceptor->rest, REST_MS);
}

/* One guest more can come in, to be told why it must go again. */
static void acceptor_use_reserve(struct acceptor *acceptor)
{
    int fd;

    if (acceptor->reserve < 0)
        return;
    close(acceptor->reserve);
    acceptor->reserve = -1;
    fd = accept4(acceptor->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0)
        acceptor->accepted(acceptor, fd);
}

static void acceptor_ready(struct loop_source *source, uint32_t events)
{
    struct acceptor *acceptor = list_entry(source, struct acceptor, source);

    (void)events;
    for (int i = 0; i < ACCEPT_BATCH && acceptor->fd >= 0; i++) {
        int fd = accept4(acceptor->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            acceptor->accepted(acceptor, fd);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            acceptor_rest(acceptor, errno);
            acceptor_use_reserve(acceptor);
        }
        return; /* EAGAIN, or a connection that is gone again already */
    }
}

int acceptor_open(struct acceptor *acceptor, struct supervisor *supervisor, int fd,
                  const char *what, void (*accepted)(struct acceptor *acceptor, int fd))
{
    *acceptor = (struct acceptor){.supervisor = supervisor,
                                  .what = what,
                                  .fd = -1,
                                  .reserve = -1,
                                  .rest = {.fire = acceptor_rested},
                                  .accepted = accepted};
    if (loop_add(&supervisor->loop, &acceptor->source, fd, EPOLLIN, acceptor_ready) < 0)
        return -1;
    acceptor->fd = fd;
    acceptor_reserve(acceptor);
    return 0;
}

void acceptor_close(struct acceptor *acceptor)
{
    if (acceptor->fd < 0)
        return;
    loop_remove(&acceptor->supervisor->loop, &acceptor->source);
    timer_clear(&acceptor->supervisor->loop.timers, &acceptor->rest);
    close(acceptor->fd);
    acceptor->fd = -1;
    if (acceptor->reserve >= 0)
        close(acceptor->reserve);
    acceptor->reserve = -1;
}
