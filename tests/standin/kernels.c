/* The twins of the kernels that tests and programs launch: what the device would have done, with
 * the same parameters. */
#include <string.h>

#include "tests/standin/cuda.h"

/* standin_invert(u64 address, u64 size): for the stand-in's own test. */
static void invert(const struct standin_work *launch)
{
    size_t done = 0, size = launch->arguments[1];

    while (done < size) {
        size_t part = size - done;
        char *bytes = standin_reach("standin_invert", launch->arguments[0] + done, &part, true);

        for (size_t i = 0; i < part; i++)
            bytes[i] = (char)~bytes[i];
        done += part;
    }
}

standin_twin standin_twin_find(const char *kernel)
{
    static const struct {
        const char *name;
        standin_twin twin;
    } twins[] = {
        {"standin_invert", invert},
    };

    for (size_t i = 0; i < sizeof(twins) / sizeof(twins[0]); i++) {
        if (strcmp(twins[i].name, kernel) == 0)
            return twins[i].twin;
    }
    return NULL;
}
