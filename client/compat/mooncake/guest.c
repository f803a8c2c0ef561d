#include "client/compat/mooncake/guest.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

short guest_events(const struct guest *guest)
{
    return guest->answer != NULL ? POLLOUT : POLLIN;
}

static bool guest_may_go_on(ssize_t moved)
{
    return moved < 0 && (errno == EAGAIN || errno == EINTR);
}

static bool guest_listen(struct guest *guest, bool *complete)
{
    size_t missing = sizeof(guest->question) - guest->received;
    ssize_t got = recv(guest->fd, guest->question + guest->received, missing, 0);

    if (got <= 0)
        return guest_may_go_on(got);
    guest->received += (size_t)got;
    *complete = guest->received == sizeof(guest->question);
    return true;
}

static bool guest_speak(struct guest *guest)
{
    ssize_t sent =
        send(guest->fd, guest->answer + guest->sent, guest->size - guest->sent, MSG_NOSIGNAL);

    if (sent < 0)
        return guest_may_go_on(sent);
    guest->sent += (size_t)sent;
    return guest->sent < guest->size;
}

bool guest_do_work(struct guest *guest, uint8_t *(*make)(void *context, size_t *size),
                   void *context)
{
    bool complete = false;

    if (guest->answer != NULL)
        return guest_speak(guest);
    if (!guest_listen(guest, &complete))
        return false;
    if (!complete)
        return true;
    if (!card_question_is(guest->question))
        return false;
    guest->answer = make(context, &guest->size);
    return guest->answer != NULL;
}

void guest_close(struct guest *guest)
{
    close(guest->fd);
    free(guest->answer);
    *guest = (struct guest){.fd = -1};
}
