/* The engine's object: its name, its segments, its memory and its notifications. */
#include "engine.h"

#include <stdlib.h>

#define NAME_BYTES 256

uint64_t *numbers_take(PyObject *sequence, Py_ssize_t *count)
{
    uint64_t *numbers;

    if (!PyTuple_Check(sequence)) {
        PyErr_SetString(PyExc_TypeError, "a tuple of ints is needed");
        return NULL;
    }
    *count = PyTuple_Size(sequence);
    numbers = calloc((size_t)*count + 1, sizeof(*numbers));
    if (numbers == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < *count; i++) {
        numbers[i] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(sequence, i));
        if (numbers[i] == (uint64_t)-1 && PyErr_Occurred()) {
            free(numbers);
            return NULL;
        }
    }
    return numbers;
}

static PyObject *engine_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    const struct library *library;
    struct engine_object *self;
    const char *metadata, *server;
    transfer_engine_t handle;

    (void)keywords;
    if (!PyArg_ParseTuple(arguments, "ss:Engine", &metadata, &server))
        return NULL;
    library = library_load();
    if (library == NULL)
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    handle = library->create(metadata, server, "", 0, 1);
    PyEval_RestoreThread(thread);
    if (handle == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "no engine; standard error has the reason");
        return NULL;
    }
    self = (struct engine_object *)allocate(type, 0);
    if (self == NULL) {
        library->destroy(handle);
        return NULL;
    }
    self->library = library;
    self->handle = handle;
    return (PyObject *)self;
}

static void engine_end(struct engine_object *self)
{
    transfer_engine_t handle = self->handle;

    self->handle = NULL;
    if (handle == NULL)
        return;
    PyThreadState *thread = PyEval_SaveThread();
    self->library->destroy(handle);
    PyEval_RestoreThread(thread);
}

static PyObject *engine_close(PyObject *object, PyObject *unused)
{
    (void)unused;
    engine_end((struct engine_object *)object);
    return Py_BuildValue("");
}

static void engine_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    engine_end((struct engine_object *)object);
    release(object);
    Py_DECREF((PyObject *)type);
}

static PyObject *engine_name(PyObject *object, PyObject *unused)
{
    const struct engine_object *self = (struct engine_object *)object;
    char name[NAME_BYTES] = "";

    (void)unused;
    PyThreadState *thread = PyEval_SaveThread();
    self->library->name(self->handle, name, sizeof(name));
    PyEval_RestoreThread(thread);
    return PyUnicode_FromString(name);
}

static PyObject *engine_install(PyObject *object, PyObject *arguments)
{
    const struct engine_object *self = (struct engine_object *)object;
    const char *protocol;
    transport_t transport;

    if (!PyArg_ParseTuple(arguments, "s:install", &protocol))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    transport = self->library->install(self->handle, protocol, NULL);
    PyEval_RestoreThread(thread);
    return PyBool_FromLong(transport != NULL);
}

static PyObject *engine_open(PyObject *object, PyObject *arguments)
{
    const struct engine_object *self = (struct engine_object *)object;
    const char *name;
    int again;
    segment_id_t segment;

    if (!PyArg_ParseTuple(arguments, "sp:open", &name, &again))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    segment = again ? self->library->open_again(self->handle, name)
                    : self->library->open(self->handle, name);
    PyEval_RestoreThread(thread);
    return PyLong_FromLong(segment);
}

static buffer_entry_t *buffers_make(const uint64_t *addresses, const uint64_t *lengths,
                                    Py_ssize_t count)
{
    buffer_entry_t *buffers = calloc((size_t)count + 1, sizeof(*buffers));

    for (Py_ssize_t i = 0; buffers != NULL && i < count; i++)
        buffers[i] =
            (buffer_entry_t){.addr = (void *)(uintptr_t)addresses[i], .length = lengths[i]};
    return buffers;
}

static int memory_add(const struct engine_object *self, const uint64_t *addresses,
                      const uint64_t *lengths, Py_ssize_t count, const char *location)
{
    buffer_entry_t *buffers = buffers_make(addresses, lengths, count);
    int code = -TRANSFER_ENGINE_MEMORY;

    if (buffers != NULL)
        code = self->library->add(self->handle, buffers, (size_t)count, location);
    free(buffers);
    return code;
}

static PyObject *engine_register(PyObject *object, PyObject *arguments)
{
    const struct engine_object *self = (struct engine_object *)object;
    Py_ssize_t count = 0, length_count = 0;
    PyObject *first, *second, *result = NULL;
    uint64_t *addresses, *lengths;
    const char *location;
    int code = -TRANSFER_ENGINE_INVALID_ARGUMENT;

    if (!PyArg_ParseTuple(arguments, "OOs:register", &first, &second, &location))
        return NULL;
    addresses = numbers_take(first, &count);
    if (addresses == NULL)
        return NULL;
    lengths = numbers_take(second, &length_count);
    if (lengths == NULL)
        goto err_free;
    PyThreadState *thread = PyEval_SaveThread();
    if (count == length_count)
        code = memory_add(self, addresses, lengths, count, location);
    PyEval_RestoreThread(thread);
    result = PyLong_FromLong(code);
    free(lengths);
err_free:
    free(addresses);
    return result;
}

static PyObject *engine_unregister(PyObject *object, PyObject *addresses)
{
    const struct engine_object *self = (struct engine_object *)object;
    Py_ssize_t count = 0;
    uint64_t *numbers = numbers_take(addresses, &count);
    int code;

    _Static_assert(sizeof(void *) == sizeof(uint64_t), "a list of numbers is one of addresses");
    if (numbers == NULL)
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    code = self->library->drop(self->handle, (void **)(void *)numbers, (size_t)count);
    PyEval_RestoreThread(thread);
    free(numbers);
    return PyLong_FromLong(code);
}

static PyObject *notifications_list(const notify_msg_t *messages, int count)
{
    PyObject *list = PyList_New(count);

    for (int i = 0; list != NULL && i < count; i++) {
        PyObject *item = Py_BuildValue("(yy)", messages[i].name, messages[i].msg);

        if (item == NULL || PyList_SetItem(list, i, item) < 0) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

static PyObject *engine_notifications(PyObject *object, PyObject *unused)
{
    const struct engine_object *self = (struct engine_object *)object;
    notify_msg_t *messages;
    PyObject *list;
    int count = 0;

    (void)unused;
    PyThreadState *thread = PyEval_SaveThread();
    messages = self->library->notifications(self->handle, &count);
    PyEval_RestoreThread(thread);
    list = notifications_list(messages, count);
    self->library->notifications_free(messages, count);
    return list;
}

static PyMethodDef engine_methods[] = {
    {"close", engine_close, METH_NOARGS, "close($self, /)\n--\n\nDestroy it; twice is fine."},
    {"name", engine_name, METH_NOARGS, "name($self, /)\n--\n\nip:port of this engine."},
    {"install", engine_install, METH_VARARGS,
     "install($self, protocol, /)\n--\n\nIs the protocol known?"},
    {"open", engine_open, METH_VARARGS,
     "open($self, name, again, /)\n--\n\nThe segment's number, or -1; again: ask the peer anew."},
    {"register", engine_register, METH_VARARGS,
     "register($self, addresses, lengths, location, /)\n--\n\n0, or a negative code."},
    {"unregister", engine_unregister, METH_O,
     "unregister($self, addresses, /)\n--\n\n0, or a negative code."},
    {"notifications", engine_notifications, METH_NOARGS,
     "notifications($self, /)\n--\n\n[(name, msg)] that arrived since the last call."},
    {"submit", engine_submit, METH_VARARGS,
     "submit($self, segment, opcode, buffers, peers, lengths, name=, msg=, /)\n--\n\n"
     "The batch; None when it was refused. name, msg: of a notification."},
    {"status", engine_status, METH_VARARGS,
     "status($self, batch, count, /)\n--\n\n1 done, 0 under way, -1 failed, -2 timed out."},
    {"wait", engine_wait, METH_VARARGS,
     "wait($self, batch, count, ms, /)\n--\n\nAs status() is in the end, or -2 after ms."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot engine_slots[] = {
    {Py_tp_doc, (char *)"Engine(metadata, server)\n--\n\nAn engine of libtransfer_engine.so."},
    {Py_tp_new, engine_new},
    {Py_tp_dealloc, engine_dealloc},
    {Py_tp_methods, engine_methods},
    {0, NULL},
};

static PyType_Spec engine_spec = {
    .name = "tesup._engine.Engine",
    .basicsize = (int)sizeof(struct engine_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = engine_slots,
};

static PyMethodDef module_methods[] = {
    {"memory_read", memory_read, METH_VARARGS,
     "memory_read(address, length, /)\n--\n\nBytes of this process; ValueError if unmapped."},
    {"memory_write", memory_write, METH_VARARGS,
     "memory_write(address, data, /)\n--\n\nStore bytes; ValueError if it is not writable."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, .m_name = "tesup._engine",   .m_doc = "The C half of tesup.mooncake.",
    .m_size = -1,          .m_methods = module_methods,
};

PyMODINIT_FUNC PyInit__engine(void);
PyMODINIT_FUNC PyInit__engine(void)
{
    PyObject *module = PyModule_Create(&module_definition);
    PyObject *type;

    if (module == NULL)
        return NULL;
    type = PyType_FromSpec(&engine_spec);
    if (type == NULL || PyModule_AddObject(module, "Engine", type) < 0) {
        Py_XDECREF(type);
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
