#include "client/bench/fabric.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/bench/clock.h"
#include "client/bench/process.h"

#define FABRIC_STATUS_NS (5 * CLOCK_NS_PER_S)

/* DIR/NAME.sock -> DIR and NAME, which is how `tesup status` names a supervisor. */
static int socket_split(const char *socket, char *dir, char *name, size_t size)
{
    const char *slash = strrchr(socket, '/');
    size_t length = strlen(socket);

    if (!slash || length >= size || length < 5 || strcmp(socket + length - 5, ".sock") != 0)
        return -1;
    snprintf(dir, size, "%.*s", (int)(slash - socket), socket);
    snprintf(name, size, "%.*s", (int)(length - 5 - (size_t)(slash + 1 - socket)), slash + 1);
    return 0;
}

static json_t *status_read(const char *socket)
{
    char path[PATH_MAX], dir[PATH_MAX] = "", name[PATH_MAX] = "";
    const char *argv[] = {"tesup", "status", "--json", NULL, NULL, NULL, NULL, NULL};
    const struct process_plan plan = {
        .path = path, .argv = argv, .error_file = "/dev/null", .capture_output = 1};
    struct process process;
    json_t *status = NULL;

    if (socket && *socket) {
        if (socket_split(socket, dir, name, sizeof(dir)))
            return NULL;
        argv[3] = "--runtime-dir";
        argv[4] = dir;
        argv[5] = "--name";
        argv[6] = name;
    }
    process_tesup_find(path);
    if (process_start(&process, &plan))
        return NULL;
    status = json_loadfd(process.output, JSON_DISABLE_EOF_CHECK, NULL);
    if (process_wait(&process, clock_now_ns() + FABRIC_STATUS_NS, -1) < 0)
        process_stop(&process, 0);
    return status;
}

/* Of the ready endpoint to this peer. */
static const char *endpoint_fabric(const json_t *status, const char *peer, size_t peer_length)
{
    const json_t *pair, *endpoint;
    size_t i, j;

    json_array_foreach(json_object_get(status, "pairs"), i, pair)
    {
        json_array_foreach(json_object_get(pair, "endpoints"), j, endpoint)
        {
            const char *name = json_string_value(json_object_get(endpoint, "peer"));
            const char *state = json_string_value(json_object_get(endpoint, "state"));
            const char *fabric = json_string_value(json_object_get(endpoint, "fabric"));
            if (name && fabric && state && strcmp(state, "ready") == 0 &&
                strlen(name) == peer_length && strncmp(name, peer, peer_length) == 0)
                return fabric;
        }
    }
    return NULL;
}

int fabric_find(const char *socket, const char *peer, char *fabric, size_t size)
{
    const char *slash = strrchr(peer, '/');
    json_t *status = status_read(socket ? socket : getenv("TESUP_SOCKET"));
    const char *found = slash ? endpoint_fabric(status, peer, (size_t)(slash - peer)) : NULL;

    if (found)
        snprintf(fabric, size, "%s", found);
    json_decref(status);
    return found ? 0 : -1;
}
