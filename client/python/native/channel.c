/* Channel: submitting, taking completions and notifications, and sleeping until there are some. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "native.h"

#define POLL_MAX   256
#define SUBMIT_MAX 4096
/* While one thread sleeps, others have the channel. But it is libtesup's wait that spins first,
 * which is faster where an answer is near: that much of it, under the lock. */
#define WAIT_SHORT_MS 1
/* Another thread's call may take the ring of the bell for which this one sleeps. */
#define SLEEP_MAX_MS 100

struct channel_object {
    PyObject_HEAD struct session_object *session;
    struct tesup_channel *channel;
    bool main;
    bool ready; /* lock exists */
    pthread_mutex_t lock;
    bool closed; /* under lock */
};

/* Without the GIL. TESUP_OK: the channel is this thread's until channel_leave. */
static int channel_enter(struct channel_object *self)
{
    int rc = session_enter(self->session);

    if (rc != TESUP_OK)
        return rc;
    pthread_mutex_lock(&self->lock);
    if (!self->closed)
        return TESUP_OK;
    pthread_mutex_unlock(&self->lock);
    session_leave(self->session);
    return ENTER_CHANNEL_CLOSED;
}

static void channel_leave(struct channel_object *self)
{
    pthread_mutex_unlock(&self->lock);
    session_leave(self->session);
}

/* ---- the object ---- */

static int channel_open(struct channel_object *self)
{
    int rc = session_enter(self->session);

    if (rc != TESUP_OK)
        return rc;
    if (self->main)
        self->channel = tesup_channel_main(self->session->session);
    else
        rc = tesup_channel_open(self->session->session, &self->channel);
    session_leave(self->session);
    return rc;
}

static PyObject *channel_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static const char *const names[] = {"session", "main", NULL};
    struct channel_object *self;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *session;
    int main_one, rc;

    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!p:Channel", (char **)names,
                                     session_type, &session, &main_one))
        return NULL;
    self = (struct channel_object *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    Py_INCREF(session);
    self->session = (struct session_object *)session;
    self->main = main_one != 0;
    PyThreadState *thread = PyEval_SaveThread();
    rc = channel_open(self);
    PyEval_RestoreThread(thread);
    if (rc != TESUP_OK) {
        error_raise(rc);
        Py_DECREF(self);
        return NULL;
    }
    pthread_mutex_init(&self->lock, NULL);
    self->ready = true;
    return (PyObject *)self;
}

static void channel_end(struct channel_object *self)
{
    if (channel_enter(self) != TESUP_OK)
        return;
    self->closed = true;
    if (!self->main)
        tesup_channel_close(self->channel);
    channel_leave(self);
}

static PyObject *channel_close(PyObject *object, PyObject *unused)
{
    (void)unused;
    PyThreadState *thread = PyEval_SaveThread();
    channel_end((struct channel_object *)object);
    PyEval_RestoreThread(thread);
    return Py_BuildValue("");
}

static void channel_dealloc(PyObject *object)
{
    struct channel_object *self = (struct channel_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    if (self->ready) {
        PyThreadState *thread = PyEval_SaveThread();
        channel_end(self);
        PyEval_RestoreThread(thread);
        if (self->session->forks == native_forks())
            pthread_mutex_destroy(&self->lock);
    }
    Py_XDECREF((PyObject *)self->session);
    release(object);
    Py_DECREF((PyObject *)type);
}

/* ---- submitting ---- */

/* (op, flags, cookie, remote, local_region, local_offset, remote_region, deadline_ms,
 * remote_offset, length, name, msg); name and msg are bytes, and the tuple keeps them alive. */
static int request_fill(PyObject *work, struct tesup_request *request)
{
    PyObject *name, *msg;
    Py_ssize_t name_length, msg_length;
    char *bytes;

    if (!PyTuple_Check(work)) {
        PyErr_SetString(PyExc_TypeError, "a request is a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(work, "O&O&O&O&O&O&O&O&O&O&SS:request", u32_convert, &request->op,
                          u32_convert, &request->flags, u64_convert, &request->cookie, u32_convert,
                          &request->remote, u32_convert, &request->local_region, u64_convert,
                          &request->local_offset, u32_convert, &request->remote_region, u32_convert,
                          &request->deadline_ms, u64_convert, &request->remote_offset, u64_convert,
                          &request->length, &name, &msg))
        return -1;
    if (PyBytes_AsStringAndSize(name, &bytes, &name_length) < 0)
        return -1;
    request->name = name_length > 0 ? bytes : NULL;
    if (PyBytes_AsStringAndSize(msg, &bytes, &msg_length) < 0)
        return -1;
    request->msg = msg_length > 0 ? bytes : NULL;
    if (name_length > UINT32_MAX || msg_length > UINT32_MAX) {
        error_raise_text(TESUP_ERR_TOO_LONG, "a notification of 4 GiB is longer than is allowed");
        return -1;
    }
    request->name_len = (uint32_t)name_length;
    request->msg_len = (uint32_t)msg_length;
    return 0;
}

static struct tesup_request *requests_fill(PyObject *works, uint32_t count)
{
    struct tesup_request *requests = calloc(count > 0 ? count : 1, sizeof(*requests));

    if (requests == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (request_fill(PyTuple_GetItem(works, (Py_ssize_t)i), &requests[i]) < 0) {
            free(requests);
            return NULL;
        }
    }
    return requests;
}

/* ([ticket of each accepted one], exception of the first that was not, or None) */
static PyObject *submit_result(const uint64_t *tickets, uint32_t accepted, int rc)
{
    PyObject *list = PyList_New((Py_ssize_t)accepted);
    PyObject *error = NULL;

    for (uint32_t i = 0; list != NULL && i < accepted; i++) {
        PyObject *ticket = PyLong_FromUnsignedLongLong(tickets[i]);

        if (ticket == NULL || PyList_SetItem(list, (Py_ssize_t)i, ticket) < 0) {
            Py_DECREF(list);
            return NULL;
        }
    }
    if (list != NULL && rc != TESUP_OK) {
        error = error_make(rc);
        if (error == NULL) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list == NULL ? NULL : Py_BuildValue("(NN)", list, error ? error : Py_BuildValue(""));
}

static PyObject *channel_submit(PyObject *object, PyObject *works)
{
    struct channel_object *self = (struct channel_object *)object;
    struct tesup_request *requests;
    PyObject *result = NULL;
    uint64_t *tickets;
    uint32_t accepted = 0;
    int rc;

    if (!PyTuple_Check(works) || PyTuple_Size(works) > SUBMIT_MAX)
        return PyErr_Format(PyExc_TypeError, "a tuple of at most %d requests is needed",
                            SUBMIT_MAX);
    uint32_t count = (uint32_t)PyTuple_Size(works);
    requests = requests_fill(works, count);
    if (requests == NULL)
        return NULL;
    tickets = calloc(count > 0 ? count : 1, sizeof(*tickets));
    if (tickets == NULL) {
        PyErr_NoMemory();
        goto err_free;
    }
    PyThreadState *thread = PyEval_SaveThread();
    rc = channel_enter(self);
    if (rc == TESUP_OK) {
        rc = tesup_submit(self->channel, requests, count, tickets, &accepted);
        channel_leave(self);
    }
    PyEval_RestoreThread(thread);
    result = submit_result(tickets, accepted, rc);
    free(tickets);
err_free:
    free(requests);
    return result;
}

static PyObject *channel_cancel(PyObject *object, PyObject *arguments)
{
    struct channel_object *self = (struct channel_object *)object;
    uint64_t ticket;
    int rc;

    if (!PyArg_ParseTuple(arguments, "O&:cancel", u64_convert, &ticket))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    rc = channel_enter(self);
    if (rc == TESUP_OK) {
        rc = tesup_cancel(self->channel, ticket);
        channel_leave(self);
    }
    PyEval_RestoreThread(thread);
    if (rc != TESUP_OK)
        return error_raise(rc);
    return Py_BuildValue("");
}

/* ---- what arrived ---- */

static PyObject *completions_list(const struct tesup_completion *completions, int count)
{
    PyObject *list = PyList_New(count);

    for (int i = 0; list != NULL && i < count; i++) {
        const struct tesup_completion *done = &completions[i];
        PyObject *item = Py_BuildValue(
            "(KKKiI)", (unsigned long long)done->cookie, (unsigned long long)done->ticket,
            (unsigned long long)done->bytes, (int)done->status, (unsigned int)done->op);

        if (item == NULL || PyList_SetItem(list, i, item) < 0) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

static PyObject *channel_poll(PyObject *object, PyObject *unused)
{
    struct channel_object *self = (struct channel_object *)object;
    struct tesup_completion completions[POLL_MAX];
    int count = 0, rc;

    (void)unused;
    PyThreadState *thread = PyEval_SaveThread();
    rc = channel_enter(self);
    if (rc == TESUP_OK) {
        count = tesup_poll(self->channel, completions, POLL_MAX);
        channel_leave(self);
    }
    PyEval_RestoreThread(thread);
    if (rc != TESUP_OK || count < 0)
        return error_raise(rc != TESUP_OK ? rc : count);
    return completions_list(completions, count);
}

/* Copies the next notification to memory of malloc() and makes room for others.
 * TESUP_OK, TESUP_AGAIN when there is none, or an error; note->from is the memory. */
static int notification_take(struct channel_object *self, struct tesup_notification *note)
{
    int rc = tesup_notify_peek(self->channel, note);
    size_t size;
    char *copy;

    if (rc != TESUP_OK)
        return rc;
    size = (size_t)note->from_len + note->name_len + note->msg_len;
    copy = malloc(size > 0 ? size : 1);
    if (copy == NULL)
        return TESUP_ERR_NO_MEMORY;
    if (note->from_len > 0)
        memcpy(copy, note->from, note->from_len);
    if (note->name_len > 0)
        memcpy(copy + note->from_len, note->name, note->name_len);
    if (note->msg_len > 0)
        memcpy(copy + note->from_len + note->name_len, note->msg, note->msg_len);
    note->from = copy;
    return tesup_notify_release(self->channel);
}

static PyObject *channel_take(PyObject *object, PyObject *unused)
{
    struct channel_object *self = (struct channel_object *)object;
    struct tesup_notification note = {0};
    PyObject *result;
    int rc;

    (void)unused;
    PyThreadState *thread = PyEval_SaveThread();
    rc = channel_enter(self);
    if (rc == TESUP_OK) {
        rc = notification_take(self, &note);
        channel_leave(self);
    }
    PyEval_RestoreThread(thread);
    if (rc == TESUP_AGAIN)
        return Py_BuildValue("");
    if (rc == TESUP_ERR_NO_MEMORY)
        return PyErr_NoMemory();
    if (rc != TESUP_OK)
        return error_raise(rc);
    result = Py_BuildValue(
        "(IiINy#y#K)", (unsigned int)note.kind, (int)note.status, (unsigned int)note.remote,
        text_decode(note.from, (Py_ssize_t)note.from_len), note.from + note.from_len,
        (Py_ssize_t)note.name_len, note.from + note.from_len + note.name_len,
        (Py_ssize_t)note.msg_len, (unsigned long long)note.bytes);
    free((char *)note.from);
    return result;
}

/* ---- sleeping ---- */

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Looks, and prepares to sleep: TESUP_OK when there is something, TESUP_AGAIN when the descriptor
 * *fd will tell, or an error. */
static int wait_look(struct channel_object *self, int ms, int *fd)
{
    int rc = channel_enter(self);

    if (rc != TESUP_OK)
        return rc;
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

static int wait_round(struct channel_object *self, int64_t left)
{
    struct pollfd sleeper = {.fd = -1, .events = POLLIN};
    int rc = wait_look(self, left < WAIT_SHORT_MS ? (int)left : WAIT_SHORT_MS, &sleeper.fd);

    if (rc == TESUP_AGAIN && left > WAIT_SHORT_MS)
        poll(&sleeper, 1, left < SLEEP_MAX_MS ? (int)left : SLEEP_MAX_MS);
    return rc;
}

static PyObject *channel_wait(PyObject *object, PyObject *arguments)
{
    struct channel_object *self = (struct channel_object *)object;
    int64_t left, until = INT64_MAX;
    int ms, rc;

    if (!PyArg_ParseTuple(arguments, "i:wait", &ms))
        return NULL;
    if (ms >= 0)
        until = now_ms() + ms;
    for (;;) {
        PyThreadState *thread = PyEval_SaveThread();
        left = until == INT64_MAX ? SLEEP_MAX_MS : until - now_ms();
        rc = wait_round(self, left > 0 ? left : 0);
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

static PyObject *channel_arm(PyObject *object, PyObject *unused)
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

static PyObject *channel_fileno(PyObject *object, PyObject *unused)
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

static PyMethodDef channel_methods[] = {
    {"close", channel_close, METH_NOARGS,
     "close($self, /)\n--\n\nGive up the requests in flight. Closing twice is fine."},
    {"submit", channel_submit, METH_O,
     "submit($self, requests, /)\n--\n\n([tickets of the accepted ones], exception or None)."},
    {"cancel", channel_cancel, METH_VARARGS,
     "cancel($self, ticket, /)\n--\n\nAsk to cancel; the completion says how it ended."},
    {"poll", channel_poll, METH_NOARGS,
     "poll($self, /)\n--\n\n[(cookie, ticket, bytes, status, op)], without waiting."},
    {"take", channel_take, METH_NOARGS,
     "take($self, /)\n--\n\n(kind, status, remote, sender, name, msg, bytes) or None."},
    {"wait", channel_wait, METH_VARARGS,
     "wait($self, ms, /)\n--\n\nTrue when something is there, False after ms; -1: for ever."},
    {"arm", channel_arm, METH_NOARGS,
     "arm($self, /)\n--\n\nTrue: sleep on fileno(). False: there is something already."},
    {"fileno", channel_fileno, METH_NOARGS,
     "fileno($self, /)\n--\n\nReadable when something is there and arm() was called before."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot channel_slots[] = {
    {Py_tp_doc, (char *)"Channel(session, main)\n--\n\n"
                        "One set of rings: the session's own, or one more."},
    {Py_tp_new, channel_new},
    {Py_tp_dealloc, channel_dealloc},
    {Py_tp_methods, channel_methods},
    {0, NULL},
};

PyType_Spec channel_spec = {
    .name = "tesup._native.Channel",
    .basicsize = (int)sizeof(struct channel_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = channel_slots,
};
