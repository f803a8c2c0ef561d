#include "shm/doorbell.h"

#include <errno.h>
#include <unistd.h>

void doorbell_signal(int fd)
{
    uint64_t one = 1;

    /* EAGAIN means the counter is at its maximum: the sleeper is woken in any case. */
    while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

void doorbell_drain(int fd)
{
    uint64_t count;

    while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
}
