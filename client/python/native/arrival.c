/* What arrived on a channel: completions and notifications. */
#include <stdlib.h>
#include <string.h>

#include "native.h"

#define POLL_MAX 256

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

PyObject *channel_poll(PyObject *object, PyObject *unused)
{
    struct channel_object *self = (struct channel_object *)object;
    struct tesup_completion completions[POLL_MAX];
    int count = 0, rc;

    (void)unused;
    PyThreadState *thread = PyEval_SaveThread();
    rc = channel_enter(self);
    if (rc == TESUP_OK) {
        count = tesup_poll(self->channel, completions, POLL_MAX);
        self->taken += count > 0 ? (uint64_t)count : 0;
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
    self->taken++;
    return tesup_notify_release(self->channel);
}

PyObject *channel_take(PyObject *object, PyObject *unused)
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
