/* Memory: a region of a session, and what keeps its bytes alive.
 *
 * Shared memory is mapped here and not by tesup_mem_alloc(): a view of it (memoryview, numpy array)
 * may outlive the region and the session, and must not lose its pages.  Memory of another object is
 * held by a Py_buffer or a DLPack tensor until no byte can be read or land any more.  What has
 * only an address (the CUDA array interface) comes as a dict, with its owner.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "native.h"

#define ACCESS_ALL (TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE)
#define FILL_CHUNK (UINT64_C(8) << 20) /* short enough to end between two signals of a profiler */

struct memory_object {
    PyObject_HEAD struct session_object *session;
    tesup_region_t handle; /* 0: no region (any more); changed with the GIL only */
    char *address;         /* NULL for a file */
    uint64_t length;
    bool readonly;
    size_t mapped; /* bytes of our own mapping; 0 for memory of others */
    bool held;     /* exporter is */
    Py_buffer exporter;
    void *tensor;
    bool gpu;
    PyObject *owner; /* of memory of a GPU that has no tensor */
};

/* ---- shared memory of our own ---- */

/* Takes the pages now: later, a page that cannot be had is a SIGBUS at first touch. */
static int file_fill(int fd, uint64_t size)
{
    for (uint64_t at = 0; at < size; at += FILL_CHUNK) {
        uint64_t chunk = size - at < FILL_CHUNK ? size - at : FILL_CHUNK;

        while (fallocate(fd, 0, (off_t)at, (off_t)chunk) < 0)
            if (errno != EINTR)
                return -1;
    }
    return 0;
}

static int file_create(uint64_t size)
{
    int fd = memfd_create("tesup-python", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int error;

    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)size) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0 &&
        file_fill(fd, size) == 0)
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

static int file_register(struct memory_object *self, int fd, uint64_t offset, uint32_t access)
{
    int rc = session_enter(self->session);

    if (rc != TESUP_OK)
        return rc;
    rc = tesup_mem_register_fd(self->session->session, fd, offset, self->length, self->address,
                               access, &self->handle);
    session_leave(self->session);
    return rc;
}

static int memory_map(struct memory_object *self, int fd, size_t size)
{
    void *mapping = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (mapping == MAP_FAILED)
        return -1;
    self->address = mapping;
    self->mapped = size;
    return 0;
}

static PyObject *allocation_refuse(int error, uint64_t size)
{
    char text[160];

    snprintf(text, sizeof(text),
             "%llu bytes of shared memory: %s; the system, its cgroup or ulimit -f, -v allows no "
             "more",
             (unsigned long long)size, strerror(error));
    return error_raise_text(error == EMFILE || error == ENFILE || error == EFBIG
                                ? TESUP_ERR_LIMIT
                                : TESUP_ERR_NO_MEMORY,
                            text);
}

static int memory_allocate(struct memory_object *self, PyObject *source, uint32_t access)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    int rc = TESUP_OK, error = 0, fd;

    if (!u64_convert(source, &self->length))
        return -1;
    if (self->length == 0 || self->length > (uint64_t)PY_SSIZE_T_MAX - page) {
        error_raise_text(TESUP_ERR_INVALID, "memory has 1 byte at least, and fits a file");
        return -1;
    }
    size_t size = (self->length + page - 1) / page * page;
    PyThreadState *thread = PyEval_SaveThread();
    fd = file_create(size);
    if (fd < 0 || memory_map(self, fd, size) < 0)
        error = errno;
    else
        rc = file_register(self, fd, 0, access);
    if (fd >= 0)
        close(fd);
    PyEval_RestoreThread(thread);
    if (error != 0)
        allocation_refuse(error, size);
    else if (rc != TESUP_OK)
        error_raise(rc);
    return PyErr_Occurred() ? -1 : 0;
}

/* ---- memory of others ---- */

/* (fd, offset, length) */
static int memory_take_file(struct memory_object *self, PyObject *source, uint32_t access)
{
    uint64_t offset;
    int fd, rc;

    if (!PyArg_ParseTuple(source, "iO&O&:file", &fd, u64_convert, &offset, u64_convert,
                          &self->length))
        return -1;
    PyThreadState *thread = PyEval_SaveThread();
    rc = file_register(self, fd, offset, access);
    PyEval_RestoreThread(thread);
    if (rc != TESUP_OK)
        error_raise(rc);
    return rc == TESUP_OK ? 0 : -1;
}

/* {"address", "length", "readonly", "owner"} */
static int memory_take_address(struct memory_object *self, PyObject *source)
{
    PyObject *address = PyDict_GetItemString(source, "address");
    PyObject *length = PyDict_GetItemString(source, "length");
    PyObject *readonly = PyDict_GetItemString(source, "readonly");
    PyObject *owner = PyDict_GetItemString(source, "owner");
    uint64_t at;

    if (address == NULL || length == NULL || readonly == NULL || owner == NULL) {
        PyErr_SetString(PyExc_TypeError, "an address, a length, readonly and an owner are needed");
        return -1;
    }
    if (!u64_convert(address, &at) || !u64_convert(length, &self->length))
        return -1;
    self->address = (char *)(uintptr_t)at;
    self->readonly = PyObject_IsTrue(readonly) == 1;
    self->gpu = true;
    Py_INCREF(owner);
    self->owner = owner;
    return 0;
}

static int memory_hold(struct memory_object *self, PyObject *source)
{
    struct dlpack_range range;

    if (PyDict_Check(source))
        return memory_take_address(self, source);

    if (PyCapsule_CheckExact(source)) {
        self->tensor = dlpack_take(source, &range);
        if (self->tensor == NULL)
            return -1;
        self->address = range.address;
        self->length = range.length;
        self->gpu = range.gpu;
        return 0;
    }
    if (PyObject_GetBuffer(source, &self->exporter, PyBUF_ANY_CONTIGUOUS | PyBUF_WRITABLE) < 0) {
        PyErr_Clear();
        if (PyObject_GetBuffer(source, &self->exporter, PyBUF_ANY_CONTIGUOUS) < 0)
            return -1;
    }
    self->held = true;
    self->address = self->exporter.buf;
    self->length = (uint64_t)self->exporter.len;
    self->readonly = self->exporter.readonly != 0;
    return 0;
}

static int memory_register(struct memory_object *self, PyObject *source, uint32_t access)
{
    int rc;

    if (memory_hold(self, source) < 0)
        return -1;
    if (self->readonly && (access & TESUP_ACCESS_REMOTE_WRITE) != 0) {
        error_raise_text(TESUP_ERR_DENIED, "REMOTE_WRITE to memory that its object says is "
                                           "read-only; register it with REMOTE_READ or LOCAL");
        return -1;
    }
    PyThreadState *thread = PyEval_SaveThread();
    rc = session_enter(self->session);
    if (rc == TESUP_OK) {
        rc = self->gpu ? tesup_mem_register_gpu(self->session->session, self->address, self->length,
                                                access, &self->handle)
                       : tesup_mem_register(self->session->session, self->address, self->length,
                                            access, &self->handle);
        session_leave(self->session);
    }
    PyEval_RestoreThread(thread);
    if (rc != TESUP_OK)
        error_raise(rc);
    return rc == TESUP_OK ? 0 : -1;
}

/* ---- the object ---- */

static PyObject *memory_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static const char *const names[] = {"session", "source", "access", NULL};
    struct memory_object *self;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *session, *source;
    uint32_t access = ACCESS_ALL;
    int rc;

    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!O|O&:Memory", (char **)names,
                                     session_type, &session, &source, u32_convert, &access))
        return NULL;
    self = (struct memory_object *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    Py_INCREF(session);
    self->session = (struct session_object *)session;
    if (PyLong_Check(source))
        rc = memory_allocate(self, source, access);
    else if (PyTuple_Check(source))
        rc = memory_take_file(self, source, access);
    else
        rc = memory_register(self, source, access);
    if (rc < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

/* Nobody moves bytes of it any more. */
static void memory_let_go(struct memory_object *self)
{
    void *tensor = self->tensor;

    self->tensor = NULL;
    if (tensor != NULL)
        dlpack_release(tensor);
    if (self->held) {
        self->held = false;
        PyBuffer_Release(&self->exporter);
    }
    Py_CLEAR(self->owner);
    if (self->mapped == 0)
        self->address = NULL;
}

/* Ends the region. A closed session has ended it already; a child has none. */
static int memory_revoke(struct memory_object *self)
{
    tesup_region_t handle = self->handle;
    int rc;

    if (handle == 0)
        return TESUP_OK;
    self->handle = 0; /* a second thread must not end the next region of this number */
    PyThreadState *thread = PyEval_SaveThread();
    rc = session_enter(self->session);
    if (rc == TESUP_OK) {
        rc = tesup_mem_unregister(self->session->session, handle);
        session_leave(self->session);
    }
    PyEval_RestoreThread(thread);
    if (rc == TESUP_ERR_GONE || rc == ENTER_SESSION_CLOSED || rc == ENTER_FORKED)
        return TESUP_OK;
    if (rc != TESUP_OK)
        self->handle = handle;
    return rc;
}

static PyObject *memory_close(PyObject *object, PyObject *unused)
{
    struct memory_object *self = (struct memory_object *)object;
    int rc = memory_revoke(self);

    (void)unused;
    if (rc != TESUP_OK)
        return error_raise(rc);
    memory_let_go(self);
    return Py_BuildValue("");
}

static void memory_dealloc(PyObject *object)
{
    struct memory_object *self = (struct memory_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    /* What could not be revoked may still be written to: its memory is leaked. */
    if (self->session != NULL && memory_revoke(self) == TESUP_OK)
        memory_let_go(self);
    if (self->mapped > 0)
        munmap(self->address, self->mapped); /* the worker has a mapping of its own */
    Py_XDECREF((PyObject *)self->session);
    release(object);
    Py_DECREF((PyObject *)type);
}

static int memory_get_buffer(PyObject *object, Py_buffer *view, int flags)
{
    struct memory_object *self = (struct memory_object *)object;

    if (self->mapped == 0) {
        PyErr_SetString(PyExc_BufferError,
                        "this memory belongs to the object that was registered: use that one");
        view->obj = NULL;
        return -1;
    }
    return PyBuffer_FillInfo(view, object, self->address, (Py_ssize_t)self->length, 0, flags);
}

static Py_ssize_t memory_size(PyObject *object)
{
    return (Py_ssize_t)((struct memory_object *)object)->length;
}

static PyObject *memory_handle(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(((struct memory_object *)object)->handle);
}

static PyObject *memory_address(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(((struct memory_object *)object)->address);
}

static PyObject *memory_readonly(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((struct memory_object *)object)->readonly);
}

static PyMethodDef memory_methods[] = {
    {"close", memory_close, METH_NOARGS,
     "close($self, /)\n--\n\nEnd the region. On return no byte can be read or land any more."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef memory_attributes[] = {
    {"handle", memory_handle, NULL, "What peers and requests call it; 0 once closed.", NULL},
    {"address", memory_address, NULL, "Where it begins in this process; 0 for a file.", NULL},
    {"readonly", memory_readonly, NULL, "The registered object says so.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot memory_slots[] = {
    {Py_tp_doc,
     (char *)"Memory(session, source, access)\n--\n\n"
             "A region. source: bytes to allocate, (fd, offset, length), an object with the "
             "buffer protocol, a \"dltensor\" capsule, or a dict with address, length, readonly "
             "and owner of memory of a GPU."},
    {Py_tp_new, memory_new},
    {Py_tp_dealloc, memory_dealloc},
    {Py_tp_methods, memory_methods},
    {Py_tp_getset, memory_attributes},
    {Py_bf_getbuffer, memory_get_buffer},
    {Py_mp_length, memory_size},
    {0, NULL},
};

PyType_Spec memory_spec = {
    .name = "tesup._native.Memory",
    .basicsize = (int)sizeof(struct memory_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = memory_slots,
};
