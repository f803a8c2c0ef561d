#include "shm/visible.h"

#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/err.h"

#define BUS_ID_MAX 20

static int by_bus_id(const void *left, const void *right)
{
    size_t a = strlen(left), b = strlen(right);

    return a != b ? (a < b ? -1 : 1) : strcmp(left, right);
}

/* The `index`th of those that the driver shows. */
static int driver_gpu(const char *driver, unsigned index, char gpu[VISIBLE_GPU_MAX], char *why,
                      size_t why_size)
{
    char id[64][BUS_ID_MAX];
    const struct dirent *entry;
    DIR *folder = opendir(driver);
    size_t count = 0;

    if (!folder) {
        snprintf(gpu, VISIBLE_GPU_MAX, "%u", index);
        return TS_OK;
    }
    while (count < sizeof(id) / sizeof(id[0]) && (entry = readdir(folder)))
        if (isxdigit((unsigned char)entry->d_name[0]) && strlen(entry->d_name) < BUS_ID_MAX)
            memcpy(id[count++], entry->d_name, strlen(entry->d_name) + 1);
    closedir(folder);
    if (index >= count) {
        snprintf(why, why_size, "this process sees %zu GPUs, so there is no GPU %u", count, index);
        return TS_ERR_NOT_FOUND;
    }
    qsort(id, count, sizeof(id[0]), by_bus_id);
    snprintf(gpu, VISIBLE_GPU_MAX, "%s", id[index]);
    return TS_OK;
}

/* The `index`th entry of the list, as CUDA reads it: the first one that is no GPU ends it. */
static bool list_entry(const char *list, unsigned index, char entry[VISIBLE_GPU_MAX],
                       unsigned *count)
{
    for (*count = 0;; list++) {
        size_t length;
        list += strspn(list, " ");
        length = strcspn(list, ", ");
        if (length == 0 || length >= VISIBLE_GPU_MAX || (!isalnum((unsigned char)list[0])))
            return false;
        memcpy(entry, list, length);
        entry[length] = '\0';
        if ((*count)++ == index)
            return true;
        list += length + strspn(list + length, " ");
        if (*list != ',')
            return false;
    }
}

/* "MIG-GPU-UUID/1/0", of drivers before 470, says which GPU it is; the newer "MIG-UUID" names the
 * instance alone. */
static int uuid_take(char gpu[VISIBLE_GPU_MAX], char *why, size_t why_size)
{
    if (strncmp(gpu, "MIG-GPU-", 8) == 0) {
        memmove(gpu, gpu + 4, strlen(gpu + 4) + 1);
        gpu[strcspn(gpu, "/")] = '\0';
    }
    if (strncmp(gpu, "GPU-", 4) == 0 || strncmp(gpu, "MIG-", 4) == 0)
        return TS_OK;
    snprintf(why, why_size,
             "CUDA_VISIBLE_DEVICES has %s, which does not say which GPU it is; name the GPU by bus "
             "id",
             gpu);
    return TS_ERR_NOT_FOUND;
}

int visible_gpu(const char *visible, const char *driver, unsigned index, char gpu[VISIBLE_GPU_MAX],
                char *why, size_t why_size)
{
    unsigned count;
    char *end;

    if (!visible)
        return driver_gpu(driver, index, gpu, why, why_size);
    if (!list_entry(visible, index, gpu, &count)) {
        snprintf(why, why_size, "CUDA_VISIBLE_DEVICES=%.60s has %u GPUs, so there is no GPU %u",
                 visible, count, index);
        return TS_ERR_NOT_FOUND;
    }
    if (!isdigit((unsigned char)gpu[0]))
        return uuid_take(gpu, why, why_size);
    unsigned long number = strtoul(gpu, &end, 10);
    if (*end == '\0' && number < 1024)
        return driver_gpu(driver, (unsigned)number, gpu, why, why_size);
    snprintf(why, why_size, "CUDA_VISIBLE_DEVICES=%.60s: %s is no GPU", visible, gpu);
    return TS_ERR_INVALID;
}
