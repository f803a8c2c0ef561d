#include "client/compat/mooncake/location.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/compat/mooncake/code.h"

#define GPU_PREFIX      "cuda:"
#define NODES_DIRECTORY "/sys/devices/system/node"

static bool number_read(const char **at, unsigned long *number)
{
    char *end;

    errno = 0;
    *number = strtoul(*at, &end, 10);
    if (**at < '0' || **at > '9' || errno != 0)
        return false;
    *at = end;
    return true;
}

/* Without the directory the machine is one node. */
static bool node_exists(unsigned long node)
{
    char path[64];

    snprintf(path, sizeof(path), NODES_DIRECTORY "/node%lu", node);
    return access(path, F_OK) == 0 || (node == 0 && access(NODES_DIRECTORY, F_OK) != 0);
}

static int node_check(const char *location, unsigned long node, char *text, size_t size)
{
    if (node_exists(node))
        return 0;
    snprintf(text, size, "location '%.60s': this machine has no NUMA node %lu", location, node);
    return TRANSFER_ENGINE_NUMA;
}

static int malformed(const char *location, char *text, size_t size)
{
    snprintf(
        text, size,
        "location '%.60s' is none; \"*\", \"cpu:N\", \"cuda:N\" and \"segments:PAGE:N,N...\" are",
        location);
    return TRANSFER_ENGINE_INVALID_ARGUMENT;
}

static int cpu_check(const char *location, const char *at, char *text, size_t size)
{
    unsigned long node;

    if (!number_read(&at, &node) || *at != '\0')
        return malformed(location, text, size);
    return node_check(location, node, text, size);
}

static int cuda_check(const char *location, const char *at, char *text, size_t size)
{
    unsigned long device;

    if (!number_read(&at, &device) || *at != '\0')
        return malformed(location, text, size);
    return 0;
}

bool location_is_gpu(const char *location)
{
    return location != NULL && strncmp(location, GPU_PREFIX, strlen(GPU_PREFIX)) == 0;
}

static int segments_check(const char *location, const char *at, char *text, size_t size)
{
    unsigned long page, node;
    int rc = 0;

    if (!number_read(&at, &page) || page == 0 || (page & (page - 1)) != 0 || *at != ':')
        return malformed(location, text, size);
    do {
        at++; /* ':' or ',' */
        if (!number_read(&at, &node))
            return malformed(location, text, size);
        rc = node_check(location, node, text, size);
    } while (rc == 0 && *at == ',');
    return rc == 0 && *at != '\0' ? malformed(location, text, size) : rc;
}

int location_check(const char *location, char *text, size_t size)
{
    static const struct {
        const char *prefix;
        int (*check)(const char *location, const char *at, char *text, size_t size);
    } forms[] = {{"cpu:", cpu_check}, {GPU_PREFIX, cuda_check}, {"segments:", segments_check}};

    if (location == NULL || location[0] == '\0' || strcmp(location, "*") == 0)
        return 0;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
        if (strncmp(location, forms[i].prefix, strlen(forms[i].prefix)) == 0)
            return forms[i].check(location, location + strlen(forms[i].prefix), text, size);
    return malformed(location, text, size);
}
