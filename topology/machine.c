#include "topology/machine.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PCI_VENDOR_AMD 0x1002

__attribute__((format(printf, 2, 3))) static int path_make(char path[PATH_MAX], const char *format,
                                                           ...)
{
    va_list args;

    va_start(args, format);
    int length = vsnprintf(path, PATH_MAX, format, args);
    va_end(args);
    return length > 0 && length < PATH_MAX ? 0 : -1;
}

/* The first line of a file; false when it is not there or empty. */
static bool line_read(const char *path, char *line, size_t size)
{
    FILE *file = fopen(path, "re");

    if (!file)
        return false;
    bool got = fgets(line, (int)size, file) != NULL;
    fclose(file);
    if (got)
        line[strcspn(line, "\n")] = '\0';
    return got && line[0] != '\0';
}

/* The last part of what a symbolic link points at. */
static bool link_read(const char *path, char *name, size_t size)
{
    char target[PATH_MAX];
    ssize_t length = readlink(path, target, sizeof(target) - 1);

    if (length <= 0)
        return false;
    target[length] = '\0';
    const char *last = strrchr(target, '/');
    return snprintf(name, size, "%s", last ? last + 1 : target) < (int)size;
}

/* The entries of a folder whose names begin with `prefix`, without it. */
static void folder_list(const char *path, const char *prefix, struct machine_names *names)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    size_t skip = strlen(prefix);

    names->count = 0;
    if (!folder)
        return;
    while ((entry = readdir(folder)) && names->count < MACHINE_DEVICES_MAX) {
        const char *name = entry->d_name;
        size_t length = strlen(name);
        if (name[0] == '.' || strncmp(name, prefix, skip) != 0 || length == skip ||
            length - skip >= TOPOLOGY_LABEL_MAX)
            continue;
        memcpy(names->name[names->count++], name + skip, length - skip + 1);
    }
    closedir(folder);
}

void machine_rdma_list(const char *root, struct machine_names *names)
{
    char path[PATH_MAX];

    names->count = 0;
    if (path_make(path, "%s/sys/class/infiniband", root) == 0)
        folder_list(path, "", names);
}

/* "4: ACTIVE" */
static enum topology_port_state state_parse(const char *line)
{
    long number = strtol(line, NULL, 10);

    return number >= TOPOLOGY_PORT_DOWN && number <= TOPOLOGY_PORT_ACTIVE
               ? (enum topology_port_state)number
               : TOPOLOGY_PORT_UNKNOWN;
}

unsigned machine_rdma_ports(const char *root, const char *name, struct topology_port *port)
{
    char path[PATH_MAX];
    char line[64];
    unsigned count = 0;

    for (; count < TOPOLOGY_PORTS_MAX; count++) {
        path_make(path, "%s/sys/class/infiniband/%s/ports/%u/state", root, name, count + 1);
        if (!line_read(path, line, sizeof(line)))
            break;
        port[count] = (struct topology_port){.number = count + 1, .state = state_parse(line)};
        path_make(path, "%s/sys/class/infiniband/%s/ports/%u/link_layer", root, name, count + 1);
        /* EFA says "Unspecified", which says nothing. */
        if (line_read(path, line, sizeof(line)) && line[0] != 'U')
            snprintf(port[count].link, sizeof(port[count].link), "%.15s", line);
    }
    return count;
}

/* The kernel names the device file after the entry of class infiniband_verbs that points back. */
static bool verbs_find(const char *root, const char *name, char *verbs, size_t size)
{
    struct machine_names entries;
    char path[PATH_MAX];
    char line[TOPOLOGY_LABEL_MAX];

    path_make(path, "%s/sys/class/infiniband_verbs", root);
    folder_list(path, "uverbs", &entries);
    for (size_t i = 0; i < entries.count; i++) {
        path_make(path, "%s/sys/class/infiniband_verbs/uverbs%s/ibdev", root, entries.name[i]);
        if (line_read(path, line, sizeof(line)) && strcmp(line, name) == 0)
            return snprintf(verbs, size, "uverbs%s", entries.name[i]) < (int)size;
    }
    return false;
}

bool machine_rdma_openable(const char *root, const char *name, char *why, size_t why_size)
{
    char path[PATH_MAX];
    char verbs[TOPOLOGY_LABEL_MAX + 8];

    if (!verbs_find(root, name, verbs, sizeof(verbs))) {
        snprintf(why, why_size, "has no uverbs device; load the module ib_uverbs");
        return false;
    }
    path_make(path, "%s/dev/infiniband/%s", root, verbs);
    if (access(path, R_OK | W_OK) == 0)
        return true;
    snprintf(why, why_size, "cannot be opened here: /dev/infiniband/%.20s: %s", verbs,
             strerror(errno));
    return false;
}

bool machine_rdma_physical(const char *root, const char *name, char bus_id[16])
{
    char path[PATH_MAX];

    path_make(path, "%s/sys/class/infiniband/%s/device/physfn", root, name);
    return link_read(path, bus_id, 16);
}

/* rxe and siw have `parent`; others name the interface of each address of their port. */
bool machine_rdma_interface(const char *root, const char *name, char *interface, size_t size)
{
    char path[PATH_MAX];

    path_make(path, "%s/sys/class/infiniband/%s/parent", root, name);
    if (line_read(path, interface, size))
        return true;
    path_make(path, "%s/sys/class/infiniband/%s/ports/1/gid_attrs/ndevs/0", root, name);
    return line_read(path, interface, size);
}

bool machine_net_port(const char *root, const char *name, struct topology_port *port)
{
    char path[PATH_MAX];
    char line[64];

    *port = (struct topology_port){.number = 1};
    path_make(path, "%s/sys/class/net/%s/operstate", root, name);
    if (!line_read(path, line, sizeof(line)))
        return false;
    if (strcmp(line, "up") == 0)
        port->state = TOPOLOGY_PORT_ACTIVE;
    else if (strcmp(line, "unknown") != 0)
        port->state = TOPOLOGY_PORT_DOWN;
    path_make(path, "%s/sys/class/net/%s/type", root, name);
    /* ARPHRD_ETHER and ARPHRD_INFINIBAND */
    if (line_read(path, line, sizeof(line)))
        snprintf(port->link, sizeof(port->link), "%s",
                 strcmp(line, "1") == 0    ? "Ethernet"
                 : strcmp(line, "32") == 0 ? "InfiniBand"
                                           : "");
    return true;
}

void machine_net_members(const char *root, const char *name, struct machine_names *names)
{
    char path[PATH_MAX];

    names->count = 0;
    if (path_make(path, "%s/sys/class/net/%s", root, name) == 0)
        folder_list(path, "lower_", names);
}

bool machine_net_master(const char *root, const char *name, char *master, size_t size)
{
    char path[PATH_MAX];

    path_make(path, "%s/sys/class/net/%s/master", root, name);
    return link_read(path, master, size);
}

/* "GPU UUID: \t GPU-…" in the file that NVIDIA's driver has for each GPU. */
static bool nvidia_uuid(const char *root, const char *bus_id, char *uuid, size_t size)
{
    char path[PATH_MAX];
    char line[256];
    bool found = false;

    path_make(path, "%s/proc/driver/nvidia/gpus/%s/information", root, bus_id);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    while (!found && fgets(line, sizeof(line), file)) {
        if (strncmp(line, "GPU UUID:", 9) != 0)
            continue;
        const char *value = line + 9 + strspn(line + 9, " \t");
        snprintf(uuid, size, "%.*s", (int)strcspn(value, " \t\r\n"), value);
        found = strncmp(uuid, "GPU-", 4) == 0 && uuid[4] != '?';
    }
    fclose(file);
    if (!found)
        uuid[0] = '\0';
    return found;
}

/* ROCm makes it of the number that amdgpu shows. */
static bool amd_uuid(const char *root, const char *bus_id, char *uuid, size_t size)
{
    char path[PATH_MAX];
    char line[64];

    path_make(path, "%s/sys/bus/pci/devices/%s/unique_id", root, bus_id);
    if (!line_read(path, line, sizeof(line)) || !isxdigit((unsigned char)line[0]))
        return false;
    snprintf(uuid, size, "GPU-%.32s", line);
    return true;
}

bool machine_gpu_uuid(const char *root, const struct topology_device *gpu, char *uuid, size_t size)
{
    return gpu->vendor == PCI_VENDOR_AMD ? amd_uuid(root, gpu->bus_id, uuid, size)
                                         : nvidia_uuid(root, gpu->bus_id, uuid, size);
}
