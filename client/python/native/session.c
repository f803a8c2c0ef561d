/* Session: one attachment, and who may be inside libtesup with it. */
#include <string.h>

#include "native.h"

int session_enter(struct session_object *self)
{
    int rc = TESUP_OK;

    if (self->forks != native_forks())
        return ENTER_FORKED;
    pthread_mutex_lock(&self->lock);
    if (self->closed)
        rc = ENTER_SESSION_CLOSED;
    else
        self->users++;
    pthread_mutex_unlock(&self->lock);
    return rc;
}

void session_leave(struct session_object *self)
{
    pthread_mutex_lock(&self->lock);
    if (--self->users == 0)
        pthread_cond_broadcast(&self->idle);
    pthread_mutex_unlock(&self->lock);
}

/* In a child: frees what is the child's, unless a thread of the parent was inside at fork() and
 * left the library's state half changed. */
static void session_end_forked(struct session_object *self)
{
    if (!self->closed && self->users == 0)
        tesup_detach(self->session);
    self->closed = true;
}

static void session_end(struct session_object *self)
{
    bool first;

    if (self->forks != native_forks()) {
        session_end_forked(self);
        return;
    }
    pthread_mutex_lock(&self->lock);
    first = !self->closed;
    self->closed = true;
    while (self->users > 0)
        pthread_cond_wait(&self->idle, &self->lock);
    pthread_mutex_unlock(&self->lock);
    if (first)
        tesup_detach(self->session);
}

static PyObject *session_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static const char *const names[] = {"socket",     "segment", "pair", "slots",
                                        "timeout_ms", "flags",   NULL};
    struct tesup_options options = {0};
    struct tesup_session *session = NULL;
    struct session_object *self;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    int rc;

    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|zzzO&O&O&:Session", (char **)names,
                                     &options.socket, &options.segment, &options.pair, u32_convert,
                                     &options.slots, u32_convert, &options.timeout_ms, u32_convert,
                                     &options.flags))
        return NULL;
    self = (struct session_object *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    rc = tesup_attach(&options, &session);
    PyEval_RestoreThread(thread);
    if (rc != TESUP_OK) {
        error_raise(rc);
        Py_DECREF(self);
        return NULL;
    }
    self->session = session;
    self->forks = native_forks();
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->idle, NULL);
    self->ready = true;
    return (PyObject *)self;
}

static void session_dealloc(PyObject *object)
{
    struct session_object *self = (struct session_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    if (self->ready) {
        PyThreadState *thread = PyEval_SaveThread();
        session_end(self);
        PyEval_RestoreThread(thread);
        if (self->forks == native_forks()) {
            pthread_cond_destroy(&self->idle);
            pthread_mutex_destroy(&self->lock);
        }
    }
    release(object);
    Py_DECREF((PyObject *)type);
}

static PyObject *session_close(PyObject *object, PyObject *unused)
{
    (void)unused;
    PyThreadState *thread = PyEval_SaveThread();
    session_end((struct session_object *)object);
    PyEval_RestoreThread(thread);
    return Py_BuildValue("");
}

static PyObject *session_closed(PyObject *object, void *unused)
{
    struct session_object *self = (struct session_object *)object;
    int rc;

    (void)unused;
    PyThreadState *thread = PyEval_SaveThread();
    rc = session_enter(self);
    if (rc == TESUP_OK)
        session_leave(self);
    PyEval_RestoreThread(thread);
    return PyBool_FromLong(rc != TESUP_OK);
}

static PyObject *session_name(PyObject *object, void *unused)
{
    struct session_object *self = (struct session_object *)object;
    const char *name;
    char copy[512];
    int rc;

    (void)unused;
    PyThreadState *thread = PyEval_SaveThread();
    rc = session_enter(self);
    if (rc == TESUP_OK) {
        name = tesup_segment_name(self->session);
        strncpy(copy, name, sizeof(copy) - 1);
        copy[sizeof(copy) - 1] = '\0';
        session_leave(self);
    }
    PyEval_RestoreThread(thread);
    return rc != TESUP_OK ? error_raise(rc) : PyUnicode_FromString(copy);
}

static PyObject *session_notify_max(PyObject *object, void *unused)
{
    struct session_object *self = (struct session_object *)object;
    uint32_t most = 0;
    int rc;

    (void)unused;
    PyThreadState *thread = PyEval_SaveThread();
    rc = session_enter(self);
    if (rc == TESUP_OK) {
        most = tesup_notify_max(self->session);
        session_leave(self);
    }
    PyEval_RestoreThread(thread);
    return rc != TESUP_OK ? error_raise(rc) : PyLong_FromUnsignedLong(most);
}

static PyObject *session_remote_open(PyObject *object, PyObject *arguments)
{
    struct session_object *self = (struct session_object *)object;
    const char *name;
    tesup_remote_t remote = 0;
    int rc;

    if (!PyArg_ParseTuple(arguments, "s:remote_open", &name))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    rc = session_enter(self);
    if (rc == TESUP_OK) {
        rc = tesup_segment_open(self->session, name, &remote);
        session_leave(self);
    }
    PyEval_RestoreThread(thread);
    return rc != TESUP_OK ? error_raise(rc) : PyLong_FromUnsignedLong(remote);
}

/* Of a remote or an event: both are numbers of one kind. */
static PyObject *handle_call(PyObject *object, PyObject *arguments,
                             int (*call)(struct tesup_session *, uint32_t))
{
    struct session_object *self = (struct session_object *)object;
    uint32_t handle;
    int rc;

    if (!PyArg_ParseTuple(arguments, "O&", u32_convert, &handle))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    rc = session_enter(self);
    if (rc == TESUP_OK) {
        rc = call(self->session, handle);
        session_leave(self);
    }
    PyEval_RestoreThread(thread);
    if (rc == TESUP_AGAIN)
        return error_raise_text(rc, "requests to this segment are in flight; take their "
                                    "completions, then close it");
    if (rc != TESUP_OK)
        return error_raise(rc);
    return Py_BuildValue("");
}

static PyObject *session_remote_close(PyObject *object, PyObject *arguments)
{
    return handle_call(object, arguments, tesup_segment_close);
}

static PyObject *session_remote_watch(PyObject *object, PyObject *arguments)
{
    return handle_call(object, arguments, tesup_segment_watch);
}

static PyObject *session_event_register(PyObject *object, PyObject *arguments)
{
    struct session_object *self = (struct session_object *)object;
    tesup_region_t handle = 0;
    uint64_t event;
    int rc;

    if (!PyArg_ParseTuple(arguments, "O&:event_register", u64_convert, &event))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    rc = session_enter(self);
    if (rc == TESUP_OK) {
        rc = tesup_event_register_gpu(self->session, (void *)(uintptr_t)event, &handle);
        session_leave(self);
    }
    PyEval_RestoreThread(thread);
    return rc != TESUP_OK ? error_raise(rc) : PyLong_FromUnsignedLong(handle);
}

static PyObject *session_event_unregister(PyObject *object, PyObject *arguments)
{
    return handle_call(object, arguments, tesup_mem_unregister);
}

static PyMethodDef session_methods[] = {
    {"close", session_close, METH_NOARGS,
     "close($self, /)\n--\n\nDetach; waits for calls of other threads. Closing twice is fine."},
    {"event_register", session_event_register, METH_VARARGS,
     "event_register($self, event, /)\n--\n\nThe handle of a CUevent, given by its address."},
    {"event_unregister", session_event_unregister, METH_VARARGS,
     "event_unregister($self, handle, /)\n--\n\nEnd a handle of event_register()."},
    {"remote_open", session_remote_open, METH_VARARGS,
     "remote_open($self, name, /)\n--\n\nThe handle of another process's segment."},
    {"remote_close", session_remote_close, METH_VARARGS,
     "remote_close($self, remote, /)\n--\n\nClose the handle of remote_open()."},
    {"remote_watch", session_remote_watch, METH_VARARGS,
     "remote_watch($self, remote, /)\n--\n\nOne notification of kind EVENT when it is gone."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef session_attributes[] = {
    {"closed", session_closed, NULL, "Closed, or inherited by a child of fork().", NULL},
    {"name", session_name, NULL, "HOST:PORT/SEGMENT of this process.", NULL},
    {"notify_max", session_notify_max, NULL, "Largest name + message in bytes.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot session_slots[] = {
    {Py_tp_doc, (char *)"One attachment of this process to the supervisor of its host."},
    {Py_tp_new, session_new},
    {Py_tp_dealloc, session_dealloc},
    {Py_tp_methods, session_methods},
    {Py_tp_getset, session_attributes},
    {0, NULL},
};

PyType_Spec session_spec = {
    .name = "tesup._native.Session",
    .basicsize = (int)sizeof(struct session_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = session_slots,
};
