/* Threads beside the loop, for what would make it wait. */
#ifndef TESUP_WORKER_THREAD_H
#define TESUP_WORKER_THREAD_H

#include <pthread.h>

/* As pthread_create(3), `attributes` NULL for the usual ones; the thread is born with all signals
 * blocked, as they are the loop's. 0 or -1. */
int thread_spawn(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                 void *argument);

#endif
