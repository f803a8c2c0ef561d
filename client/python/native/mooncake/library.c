/* Loads libtransfer_engine.so and finds its functions. */
#include <dlfcn.h>
#include <string.h>

#include "engine.h"

#define LIBRARY_NAME "libtransfer_engine.so"

static const struct {
    const char *name;
    size_t place;
} symbols[] = {
    {"createTransferEngine", offsetof(struct library, create)},
    {"destroyTransferEngine", offsetof(struct library, destroy)},
    {"getLocalIpAndPort", offsetof(struct library, name)},
    {"installTransport", offsetof(struct library, install)},
    {"openSegment", offsetof(struct library, open)},
    {"openSegmentNoCache", offsetof(struct library, open_again)},
    {"registerLocalMemoryBatch", offsetof(struct library, add)},
    {"unregisterLocalMemoryBatch", offsetof(struct library, drop)},
    {"allocateBatchID", offsetof(struct library, batch_new)},
    {"freeBatchID", offsetof(struct library, batch_free)},
    {"submitTransfer", offsetof(struct library, submit)},
    {"submitTransferWithNotify", offsetof(struct library, submit_notify)},
    {"getTransferStatus", offsetof(struct library, status)},
    {"getNotifsFromEngine", offsetof(struct library, notifications)},
    {"freeNotifsMsgBuf", offsetof(struct library, notifications_free)},
};

static int symbols_find(void *loaded, struct library *library)
{
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *symbol = dlsym(loaded, symbols[i].name);

        if (symbol == NULL) {
            PyErr_Format(PyExc_ImportError, LIBRARY_NAME " that was found has no %s",
                         symbols[i].name);
            return -1;
        }
        memcpy((char *)library + symbols[i].place, &symbol, sizeof(symbol));
    }
    return 0;
}

/* Under the GIL alone, so there is no second thread. */
const struct library *library_load(void)
{
    static struct library library;
    void *loaded;

    if (library.notifications_free != NULL)
        return &library;
    loaded = dlopen(LIBRARY_NAME, RTLD_NOW | RTLD_LOCAL);
    if (loaded == NULL) {
        PyErr_Format(PyExc_ImportError,
                     "TransferEngine needs tesup's " LIBRARY_NAME ", which cannot be loaded (%s); "
                     "install it (cmake --install build, then ldconfig) or name its folder in "
                     "LD_LIBRARY_PATH",
                     dlerror());
        return NULL;
    }
    if (symbols_find(loaded, &library) < 0) {
        memset(&library, 0, sizeof(library));
        dlclose(loaded);
        return NULL;
    }
    return &library;
}
