/* Channel: one set of rings, for one thread at a time. */
#include "native.h"

int channel_enter(struct channel_object *self)
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

void channel_leave(struct channel_object *self)
{
    pthread_mutex_unlock(&self->lock);
    session_leave(self->session);
}

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
    {"taken", channel_taken, METH_NOARGS,
     "taken($self, /)\n--\n\nHow much was taken so far, for wait()."},
    {"wait", channel_wait, METH_VARARGS,
     "wait($self, ms, taken, /)\n--\n\nTrue when something is there, or was taken since taken();\n"
     "False after ms; -1: for ever."},
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
