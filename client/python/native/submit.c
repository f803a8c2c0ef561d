/* Requests of a channel: submitted and cancelled. */
#include <stdlib.h>

#include "native.h"

#define SUBMIT_MAX 4096

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

PyObject *channel_submit(PyObject *object, PyObject *works)
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

PyObject *channel_cancel(PyObject *object, PyObject *arguments)
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
