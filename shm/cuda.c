#include "shm/cuda.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "shm/err.h"

#define CUDA_LIBRARY "libcuda.so.1"

/* One function of struct cuda_driver. */
struct cuda_entry {
    const char *name, *symbol;
    int since;
    bool needed;
    size_t offset; /* of the pointer */
};

enum { OPTIONAL, NEEDED };

static const struct cuda_entry cuda_entries[] = {
#define CUDA_ENTRY(need, name, symbol, since, arguments) \
    {#name, symbol, since, (need) == NEEDED, offsetof(struct cuda_driver, name)},
    CUDA_FUNCTIONS(CUDA_ENTRY)
#undef CUDA_ENTRY
};

/* Since 12.0. Older drivers export every version of a function under a name of its own anyway. */
typedef enum cuda_result (*cuda_finder)(const char *name, void **function, int since,
                                        uint64_t flags, enum cuda_proc_status *status);

static void *cuda_find(void *library, cuda_finder finder, const struct cuda_entry *entry)
{
    enum cuda_proc_status status = CUDA_PROC_NOT_FOUND;
    void *function = NULL;

    if (finder &&
        finder(entry->name, &function, entry->since, CUDA_PROC_LEGACY_STREAM, &status) == CUDA_OK &&
        status == CUDA_PROC_FOUND && function)
        return function;
    return dlsym(library, entry->symbol);
}

static int cuda_version_check(struct cuda_driver *driver, char *text, size_t size)
{
    enum cuda_result (*get_version)(int *) = NULL;
    void *function = dlsym(driver->library, "cuDriverGetVersion");
    int version = 0;
    enum cuda_result result;

    if (!function) {
        snprintf(text, size, "%s has no cuDriverGetVersion: it is not the NVIDIA driver's",
                 CUDA_LIBRARY);
        return TS_ERR_UNSUPPORTED;
    }
    memcpy(&get_version, &function, sizeof(get_version));
    result = get_version(&version);
    if (result != CUDA_OK) {
        snprintf(text, size,
                 "cuDriverGetVersion failed with CUDA error %d%s: nvidia-smi says what is wrong",
                 (int)result,
                 result == CUDA_STUB_LIBRARY ? " (the toolkit's stub was loaded, not the driver)"
                                             : "");
        return TS_ERR_UNSUPPORTED;
    }
    if (version < CUDA_DRIVER_OLDEST) {
        snprintf(text, size,
                 "the NVIDIA driver supports CUDA %d.%d, GPU memory needs %d.%d: install driver "
                 "470 or newer",
                 version / 1000, version % 1000 / 10, CUDA_DRIVER_OLDEST / 1000,
                 CUDA_DRIVER_OLDEST % 1000 / 10);
        return TS_ERR_UNSUPPORTED;
    }
    driver->version = version;
    return 0;
}

static int cuda_functions_find(struct cuda_driver *driver, char *text, size_t size)
{
    void *symbol = dlsym(driver->library, "cuGetProcAddress_v2");
    cuda_finder finder = NULL;

    memcpy(&finder, &symbol, sizeof(finder));
    for (size_t i = 0; i < sizeof(cuda_entries) / sizeof(cuda_entries[0]); i++) {
        const struct cuda_entry *entry = &cuda_entries[i];
        void *function = cuda_find(driver->library, finder, entry);

        if (!function && entry->needed) {
            snprintf(text, size,
                     "the NVIDIA driver (CUDA %d.%d) has no %s: install a complete driver, 470 or "
                     "newer",
                     driver->version / 1000, driver->version % 1000 / 10, entry->symbol);
            return TS_ERR_UNSUPPORTED;
        }
        memcpy((char *)driver + entry->offset, &function, sizeof(function));
    }
    return 0;
}

int cuda_driver_load(struct cuda_driver *driver, enum cuda_load how, char *text, size_t size)
{
    struct cuda_driver found = {0};
    int rc;

    found.library = dlopen(CUDA_LIBRARY, RTLD_NOW | (how == CUDA_LOADED_ONLY ? RTLD_NOLOAD : 0));
    if (!found.library) {
        const char *why = dlerror();

        if (how == CUDA_LOADED_ONLY)
            snprintf(text, size, "this process has not loaded CUDA");
        else
            snprintf(text, size, "no CUDA driver (%s): install the NVIDIA driver",
                     why ? why : CUDA_LIBRARY);
        return TS_ERR_NOT_FOUND;
    }
    rc = cuda_version_check(&found, text, size);
    if (rc)
        goto err_close;
    rc = cuda_functions_find(&found, text, size);
    if (rc)
        goto err_close;
    *driver = found;
    return 0;

err_close:
    dlclose(found.library);
    return rc;
}

void cuda_driver_unload(struct cuda_driver *driver)
{
    dlclose(driver->library);
    *driver = (struct cuda_driver){0};
}

const char *cuda_name(const struct cuda_driver *driver, enum cuda_result result)
{
    static __thread char number[32];
    const char *name = NULL;

    if (driver->cuGetErrorName(result, &name) == CUDA_OK && name)
        return name;
    snprintf(number, sizeof(number), "CUDA error %d", (int)result);
    return number;
}
