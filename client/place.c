/* Which worker a job asks for. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/internal.h"
#include "shm/name.h"
#include "shm/visible.h"

#define GPU_PREFIX "gpu:"

/* "gpu:2": only this process knows which one it calls so. */
static bool is_gpu_index(const char *wanted)
{
    const char *at = wanted + strlen(GPU_PREFIX);

    if (strncmp(wanted, GPU_PREFIX, strlen(GPU_PREFIX)) != 0 || *at == '\0')
        return false;
    for (; *at != '\0'; at++)
        if (!isdigit((unsigned char)*at))
            return false;
    return true;
}

int place_read(const char *option, char pair[PROTO_LABEL_MAX])
{
    const char *wanted = option != NULL ? option : secure_getenv("TESUP_PAIR");
    char gpu[VISIBLE_GPU_MAX] = "";
    char why[200];
    int rc;

    pair[0] = '\0';
    if (wanted == NULL || (option == NULL && wanted[0] == '\0'))
        return TS_OK;
    if (!name_label_valid(wanted))
        return error_set(TS_ERR_INVALID,
                         "the pair '%.80s' is no name: 1 to %u letters, digits and ._-@:+ are",
                         wanted, PROTO_LABEL_MAX - 1);
    if (!is_gpu_index(wanted)) {
        memcpy(pair, wanted, strlen(wanted) + 1);
        return TS_OK;
    }
    unsigned long index = strtoul(wanted + strlen(GPU_PREFIX), NULL, 10);
    rc = visible_gpu(secure_getenv("CUDA_VISIBLE_DEVICES"), VISIBLE_DRIVER,
                     index < UINT32_MAX ? (unsigned)index : UINT32_MAX, gpu, why, sizeof(why));
    if (rc != TS_OK)
        return error_set(rc, "%s: %s", wanted, why);
    snprintf(pair, PROTO_LABEL_MAX, GPU_PREFIX "%.*s", (int)(PROTO_LABEL_MAX - sizeof(GPU_PREFIX)),
             gpu);
    return name_label_valid(pair)
               ? TS_OK
               : error_set(TS_ERR_INVALID, "CUDA_VISIBLE_DEVICES: '%s' is no GPU", gpu);
}
