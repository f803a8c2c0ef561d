/* GPUs, RDMA NICs and network interfaces: from hwloc, and from the machine what hwloc lacks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/distance.h"
#include "topology/machine.h"

#define MEMBERS_DEPTH_MAX 4 /* a VLAN of a bond of a bridge … */

enum pci {
    PCI_BASE_NETWORK = 0x02,
    PCI_BASE_DISPLAY = 0x03, /* VGA 0x0300, 3D 0x0302, other 0x0380 */
    PCI_CLASS_ETHERNET = 0x0200,
    PCI_CLASS_ACCELERATOR = 0x1200, /* newer compute cards of AMD */
    PCI_VENDOR_AMD = 0x1002,
    PCI_VENDOR_NVIDIA = 0x10de,
    PCI_VENDOR_MELLANOX = 0x15b3,
    PCI_VENDOR_AMAZON = 0x1d0f,
};

/* While the list is being made. */
struct found {
    struct topology_device device;
    hwloc_obj_t place;
};

struct discovery {
    const struct topology *topology;
    const char *root; /* of machine.h; NULL: nobody to ask */
    size_t count;
    struct found *found;
};

/* By vendor, because the VGA of a management controller has the same class. */
static bool pci_is_gpu(hwloc_obj_t object)
{
    const struct hwloc_pcidev_attr_s *pci = &object->attr->pcidev;

    if (pci->vendor_id == PCI_VENDOR_AMD && pci->class_id == PCI_CLASS_ACCELERATOR)
        return true;
    return pci->class_id >> 8 == PCI_BASE_DISPLAY &&
           (pci->vendor_id == PCI_VENDOR_NVIDIA || pci->vendor_id == PCI_VENDOR_AMD);
}

static hwloc_obj_t pci_above(hwloc_obj_t object)
{
    while (object && object->type != HWLOC_OBJ_PCI_DEVICE)
        object = object->parent;
    return object;
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

static struct found *device_add(struct discovery *discovery, enum topology_kind kind,
                                const char *name, hwloc_obj_t place)
{
    struct found *found = &discovery->found[discovery->count++];
    hwloc_obj_t pci = pci_above(place);

    *found = (struct found){.device = {.kind = kind, .branch = -1}, .place = place};
    name_copy(&found->device, name);
    found->device.node = topology_place_node(discovery->topology, place);
    found->device.package = topology_place_package(discovery->topology, place);
    if (pci) {
        const struct hwloc_pcidev_attr_s *attr = &pci->attr->pcidev;
        found->device.vendor = attr->vendor_id;
        snprintf(found->device.bus_id, sizeof(found->device.bus_id), "%04x:%02x:%02x.%01x",
                 attr->domain, attr->bus, attr->dev, attr->func);
    }
    return found;
}

/* ---- GPUs ---- */

/* What NVML or RSMI told hwloc. */
static const char *gpu_uuid_info(hwloc_obj_t pci)
{
    for (hwloc_obj_t child = pci->io_first_child; child; child = child->next_sibling) {
        const char *uuid = hwloc_obj_get_info_by_name(child, "NVIDIAUUID");
        if (!uuid)
            uuid = hwloc_obj_get_info_by_name(child, "AMDUUID");
        if (uuid)
            return uuid;
    }
    return NULL;
}

static void gpu_add(struct discovery *discovery, hwloc_obj_t pci)
{
    struct topology_device *gpu = &device_add(discovery, TOPOLOGY_KIND_GPU, "", pci)->device;
    const char *uuid = gpu_uuid_info(pci);

    name_copy(gpu, gpu->bus_id);
    if (uuid)
        snprintf(gpu->uuid, sizeof(gpu->uuid), "%s", uuid);
    else if (discovery->root)
        machine_gpu_uuid(discovery->root, gpu, gpu->uuid, sizeof(gpu->uuid));
}

/* ---- RDMA NICs ---- */

/* XML has no link layer.  An InfiniBand port has a LID once it was up, and its PCI class is no
 * Ethernet; EFA's is, and it speaks neither. */
static void port_link_guess(struct topology_port *port, const struct topology_device *device,
                            hwloc_obj_t pci, const char *lid)
{
    bool has_lid = lid && strtoul(lid, NULL, 0) != 0;
    bool ethernet = pci && pci->attr->pcidev.class_id == PCI_CLASS_ETHERNET;

    if (has_lid || (pci && pci->attr->pcidev.class_id >> 8 == PCI_BASE_NETWORK && !ethernet))
        snprintf(port->link, sizeof(port->link), "InfiniBand");
    else if (ethernet && device->vendor != PCI_VENDOR_AMAZON)
        snprintf(port->link, sizeof(port->link), "Ethernet");
}

static void ports_from_xml(struct topology_device *device, hwloc_obj_t object)
{
    char name[32];

    while (device->port_count < TOPOLOGY_PORTS_MAX) {
        struct topology_port *port = &device->port[device->port_count];
        snprintf(name, sizeof(name), "Port%uState", device->port_count + 1);
        const char *state = hwloc_obj_get_info_by_name(object, name);
        if (!state)
            break;
        *port = (struct topology_port){.number = ++device->port_count};
        long number = strtol(state, NULL, 10);
        if (number >= TOPOLOGY_PORT_DOWN && number <= TOPOLOGY_PORT_ACTIVE)
            port->state = (enum topology_port_state)number;
        snprintf(name, sizeof(name), "Port%uLID", port->number);
        port_link_guess(port, device, pci_above(object), hwloc_obj_get_info_by_name(object, name));
    }
}

/* Where the network interface is, or all those that it is made of; NULL: unknown. */
static hwloc_obj_t interface_place(const struct discovery *discovery, const char *name,
                                   unsigned depth)
{
    struct machine_names members;
    hwloc_obj_t object = NULL;
    hwloc_obj_t place = NULL;

    while ((object = hwloc_get_next_osdev(discovery->topology->hwloc, object)))
        if (object->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK && object->name &&
            strcmp(object->name, name) == 0)
            return object->parent;
    if (depth == MEMBERS_DEPTH_MAX)
        return NULL;
    machine_net_members(discovery->root, name, &members);
    for (size_t i = 0; i < members.count; i++) {
        hwloc_obj_t member = interface_place(discovery, members.name[i], depth + 1);
        place = i == 0 ? member : object_common(place, member);
        if (!place)
            return NULL;
    }
    return place;
}

/* hwloc does not list devices without hardware of their own, such as Soft-RoCE. */
static void rdma_virtual_add(struct discovery *discovery)
{
    struct machine_names names;
    char interface[TOPOLOGY_LABEL_MAX];
    size_t real = discovery->count;

    machine_rdma_list(discovery->root, &names);
    for (size_t i = 0; i < names.count; i++) {
        hwloc_obj_t place = NULL;
        bool known = false;
        for (size_t k = 0; k < real && !known; k++)
            known = discovery->found[k].device.kind == TOPOLOGY_KIND_RDMA &&
                    strcmp(discovery->found[k].device.name, names.name[i]) == 0;
        if (known)
            continue;
        if (machine_rdma_interface(discovery->root, names.name[i], interface, sizeof(interface)))
            place = interface_place(discovery, interface, 0);
        device_add(discovery, TOPOLOGY_KIND_RDMA, names.name[i], place);
    }
}

static void rdma_ports_ask(const struct discovery *discovery, struct topology_device *device)
{
    struct topology_port port[TOPOLOGY_PORTS_MAX];
    unsigned count = discovery->root ? machine_rdma_ports(discovery->root, device->name, port) : 0;

    if (count > 0) {
        memcpy(device->port, port, sizeof(port));
        device->port_count = count;
    } else if (device->port_count == 0) {
        device->port[0] = (struct topology_port){.number = 1};
        device->port_count = 1;
    }
}

/* ConnectX numbers its virtual functions so; for XML, which has nothing else to tell them by. */
static bool pci_is_virtual_function(hwloc_obj_t pci)
{
    static const uint16_t ids[] = {0x1004, 0x1012, 0x1014, 0x1016, 0x1018, 0x101a, 0x101c, 0x101e};

    if (!pci || pci->attr->pcidev.vendor_id != PCI_VENDOR_MELLANOX)
        return false;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        if (pci->attr->pcidev.device_id == ids[i])
            return true;
    return false;
}

/* The RDMA device whose virtual function this is, when both are here: they share the wire. */
static const struct topology_device *physical_of(const struct discovery *discovery,
                                                 const struct found *own)
{
    char bus_id[16] = "";
    hwloc_obj_t pci = pci_above(own->place);
    bool told = discovery->root && machine_rdma_physical(discovery->root, own->device.name, bus_id);

    if (!told && !pci_is_virtual_function(pci))
        return NULL;
    for (size_t i = 0; i < discovery->count; i++) {
        const struct found *other = &discovery->found[i];
        hwloc_obj_t other_pci = pci_above(other->place);
        if (other == own || other->device.kind != TOPOLOGY_KIND_RDMA || !other_pci)
            continue;
        if (told ? strcmp(other->device.bus_id, bus_id) == 0
                 : other_pci->parent == pci->parent && !pci_is_virtual_function(other_pci) &&
                       other->device.vendor == own->device.vendor)
            return &other->device;
    }
    return NULL;
}

static bool port_may_work(const struct topology_device *device)
{
    for (unsigned i = 0; i < device->port_count; i++)
        if (device->port[i].state == TOPOLOGY_PORT_ACTIVE ||
            device->port[i].state == TOPOLOGY_PORT_UNKNOWN)
            return true;
    return false;
}

static void rdma_judge(const struct discovery *discovery, struct found *found)
{
    struct topology_device *device = &found->device;
    const struct topology_device *physical = physical_of(discovery, found);
    char why[96];

    if (physical)
        snprintf(device->left_out, sizeof(device->left_out), "SR-IOV function of %s",
                 physical->name);
    else if (!port_may_work(device))
        snprintf(device->left_out, sizeof(device->left_out), "no port is active: port %u is %s",
                 device->port[0].number, topology_port_state_name(device->port[0].state));
    else if (discovery->root &&
             !machine_rdma_openable(discovery->root, device->name, why, sizeof(why)))
        snprintf(device->left_out, sizeof(device->left_out), "%s", why);
}

/* ---- network interfaces ---- */

/* An InfiniBand address has 20 bytes, "80:00:…". */
static void interface_port_from_xml(struct topology_device *device, hwloc_obj_t object)
{
    const char *address = hwloc_obj_get_info_by_name(object, "Address");

    device->port[0] = (struct topology_port){.number = 1};
    device->port_count = 1;
    if (address)
        snprintf(device->port[0].link, sizeof(device->port[0].link), "%s",
                 strlen(address) > 40 ? "InfiniBand" : "Ethernet");
}

static void interface_judge(const struct discovery *discovery, struct topology_device *device)
{
    char master[32];

    if (!discovery->root || !machine_net_port(discovery->root, device->name, &device->port[0]))
        return;
    if (machine_net_master(discovery->root, device->name, master, sizeof(master)))
        snprintf(device->left_out, sizeof(device->left_out), "part of %s", master);
    else if (device->port[0].state == TOPOLOGY_PORT_DOWN)
        snprintf(device->left_out, sizeof(device->left_out), "down");
}

/* ---- all of them ---- */

const char *topology_kind_name(enum topology_kind kind)
{
    static const char *const names[] = {"gpu", "openfabrics", "network"};

    return names[kind];
}

const char *topology_port_state_name(enum topology_port_state state)
{
    static const char *const names[] = {"unknown", "down", "init", "armed", "active"};

    return names[state];
}

static void discover_from_hwloc(struct discovery *discovery)
{
    hwloc_topology_t hwloc = discovery->topology->hwloc;
    hwloc_obj_t object = NULL;

    while ((object = hwloc_get_next_pcidev(hwloc, object)))
        if (pci_is_gpu(object))
            gpu_add(discovery, object);
    while ((object = hwloc_get_next_osdev(hwloc, object))) {
        const char *name = object->name ? object->name : "unnamed";
        if (object->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS)
            ports_from_xml(&device_add(discovery, TOPOLOGY_KIND_RDMA, name, object->parent)->device,
                           object);
        else if (object->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK)
            interface_port_from_xml(
                &device_add(discovery, TOPOLOGY_KIND_NETWORK, name, object->parent)->device,
                object);
    }
}

/* By kind, then by name as people count: mlx5_2 before mlx5_10; a longer bus id is a higher one. */
static int by_kind_and_name(const void *left, const void *right)
{
    const struct topology_device *a = &((const struct found *)left)->device;
    const struct topology_device *b = &((const struct found *)right)->device;
    size_t length_a = strlen(a->name);
    size_t length_b = strlen(b->name);

    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->kind != TOPOLOGY_KIND_GPU)
        return strverscmp(a->name, b->name);
    return length_a != length_b ? (length_a < length_b ? -1 : 1) : strcmp(a->name, b->name);
}

static int lists_keep(struct topology *topology, const struct discovery *discovery)
{
    topology->device = calloc(discovery->count + 1, sizeof(*topology->device));
    topology->place = calloc(discovery->count + 1, sizeof(hwloc_obj_t));
    if (!topology->device || !topology->place)
        return -1;
    for (size_t i = 0; i < discovery->count; i++) {
        topology->device[i] = discovery->found[i].device;
        topology->place[i] = discovery->found[i].place;
    }
    topology->device_count = discovery->count;
    return 0;
}

int topology_devices_fill(struct topology *topology, const char *root, char *text, size_t text_size)
{
    struct discovery discovery = {.topology = topology, .root = root};
    int pci = hwloc_get_nbobjs_by_type(topology->hwloc, HWLOC_OBJ_PCI_DEVICE);
    int os = hwloc_get_nbobjs_by_type(topology->hwloc, HWLOC_OBJ_OS_DEVICE);
    size_t room = (size_t)(pci > 0 ? pci : 0) + (size_t)(os > 0 ? os : 0) + MACHINE_DEVICES_MAX;
    int rc = -1;

    discovery.found = calloc(room, sizeof(*discovery.found));
    if (!discovery.found)
        goto out;
    discover_from_hwloc(&discovery);
    if (root)
        rdma_virtual_add(&discovery);
    for (size_t i = 0; i < discovery.count; i++)
        if (discovery.found[i].device.kind == TOPOLOGY_KIND_RDMA)
            rdma_ports_ask(&discovery, &discovery.found[i].device);
    for (size_t i = 0; i < discovery.count; i++) {
        if (discovery.found[i].device.kind == TOPOLOGY_KIND_RDMA)
            rdma_judge(&discovery, &discovery.found[i]);
        else if (discovery.found[i].device.kind == TOPOLOGY_KIND_NETWORK)
            interface_judge(&discovery, &discovery.found[i].device);
    }
    qsort(discovery.found, discovery.count, sizeof(*discovery.found), by_kind_and_name);
    rc = lists_keep(topology, &discovery);
out:
    if (rc < 0)
        topology_fail(text, text_size, "no memory for the list of %zu devices", room);
    free(discovery.found);
    return rc;
}

const struct topology_device *topology_gpu_by_index(const struct topology *topology, unsigned index)
{
    const struct topology_device *device = topology->device;
    bool nvidia = false;

    for (size_t i = 0; i < topology->device_count; i++)
        nvidia = nvidia ||
                 (device[i].kind == TOPOLOGY_KIND_GPU && device[i].vendor == PCI_VENDOR_NVIDIA);
    /* CUDA sees those of NVIDIA only. */
    for (size_t i = 0; i < topology->device_count; i++)
        if (device[i].kind == TOPOLOGY_KIND_GPU &&
            (!nvidia || device[i].vendor == PCI_VENDOR_NVIDIA) && index-- == 0)
            return &device[i];
    return NULL;
}
