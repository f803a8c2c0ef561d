/* Memory of this process by address, which the class hands out as a number.
 *
 * The kernel copies: an address that is nonsense is an error, where memcpy() would be the end.
 */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "engine.h"

/* 0, or an errno. */
static int memory_copy(char *here, uint64_t address, size_t length, int store)
{
    while (length > 0) {
        struct iovec ours = {.iov_base = here, .iov_len = length};
        struct iovec theirs = {.iov_base = (void *)(uintptr_t)address, .iov_len = length};
        ssize_t moved = store ? process_vm_writev(getpid(), &ours, 1, &theirs, 1, 0)
                              : process_vm_readv(getpid(), &ours, 1, &theirs, 1, 0);

        if (moved <= 0)
            return moved < 0 ? errno : EFAULT;
        here += moved;
        address += (uint64_t)moved;
        length -= (size_t)moved;
    }
    return 0;
}

static PyObject *memory_refuse(int error, uint64_t address, Py_ssize_t length)
{
    return PyErr_Format(PyExc_ValueError, "%zd bytes at %llu: %s", length,
                        (unsigned long long)address, strerror(error));
}

PyObject *memory_read(PyObject *module, PyObject *arguments)
{
    unsigned long long address;
    Py_ssize_t length;
    PyObject *bytes;
    int error;

    (void)module;
    if (!PyArg_ParseTuple(arguments, "Kn:memory_read", &address, &length))
        return NULL;
    if (length < 0)
        return memory_refuse(EINVAL, address, length);
    bytes = PyBytes_FromStringAndSize(NULL, length);
    if (bytes == NULL)
        return NULL;
    char *place = PyBytes_AsString(bytes);
    PyThreadState *thread = PyEval_SaveThread();
    error = memory_copy(place, address, (size_t)length, 0);
    PyEval_RestoreThread(thread);
    if (error == 0)
        return bytes;
    Py_DECREF(bytes);
    return memory_refuse(error, address, length);
}

PyObject *memory_write(PyObject *module, PyObject *arguments)
{
    unsigned long long address;
    Py_buffer data;
    int error;

    (void)module;
    if (!PyArg_ParseTuple(arguments, "Ky*:memory_write", &address, &data))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    error = memory_copy(data.buf, address, (size_t)data.len, 1);
    PyEval_RestoreThread(thread);
    Py_ssize_t length = data.len;
    PyBuffer_Release(&data);
    return error == 0 ? Py_BuildValue("") : memory_refuse(error, address, length);
}
