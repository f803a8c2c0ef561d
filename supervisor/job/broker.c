#include "supervisor/job/broker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/wire.h"
#include "supervisor/job/attach.h"
#include "supervisor/supervisor.h"

#define GUESTS_MAX    256u
#define HELLO_WAIT_MS 5000u
#define BACKLOG       128

struct broker_guest {
    struct supervisor *supervisor;
    struct list node;
    int fd;
    struct loop_source source;
    struct timer timer;
    struct ucred cred;
};

/* Gives the socket away: the caller has it or closes it. */
static int guest_free(struct broker_guest *guest)
{
    struct supervisor *supervisor = guest->supervisor;
    int fd = guest->fd;

    loop_remove(&supervisor->loop, &guest->source);
    timer_clear(&supervisor->loop.timers, &guest->timer);
    list_remove(&guest->node);
    supervisor->broker.guest_count--;
    free(guest);
    return fd;
}

static void guest_broken(struct broker_guest *guest, const char *what)
{
    struct supervisor *supervisor = guest->supervisor;

    atomic_count(&supervisor->counters->supervisor.attach_refused, 1);
    report_problem(supervisor, &supervisor->broker.broken, "a process of uid %u %s",
                   guest->cred.uid, what);
    close(guest_free(guest));
}

static void guest_late(struct timer *timer)
{
    guest_broken(list_entry(timer, struct broker_guest, timer),
                 "connected and did not say within 5 s what it wants");
}

/* A worker on this host that was sent here by one of ours: the token says which. */
static void guest_link(struct broker_guest *guest, struct wire_message *message)
{
    struct supervisor *supervisor = guest->supervisor;
    const uint8_t *token = message->body.link.token;
    uint32_t index =
        token[0] | (uint32_t)token[1] << 8 | (uint32_t)token[2] << 16 | (uint32_t)token[3] << 24;
    struct worker_process *worker;

    if (guest->cred.uid != geteuid() && guest->cred.uid != 0) {
        guest_broken(guest, "wanted to be linked as a worker, which only ours and root may");
        return;
    }
    if (index >= supervisor->worker_count || message->fd_count != 0) {
        guest_broken(guest, "brought a link to a worker that does not exist");
        return;
    }
    worker = &supervisor->workers[index];
    message->fds[0] = guest_free(guest);
    message->fd_count = 1;
    /* A worker that is not ready cannot have given the token; then the link just ends. */
    if (worker->state == WORKER_STATE_READY)
        worker_link_send(&worker->link, message);
}

static void guest_ready(struct loop_source *source, uint32_t events)
{
    struct broker_guest *guest = list_entry(source, struct broker_guest, source);
    struct supervisor *supervisor = guest->supervisor;
    struct ucred cred = guest->cred;
    struct wire_message message;
    int rc = wire_receive(guest->fd, &message);

    (void)events;
    if (rc == TS_AGAIN)
        return;
    if (rc == TS_ERR_GONE || rc == TS_ERR_SYSTEM) {
        close(guest_free(guest));
    } else if (rc == TS_ERR_VERSION) {
        job_attach_deny(supervisor, guest_free(guest), 0, TS_ERR_VERSION,
                        "the library speaks another version of the local protocol: install the "
                        "same release of libtesup and tesup");
    } else if (rc != TS_OK) {
        guest_broken(guest, "sent something that is no message of the local protocol");
    } else {
        if (message.header.type == WIRE_HELLO)
            job_attach(supervisor, guest_free(guest), &cred, &message);
        else if (message.header.type == WIRE_LOCAL_LINK)
            guest_link(guest, &message);
        else
            guest_broken(guest, "sent another message before HELLO");
        wire_message_close(&message);
    }
}

static void broker_accepted(struct acceptor *acceptor, int fd)
{
    struct supervisor *supervisor = acceptor->supervisor;
    struct broker *broker = &supervisor->broker;
    struct broker_guest *guest = calloc(1, sizeof(*guest));
    socklen_t size = sizeof(guest->cred);

    if (guest == NULL || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &guest->cred, &size) < 0)
        goto err_free;
    guest->supervisor = supervisor;
    guest->fd = fd;
    guest->timer.fire = guest_late;
    if (loop_add(&supervisor->loop, &guest->source, fd, EPOLLIN, guest_ready) < 0)
        goto err_free;
    loop_timer_set(&supervisor->loop, &guest->timer, HELLO_WAIT_MS);
    if (broker->guest_count >= GUESTS_MAX)
        guest_broken(list_entry(broker->guests.next, struct broker_guest, node),
                     "made way for a newer connection, as it had not said what it wants");
    list_append(&broker->guests, &guest->node);
    broker->guest_count++;
    return;

err_free:
    free(guest);
    close(fd);
}

void broker_init(struct broker *broker)
{
    *broker = (struct broker){.acceptor = {.fd = -1}};
    list_init(&broker->guests);
}

int broker_open(struct broker *broker, struct supervisor *supervisor, char *text, size_t text_size)
{
    const char *path = supervisor->paths.socket;
    mode_t mode = supervisor_allows_others(supervisor) ? 0666 : 0600;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        goto err_text;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    /* We hold the lock, so a socket that is there belongs to nobody. */
    if (unlink(path) < 0 && errno != ENOENT)
        goto err_close;
    /* Before bind: the file never has wider access than this. */
    if (fchmod(fd, mode) < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        goto err_close;
    broker->bound = true;
    if (chmod(path, mode) < 0 || listen(fd, BACKLOG) < 0 ||
        acceptor_open(&broker->acceptor, supervisor, fd, "job", broker_accepted) < 0)
        goto err_close;
    return 0;

err_close:
    close(fd);
err_text:
    snprintf(text, text_size, "socket %s cannot be opened: %s", path, strerror(errno));
    return -1;
}

void broker_close(struct broker *broker)
{
    list_each (node, next, &broker->guests)
        close(guest_free(list_entry(node, struct broker_guest, node)));
    if (broker->bound)
        unlink(broker->acceptor.supervisor->paths.socket);
    broker->bound = false;
    acceptor_close(&broker->acceptor);
}
