/* tesup._native: what Python needs C for. The package's own classes are made of it. */
#include <string.h>

#include "native.h"

static PyObject *error_maker; /* tesup._errors.make(code, text) */
static _Atomic uint64_t forks;

PyTypeObject *session_type;

static void forks_count(void)
{
    forks++;
}

uint64_t native_forks(void)
{
    return forks;
}

PyObject *text_decode(const char *text, Py_ssize_t length)
{
    return PyUnicode_DecodeUTF8(text, length, "replace");
}

static PyObject *error_make_text(int code, const char *text)
{
    PyObject *sentence = text_decode(text, (Py_ssize_t)strlen(text));

    return sentence != NULL ? PyObject_CallFunction(error_maker, "iN", code, sentence) : NULL;
}

PyObject *error_make(int code)
{
    switch (code) {
    case ENTER_SESSION_CLOSED:
        return error_make_text(TESUP_ERR_GONE, "the session is closed; attach again");
    case ENTER_CHANNEL_CLOSED:
        return error_make_text(TESUP_ERR_GONE, "the channel is closed; open another one");
    case ENTER_FORKED:
        return error_make_text(TESUP_ERR_FORKED, "this session belongs to the parent process; a "
                                                 "child attaches on its own");
    default:
        return error_make_text(code, code == TESUP_AGAIN ? "there is no room now: take completions "
                                                           "(poll), then submit again"
                                                         : tesup_last_error());
    }
}

static PyObject *error_set(PyObject *error)
{
    if (error != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
        Py_DECREF(error);
    }
    return NULL;
}

PyObject *error_raise(int code)
{
    return error_set(error_make(code));
}

PyObject *error_raise_text(int code, const char *text)
{
    return error_set(error_make_text(code, text));
}

int u64_convert(PyObject *from, void *to)
{
    unsigned long long value;

    if (!PyLong_Check(from)) {
        PyErr_Format(PyExc_TypeError, "an int is needed, not %R", (PyObject *)Py_TYPE(from));
        return 0;
    }
    value = PyLong_AsUnsignedLongLong(from);
    if (value == (unsigned long long)-1 && PyErr_Occurred())
        return 0;
    *(uint64_t *)to = value;
    return 1;
}

int u32_convert(PyObject *from, void *to)
{
    uint64_t value;

    if (!u64_convert(from, &value))
        return 0;
    if (value > UINT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "an int of 32 bits is needed");
        return 0;
    }
    *(uint32_t *)to = (uint32_t)value;
    return 1;
}

static PyObject *module_strerror(PyObject *module, PyObject *arguments)
{
    int code;

    (void)module;
    if (!PyArg_ParseTuple(arguments, "i", &code))
        return NULL;
    return PyUnicode_FromString(tesup_strerror(code));
}

static PyMethodDef module_methods[] = {
    {"strerror", module_strerror, METH_VARARGS,
     "strerror(code, /)\n--\n\nA phrase for a status code."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "tesup._native",
    .m_doc = "The C half of tesup: sessions, memory and channels of libtesup.",
    .m_size = -1, /* libtesup's fork counter and ours are of the process */
    .m_methods = module_methods,
};

static int module_add_constants(PyObject *module)
{
    static const struct {
        const char *name;
        long value;
    } constants[] = {
        {"OK", TESUP_OK},
        {"AGAIN", TESUP_AGAIN},
        {"ERR_INVALID", TESUP_ERR_INVALID},
        {"ERR_DENIED", TESUP_ERR_DENIED},
        {"ERR_GONE", TESUP_ERR_GONE},
        {"ERR_NOT_FOUND", TESUP_ERR_NOT_FOUND},
        {"ERR_UNREACHABLE", TESUP_ERR_UNREACHABLE},
        {"ERR_TIMEOUT", TESUP_ERR_TIMEOUT},
        {"ERR_CANCELLED", TESUP_ERR_CANCELLED},
        {"ERR_UNCERTAIN", TESUP_ERR_UNCERTAIN},
        {"ERR_FAULT", TESUP_ERR_FAULT},
        {"ERR_LIMIT", TESUP_ERR_LIMIT},
        {"ERR_NO_MEMORY", TESUP_ERR_NO_MEMORY},
        {"ERR_NO_DAEMON", TESUP_ERR_NO_DAEMON},
        {"ERR_FORKED", TESUP_ERR_FORKED},
        {"ERR_VERSION", TESUP_ERR_VERSION},
        {"ERR_PROTOCOL", TESUP_ERR_PROTOCOL},
        {"ERR_EXISTS", TESUP_ERR_EXISTS},
        {"ERR_UNSUPPORTED", TESUP_ERR_UNSUPPORTED},
        {"ERR_TOO_LONG", TESUP_ERR_TOO_LONG},
        {"ERR_AUTH", TESUP_ERR_AUTH},
        {"ERR_SYSTEM", TESUP_ERR_SYSTEM},
        {"ERR_SKIPPED", TESUP_ERR_SKIPPED},
        {"LOCAL", TESUP_ACCESS_LOCAL},
        {"REMOTE_READ", TESUP_ACCESS_REMOTE_READ},
        {"REMOTE_WRITE", TESUP_ACCESS_REMOTE_WRITE},
        {"SHARE_UID", TESUP_SHARE_UID},
        {"SHARE_ALL", TESUP_SHARE_ALL},
        {"NOP", TESUP_OP_NOP},
        {"READ", TESUP_OP_READ},
        {"WRITE", TESUP_OP_WRITE},
        {"NOTIFY", TESUP_OP_NOTIFY},
        {"WAIT", TESUP_OP_WAIT},
        {"FLAG_ALWAYS", TESUP_NOTIFY_ALWAYS},
        {"FLAG_ADDRESS", TESUP_REMOTE_ADDR},
        {"FLAG_MORE", TESUP_MORE},
        {"FLAG_AFTER", TESUP_AFTER},
        {"MESSAGE", TESUP_NOTIFICATION_MESSAGE},
        {"EVENT", TESUP_NOTIFICATION_EVENT},
        {"NOTIFY_MAX", (long)TESUP_NOTIFY_MAX},
    };

    for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++)
        if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value) < 0)
            return -1;
    return 0;
}

/* Adds the type; what it returns is borrowed from the module. */
static PyTypeObject *module_add_type(PyObject *module, PyType_Spec *spec, const char *name)
{
    PyObject *type = PyType_FromSpec(spec);

    if (type == NULL || PyModule_AddObject(module, name, type) < 0) {
        Py_XDECREF(type);
        return NULL;
    }
    return (PyTypeObject *)type;
}

static int module_fill(PyObject *module)
{
    PyObject *errors = PyImport_ImportModule("tesup._errors");

    if (errors == NULL)
        return -1;
    error_maker = PyObject_GetAttrString(errors, "make");
    Py_DECREF(errors);
    if (error_maker == NULL)
        return -1;
    session_type = module_add_type(module, &session_spec, "Session");
    if (session_type == NULL || module_add_type(module, &memory_spec, "Memory") == NULL ||
        module_add_type(module, &channel_spec, "Channel") == NULL)
        return -1;
    /* Kept for good: the other types check against it after the module's dictionary is gone. */
    Py_INCREF((PyObject *)session_type);
    return module_add_constants(module);
}

PyMODINIT_FUNC PyInit__native(void);
PyMODINIT_FUNC PyInit__native(void)
{
    PyObject *module = PyModule_Create(&module_definition);

    if (module == NULL)
        return NULL;
    if (module_fill(module) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    pthread_atfork(NULL, NULL, forks_count);
    return module;
}
