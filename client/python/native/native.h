/* Inside the extension module: what its files offer each other.
 *
 * Two kinds of locks, one rule: a lock of this module is taken without the GIL only, and the GIL is
 * never asked for while such a lock is held.
 *
 * libtesup's rules are kept here, not in Python: a channel is used by one thread at a time
 * (channel_object.lock), nothing is used after tesup_detach() (session_object.users), and a child
 * of fork() takes no lock, which a thread of its parent may have held.
 *
 * Types of the stable ABI are opaque: objects are made and freed by the slots of their type.
 * Py_BuildValue("") is None.
 */
#ifndef TESUP_PYTHON_NATIVE_H
#define TESUP_PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "tesup.h"

/* Answers of session_enter and channel_enter beside those of libtesup. */
#define ENTER_SESSION_CLOSED (-1001)
#define ENTER_CHANNEL_CLOSED (-1002)
#define ENTER_FORKED         (-1003)

/* ---- module.c ---- */

/* Counts fork() in children. */
uint64_t native_forks(void);
/* Sets the exception for `code` with the sentence of this thread's last error. Returns NULL. */
PyObject *error_raise(int code);
/* The same with a sentence of our own. */
PyObject *error_raise_text(int code, const char *text);
/* The exception as a new object, not raised. */
PyObject *error_make(int code);
/* A str of bytes that others chose. */
PyObject *text_decode(const char *text, Py_ssize_t length);
/* Converters for "O&": an int of 0 to 2^32 - 1 or 2^64 - 1, else OverflowError or TypeError. */
int u32_convert(PyObject *from, void *to);
int u64_convert(PyObject *from, void *to);

/* ---- session.c ---- */

struct session_object {
    PyObject_HEAD struct tesup_session *session;
    uint64_t forks; /* native_forks() at attach: differs in a child */
    bool ready;     /* lock and idle exist */
    pthread_mutex_t lock;
    pthread_cond_t idle; /* users became 0 */
    /* Under lock: */
    bool closed;
    unsigned users; /* calls that are inside libtesup */
};

extern PyType_Spec session_spec;
extern PyTypeObject *session_type;

/* Without the GIL. TESUP_OK: tesup_detach waits until session_leave. */
int session_enter(struct session_object *self);
void session_leave(struct session_object *self);

/* ---- memory.c ---- */

extern PyType_Spec memory_spec;

/* ---- dlpack.c ---- */

struct dlpack_range {
    char *address;
    uint64_t length;
    bool gpu; /* of CUDA's */
};

/* Takes over the tensor of a "dltensor" capsule. The tensor, or NULL with an exception. */
void *dlpack_take(PyObject *capsule, struct dlpack_range *range);
void dlpack_release(void *tensor);

/* ---- channel.c ---- */

struct channel_object {
    PyObject_HEAD struct session_object *session;
    struct tesup_channel *channel;
    bool main;
    bool ready; /* lock exists */
    pthread_mutex_t lock;
    /* Under lock: */
    bool closed;
    uint64_t taken; /* completions and notifications, by all threads */
};

extern PyType_Spec channel_spec;

/* Without the GIL. TESUP_OK: the channel is this thread's until channel_leave. */
int channel_enter(struct channel_object *self);
void channel_leave(struct channel_object *self);

/* ---- submit.c, arrival.c, wait.c: methods of a channel ---- */

PyObject *channel_submit(PyObject *object, PyObject *works);
PyObject *channel_cancel(PyObject *object, PyObject *arguments);
PyObject *channel_poll(PyObject *object, PyObject *unused);
PyObject *channel_take(PyObject *object, PyObject *unused);
PyObject *channel_taken(PyObject *object, PyObject *unused);
PyObject *channel_wait(PyObject *object, PyObject *arguments);
PyObject *channel_arm(PyObject *object, PyObject *unused);
PyObject *channel_fileno(PyObject *object, PyObject *unused);

#endif
