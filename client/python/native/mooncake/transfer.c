/* Transfers of an engine: batches that are submitted, looked at, and waited for. */
#include <stdlib.h>
#include <time.h>

#include "engine.h"

/* The ABI cannot wait, only ask. A short transfer ends while we spin; while we wait for a long one,
 * the CPU is for others. */
#define SPIN_NS  UINT64_C(200000)
#define PAUSE_NS 50000l

#define STATUS_DONE       1
#define STATUS_UNDER_WAY  0
#define STATUS_NOT_DONE   (-1)
#define STATUS_TIMED_OUT  (-2)
#define NANOSECONDS_PER_S UINT64_C(1000000000)

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NANOSECONDS_PER_S + (uint64_t)now.tv_nsec;
}

/* ---- submitting ---- */

static struct transfer_request *entries_make(int opcode, segment_id_t segment, uint64_t *columns[3],
                                             Py_ssize_t count)
{
    struct transfer_request *entries = calloc((size_t)count + 1, sizeof(*entries));

    for (Py_ssize_t i = 0; entries != NULL && i < count; i++)
        entries[i] = (struct transfer_request){.opcode = opcode,
                                               .source = (void *)(uintptr_t)columns[0][i],
                                               .target_id = segment,
                                               .target_offset = columns[1][i],
                                               .length = columns[2][i]};
    return entries;
}

/* INVALID_BATCH when it was refused; then nothing of it is under way. */
static batch_id_t batch_submit(const struct engine_object *self, struct transfer_request *entries,
                               Py_ssize_t count, const notify_msg_t *notify)
{
    const struct library *library = self->library;
    batch_id_t batch = library->batch_new(self->handle, (size_t)count);
    int code;

    if (batch == INVALID_BATCH)
        return batch;
    if (notify->name != NULL)
        code = library->submit_notify(self->handle, batch, entries, (size_t)count, *notify);
    else
        code = library->submit(self->handle, batch, entries, (size_t)count);
    if (code == 0)
        return batch;
    library->batch_free(self->handle, batch);
    return INVALID_BATCH;
}

/* Takes the three columns of numbers; all or none, with an exception. */
static int columns_take(PyObject *from[3], uint64_t *columns[3], Py_ssize_t *count)
{
    Py_ssize_t lengths[3] = {0};

    for (int i = 0; i < 3; i++)
        columns[i] = NULL;
    for (int i = 0; i < 3; i++) {
        columns[i] = numbers_take(from[i], &lengths[i]);
        if (columns[i] == NULL)
            goto err_free;
    }
    if (lengths[0] == lengths[1] && lengths[1] == lengths[2]) {
        *count = lengths[0];
        return 0;
    }
    PyErr_SetString(PyExc_ValueError, "buffers, peer addresses and lengths are not as many");
err_free:
    for (int i = 0; i < 3; i++)
        free(columns[i]);
    return -1;
}

PyObject *engine_submit(PyObject *object, PyObject *arguments)
{
    const struct engine_object *self = (struct engine_object *)object;
    struct transfer_request *entries;
    PyObject *from[3];
    uint64_t *columns[3];
    notify_msg_t notify = {NULL, NULL};
    batch_id_t batch = INVALID_BATCH;
    Py_ssize_t count;
    int segment, opcode;

    if (!PyArg_ParseTuple(arguments, "iiOOO|yy:submit", &segment, &opcode, &from[0], &from[1],
                          &from[2], &notify.name, &notify.msg))
        return NULL;
    if (columns_take(from, columns, &count) < 0)
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    entries = entries_make(opcode, segment, columns, count);
    if (entries != NULL)
        batch = batch_submit(self, entries, count, &notify);
    free(entries);
    for (int i = 0; i < 3; i++)
        free(columns[i]);
    PyEval_RestoreThread(thread);
    return batch == INVALID_BATCH ? Py_BuildValue("") : PyLong_FromUnsignedLongLong(batch);
}

/* ---- how it ended ---- */

struct look {
    batch_id_t batch;
    size_t count, first; /* tasks before `first` have ended */
    int worst;           /* of those: STATUS_DONE or how they failed */
};

/* A failed task ends nothing: the memory of the others is in use until they have ended, too. */
static int batch_look(const struct engine_object *self, struct look *look)
{
    struct transfer_status status = {0};

    for (; look->first < look->count; look->first++) {
        if (self->library->status(self->handle, look->batch, look->first, &status) != 0)
            return STATUS_NOT_DONE;
        if (status.status == STATUS_WAITING || status.status == STATUS_PENDING)
            return STATUS_UNDER_WAY;
        if (status.status != STATUS_COMPLETED)
            look->worst = status.status == STATUS_TIMEOUT ? STATUS_TIMED_OUT : STATUS_NOT_DONE;
    }
    self->library->batch_free(self->handle, look->batch);
    return look->worst;
}

static int look_parse(PyObject *arguments, const char *format, struct look *look, int *ms)
{
    unsigned long long batch;
    Py_ssize_t count;

    if (!PyArg_ParseTuple(arguments, format, &batch, &count, ms))
        return -1;
    *look = (struct look){.batch = batch, .count = (size_t)count, .worst = STATUS_DONE};
    if (count >= 0)
        return 0;
    PyErr_SetString(PyExc_ValueError, "a batch has no negative number of tasks");
    return -1;
}

PyObject *engine_status(PyObject *object, PyObject *arguments)
{
    const struct engine_object *self = (struct engine_object *)object;
    struct look look;
    int status, none = 0;

    if (look_parse(arguments, "Kn|i:status", &look, &none) < 0)
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    status = batch_look(self, &look);
    PyEval_RestoreThread(thread);
    return PyLong_FromLong(status);
}

PyObject *engine_wait(PyObject *object, PyObject *arguments)
{
    const struct engine_object *self = (struct engine_object *)object;
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    uint64_t begin = now_ns(), now = begin;
    struct look look;
    int ms, status;

    if (look_parse(arguments, "Kni:wait", &look, &ms) < 0)
        return NULL;
    uint64_t limit = (uint64_t)(ms > 0 ? ms : 0) * (NANOSECONDS_PER_S / 1000);
    PyThreadState *thread = PyEval_SaveThread();
    while ((status = batch_look(self, &look)) == STATUS_UNDER_WAY && now - begin < limit) {
        if (now - begin > SPIN_NS)
            nanosleep(&pause, NULL);
        now = now_ns();
    }
    PyEval_RestoreThread(thread);
    return PyLong_FromLong(status == STATUS_UNDER_WAY ? STATUS_TIMED_OUT : status);
}
