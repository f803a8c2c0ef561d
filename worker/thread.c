#include "worker/thread.h"

#include <signal.h>

int thread_spawn(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                 void *argument)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(thread, attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc == 0 ? 0 : -1;
}
