#include "topology/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *name_short_bus_id(const char *bus_id)
{
    return strncmp(bus_id, "0000:", 5) == 0 ? bus_id + 5 : bus_id;
}

void name_of_port(const struct topology_device *nic, unsigned port, char name[TOPOLOGY_LABEL_MAX])
{
    if (nic->port_count > 1)
        snprintf(name, TOPOLOGY_LABEL_MAX, "%.40s:%u", nic->name, nic->port[port].number);
    else
        snprintf(name, TOPOLOGY_LABEL_MAX, "%s", nic->name);
}

void name_of_pair(const char *nic, const char *gpu, char name[TOPOLOGY_LABEL_MAX])
{
    snprintf(name, TOPOLOGY_LABEL_MAX, "%.42s%s%s", nic[0] ? nic : "tcp", gpu[0] ? "+" : "",
             name_short_bus_id(gpu));
}

void name_of_node_worker(int node, unsigned number, char name[TOPOLOGY_LABEL_MAX])
{
    if (number == 0)
        snprintf(name, TOPOLOGY_LABEL_MAX, "tcp@node%d", node);
    else
        snprintf(name, TOPOLOGY_LABEL_MAX, "tcp@node%d.%u", node, number);
}

/* DOMAIN:BUS:DEVICE.FUNCTION; tools leave out the domain, or write it with eight digits. */
static bool bus_id_parse(const char *text, unsigned long part[4])
{
    unsigned long number[3];
    size_t count = 0;
    char *end;

    for (; count < 3; text = end + 1) {
        number[count++] = strtoul(text, &end, 16);
        if (end == text || text[0] == '-' || text[0] == '+' || text[0] == ' ')
            return false;
        if (*end != ':')
            break;
    }
    if (count < 2 || *end != '.')
        return false;
    text = end + 1;
    part[0] = count == 3 ? number[0] : 0;
    part[1] = number[count - 2];
    part[2] = number[count - 1];
    part[3] = strtoul(text, &end, 16);
    return end != text && *end == '\0' && text[0] != '-' && text[0] != '+' && text[0] != ' ';
}

bool topology_bus_id_equal(const char *one, const char *other)
{
    unsigned long a[4], b[4];

    return bus_id_parse(one, a) && bus_id_parse(other, b) && memcmp(a, b, sizeof(a)) == 0;
}
