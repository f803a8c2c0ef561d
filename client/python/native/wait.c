/* Sleeping on a channel until something arrived. */
#include <poll.h>
#include <time.h>

#include "native.h"

/* While one thread sleeps, others have the channel. But it is libtesup's wait that spins first,
 * which is faster where an answer is near: that much of it, under the lock. */
#define WAIT_SHORT_MS 1
/* Another thread's call may take the ring of the bell for which this one sleeps. */
#define SLEEP_MAX_MS 100

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Looks, and prepares to sleep: TESUP_OK when there is something, TESUP_AGAIN when the descriptor
 * *fd will tell, or an error. */
static int wait_look(struct channel_object *self, uint64_t taken, int ms, int *fd)
{
    int rc = channel_enter(self);

    if (rc != TESUP_OK)
        return rc;
    /* Another thread has taken something since: it may be what this one would wait for in vain. */
    if (self->taken != taken) {
        channel_leave(self);
        return TESUP_OK;
    }
    rc = tesup_wait(self->channel, ms);
    if (rc == TESUP_ERR_TIMEOUT) {
        rc = tesup_arm(self->channel);
        if (rc >= 0)
            rc = rc == TESUP_AGAIN ? TESUP_OK : TESUP_AGAIN;
        *fd = tesup_fd(self->channel);
    }
    channel_leave(self);
    return rc;
}

static int wait_round(struct channel_object *self, uint64_t taken, int64_t left)
{
    struct pollfd sleeper = {.fd = -1, .events = POLLIN};
    int rc = wait_look(self, taken, left < WAIT_SHORT_MS ? (int)left : WAIT_SHORT_MS, &sleeper.fd);

    if (rc == TESUP_AGAIN && left > WAIT_SHORT_MS)
        poll(&sleeper, 1, left < SLEEP_MAX_MS ? (int)left : SLEEP_MAX_MS);
    return rc;
}

PyObject *channel_taken(PyObject *object, PyObject *unused)
{
    struct channel_object *self = (struct channel_object *)object;
    uint64_t taken = 0;
    int rc;

    (void)unused;
    PyThreadState *thread = PyEval_SaveThread();
    rc = channel_enter(self);
    if (rc == TESUP_OK) {
        taken = self->taken;
        channel_leave(self);
    }
    PyEval_RestoreThread(thread);
    return rc != TESUP_OK ? error_raise(rc) : PyLong_FromUnsignedLongLong(taken);
}

PyObject *channel_wait(PyObject *object, PyObject *arguments)
{
    struct channel_object *self = (struct channel_object *)object;
    int64_t left, until = INT64_MAX;
    unsigned long long taken;
    int ms, rc;

    if (!PyArg_ParseTuple(arguments, "iK:wait", &ms, &taken))
        return NULL;
    if (ms >= 0)
        until = now_ms() + ms;
    for (;;) {
        PyThreadState *thread = PyEval_SaveThread();
        left = until == INT64_MAX ? SLEEP_MAX_MS : until - now_ms();
        rc = wait_round(self, taken, left > 0 ? left : 0);
        PyEval_RestoreThread(thread);
        if (rc != TESUP_AGAIN)
            break;
        if (PyErr_CheckSignals() < 0)
            return NULL;
        if (until != INT64_MAX && now_ms() >= until)
            return PyBool_FromLong(0);
    }
    if (rc != TESUP_OK)
        return error_raise(rc);
    return PyBool_FromLong(1);
}

PyObject *channel_arm(PyObject *object, PyObject *unused)
{
    struct channel_object *self = (struct channel_object *)object;
    int rc;

    (void)unused;
    PyThreadState *thread = PyEval_SaveThread();
    rc = channel_enter(self);
    if (rc == TESUP_OK) {
        rc = tesup_arm(self->channel);
        channel_leave(self);
    }
    PyEval_RestoreThread(thread);
    if (rc != TESUP_OK && rc != TESUP_AGAIN)
        return error_raise(rc);
    return PyBool_FromLong(rc == TESUP_OK);
}

PyObject *channel_fileno(PyObject *object, PyObject *unused)
{
    struct channel_object *self = (struct channel_object *)object;
    int rc;

    (void)unused;
    PyThreadState *thread = PyEval_SaveThread();
    rc = channel_enter(self);
    if (rc == TESUP_OK) {
        rc = tesup_fd(self->channel);
        channel_leave(self);
    }
    PyEval_RestoreThread(thread);
    return rc < 0 ? error_raise(rc) : PyLong_FromLong(rc);
}
