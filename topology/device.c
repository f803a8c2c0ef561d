#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/internal.h"

enum pci {
    PCI_BASE_DISPLAY = 0x03, /* VGA 0x0300 and 3D 0x0302; AMD's compute cards are 0x0380 */
    PCI_VENDOR_AMD = 0x1002,
    PCI_VENDOR_NVIDIA = 0x10de,
};

/* By vendor, because the VGA of a management controller has the same class. */
static bool pci_is_gpu(hwloc_obj_t object)
{
    const struct hwloc_pcidev_attr_s *pci = &object->attr->pcidev;

    return pci->class_id >> 8 == PCI_BASE_DISPLAY &&
           (pci->vendor_id == PCI_VENDOR_NVIDIA || pci->vendor_id == PCI_VENDOR_AMD);
}

static const char *osdev_kind(hwloc_obj_t object)
{
    switch (object->attr->osdev.type) {
    case HWLOC_OBJ_OSDEV_NETWORK:
        return "network";
    case HWLOC_OBJ_OSDEV_OPENFABRICS:
        return "openfabrics";
    default:
        return NULL;
    }
}

static void bus_id_print(struct topology_device *device, hwloc_obj_t object)
{
    while (object && object->type != HWLOC_OBJ_PCI_DEVICE)
        object = object->parent;
    if (!object)
        return;

    const struct hwloc_pcidev_attr_s *pci = &object->attr->pcidev;
    snprintf(device->bus_id, sizeof(device->bus_id), "%04x:%02x:%02x.%01x", pci->domain, pci->bus,
             pci->dev, pci->func);
}

/* Names go to terminals and into JSON, and an interface may be named with any byte. */
static void name_copy(struct topology_device *device, const char *name)
{
    size_t i = 0;

    for (; name[i] && i + 1 < sizeof(device->name); i++) {
        bool printable = name[i] > ' ' && name[i] <= '~';
        device->name[i] = (char)(printable ? name[i] : '?');
    }
    device->name[i] = '\0';
}

/* The one node that the device is near to.  Where locality is missing hwloc attaches the device to
 * the whole machine: several nodes are no answer, and none is guessed. */
static int device_node(const struct topology *topology, hwloc_obj_t object)
{
    hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(topology->hwloc, object);
    int node = -1;

    if (!place || !place->nodeset)
        return -1;
    for (size_t i = 0; i < topology->node_count; i++) {
        if (!hwloc_bitmap_isset(place->nodeset, topology->sets[i].object->os_index))
            continue;
        if (topology->node[i].cpu_present == 0)
            continue;
        if (node >= 0)
            return -1;
        node = topology->node[i].os_index;
    }
    return node;
}

static void device_add(struct topology *topology, hwloc_obj_t object, const char *kind)
{
    struct topology_device *device = &topology->device[topology->device_count++];

    bus_id_print(device, object);
    snprintf(device->kind, sizeof(device->kind), "%s", kind);
    device->node = device_node(topology, object);
    if (object->type == HWLOC_OBJ_PCI_DEVICE)
        name_copy(device, device->bus_id);
    else
        name_copy(device, object->name ? object->name : "unnamed");
}

int topology_devices_fill(struct topology *topology, char *text, size_t text_size)
{
    int pci = hwloc_get_nbobjs_by_type(topology->hwloc, HWLOC_OBJ_PCI_DEVICE);
    int os = hwloc_get_nbobjs_by_type(topology->hwloc, HWLOC_OBJ_OS_DEVICE);
    size_t room = (size_t)(pci > 0 ? pci : 0) + (size_t)(os > 0 ? os : 0);
    hwloc_obj_t object = NULL;

    if (room == 0)
        return 0;
    topology->device = calloc(room, sizeof(*topology->device));
    if (!topology->device)
        return topology_fail(text, text_size, "no memory for %zu devices", room);

    while ((object = hwloc_get_next_pcidev(topology->hwloc, object)))
        if (pci_is_gpu(object))
            device_add(topology, object, "gpu");
    while ((object = hwloc_get_next_osdev(topology->hwloc, object)))
        if (osdev_kind(object))
            device_add(topology, object, osdev_kind(object));
    return 0;
}
