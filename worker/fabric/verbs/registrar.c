#include "worker/fabric/verbs/registrar.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "shm/err.h"
#include "worker/fabric/verbs/mr.h"
#include "worker/thread.h"

/* `todo` and `done` are under the lock; a struct verbs_mr is the thread's while it is in neither.
 */
struct verbs_register {
    struct verbs_nic *nic;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct list todo, done; /* struct verbs_mr.work */
    bool stop;
    struct source source; /* rings when `done` has something */
};

static void *registrar_thread(void *argument)
{
    struct verbs_register *registrar = argument;
    const uint64_t one = 1;

    pthread_mutex_lock(&registrar->lock);
    while (!registrar->stop) {
        struct verbs_mr *mr;

        if (list_empty(&registrar->todo)) {
            pthread_cond_wait(&registrar->more, &registrar->lock);
            continue;
        }
        mr = list_entry(registrar->todo.next, struct verbs_mr, work);
        list_remove(&mr->work);
        pthread_mutex_unlock(&registrar->lock);
        verbs_mr_register(mr);
        pthread_mutex_lock(&registrar->lock);
        list_append(&registrar->done, &mr->work);
        (void)!write(registrar->source.fd, &one, sizeof(one)); /* the count cannot overflow */
    }
    pthread_mutex_unlock(&registrar->lock);
    return NULL;
}

static struct verbs_mr *registrar_take(struct verbs_register *registrar, struct list *from)
{
    struct verbs_mr *mr = NULL;

    pthread_mutex_lock(&registrar->lock);
    if (!list_empty(from)) {
        mr = list_entry(from->next, struct verbs_mr, work);
        list_remove(&mr->work);
    }
    pthread_mutex_unlock(&registrar->lock);
    return mr;
}

static void registrar_on_done(struct source *source, uint32_t events)
{
    struct verbs_register *registrar = list_entry(source, struct verbs_register, source);
    struct verbs_mr *mr;
    uint64_t count;

    (void)events;
    (void)!read(source->fd, &count, sizeof(count));
    while ((mr = registrar_take(registrar, &registrar->done)) != NULL)
        verbs_mr_on_worked(mr);
}

/* Made when the first large region comes: most workers never need it. */
static int registrar_open(struct verbs_nic *nic)
{
    struct verbs_register *registrar = calloc(1, sizeof(*registrar));

    if (registrar == NULL)
        return TS_ERR_NO_MEMORY;
    registrar->nic = nic;
    list_init(&registrar->todo);
    list_init(&registrar->done);
    pthread_mutex_init(&registrar->lock, NULL);
    pthread_cond_init(&registrar->more, NULL);
    registrar->source =
        (struct source){.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), .ready = registrar_on_done};
    if (registrar->source.fd < 0)
        goto err_free;
    if (reactor_watch(&nic->worker->reactor, &registrar->source, EPOLLIN) < 0)
        goto err_close;
    if (thread_spawn(&registrar->thread, NULL, registrar_thread, registrar) < 0)
        goto err_watch;
    nic->registrar = registrar;
    return TS_OK;

err_watch:
    reactor_watch(&nic->worker->reactor, &registrar->source, 0);
err_close:
    close(registrar->source.fd);
err_free:
    pthread_cond_destroy(&registrar->more);
    pthread_mutex_destroy(&registrar->lock);
    free(registrar);
    return TS_ERR_SYSTEM;
}

int verbs_registrar_queue(struct verbs_nic *nic, struct verbs_mr *mr)
{
    int rc = nic->registrar == NULL ? registrar_open(nic) : TS_OK;

    if (rc != TS_OK)
        return rc;
    pthread_mutex_lock(&nic->registrar->lock);
    list_append(&nic->registrar->todo, &mr->work);
    pthread_cond_signal(&nic->registrar->more);
    pthread_mutex_unlock(&nic->registrar->lock);
    return TS_OK;
}

void verbs_registrar_close(struct verbs_nic *nic)
{
    struct verbs_register *registrar = nic->registrar;
    struct verbs_mr *mr;

    if (registrar == NULL)
        return;
    pthread_mutex_lock(&registrar->lock);
    registrar->stop = true;
    pthread_cond_signal(&registrar->more);
    pthread_mutex_unlock(&registrar->lock);
    pthread_join(registrar->thread, NULL); /* after the registration that runs */
    while ((mr = registrar_take(registrar, &registrar->done)) != NULL)
        verbs_mr_on_worked(mr);
    while ((mr = registrar_take(registrar, &registrar->todo)) != NULL) {
        mr->error = ECANCELED;
        verbs_mr_on_worked(mr);
    }
    reactor_watch(&nic->worker->reactor, &registrar->source, 0);
    close(registrar->source.fd);
    pthread_cond_destroy(&registrar->more);
    pthread_mutex_destroy(&registrar->lock);
    free(registrar);
    nic->registrar = NULL;
}
