/* Inside tesup._engine: an engine of libtransfer_engine for Python's class.
 *
 * The library is loaded when the first engine is made, not linked: the rest of the package works
 * without it, and LD_LIBRARY_PATH chooses it as it does for programs.  Its handles may be used by
 * any thread, and after their engine's end; so nothing is locked here.
 */
#ifndef TESUP_PYTHON_ENGINE_H
#define TESUP_PYTHON_ENGINE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>
#include <stdint.h>

#include "transfer_engine_c.h"

/* ---- library.c ---- */

struct library {
    __typeof__(&createTransferEngine) create;
    __typeof__(&destroyTransferEngine) destroy;
    __typeof__(&getLocalIpAndPort) name;
    __typeof__(&installTransport) install;
    __typeof__(&openSegment) open;
    __typeof__(&openSegmentNoCache) open_again;
    __typeof__(&registerLocalMemoryBatch) add;
    __typeof__(&unregisterLocalMemoryBatch) drop;
    __typeof__(&allocateBatchID) batch_new;
    __typeof__(&freeBatchID) batch_free;
    __typeof__(&submitTransfer) submit;
    __typeof__(&submitTransferWithNotify) submit_notify;
    __typeof__(&getTransferStatus) status;
    __typeof__(&getNotifsFromEngine) notifications;
    __typeof__(&freeNotifsMsgBuf) notifications_free;
};

/* Loads it, once. NULL with an exception. */
const struct library *library_load(void);

/* ---- engine.c ---- */

struct engine_object {
    PyObject_HEAD const struct library *library;
    transfer_engine_t handle; /* NULL: closed */
};

/* A sequence of ints of 0 to 2^64 - 1 as memory of malloc(); NULL with an exception. */
uint64_t *numbers_take(PyObject *sequence, Py_ssize_t *count);

/* ---- transfer.c: methods of the engine ---- */

PyObject *engine_submit(PyObject *object, PyObject *arguments);
PyObject *engine_status(PyObject *object, PyObject *arguments);
PyObject *engine_wait(PyObject *object, PyObject *arguments);

/* ---- memory.c: functions of the module ---- */

PyObject *memory_read(PyObject *module, PyObject *arguments);
PyObject *memory_write(PyObject *module, PyObject *arguments);

#endif
