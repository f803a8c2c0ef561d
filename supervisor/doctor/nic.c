/* RDMA devices: may we open them, is a port up, has it an address, and what does its MTU cost. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "supervisor/doctor/doctor.h"

#define DEVICES      "/sys/class/infiniband"
#define GIDS_MAX     256
#define MTU_RDMA_MAX 4096
#define MTU_HEADERS  100 /* of a RoCE v2 packet, and some more */
#define GID_NONE     "0000:0000:0000:0000:0000:0000:0000:0000"
#define GID_IPV4     "0000:0000:0000:0000:0000:ffff:"

static void check_access(struct doctor *doctor, const char *device, const char *uverbs)
{
    char path[PATH_MAX];
    struct doctor_finding *finding;

    snprintf(path, sizeof(path), "%s/dev/infiniband/%s", doctor->root, uverbs);
    if (access(path, R_OK | W_OK) == 0)
        return;
    finding = doctor_add(doctor, DOCTOR_BAD, device, "cannot open /dev/infiniband/%s: %s", uverbs,
                         strerror(errno));
    if (errno == ENOENT)
        doctor_remedy(finding, "modprobe ib_uverbs, or --device /dev/infiniband for a container");
    else
        doctor_remedy(finding,
                      "give the daemon's user read and write access: chgrp rdma "
                      "/dev/infiniband/%s, or the udev rules of rdma-core",
                      uverbs);
}

/* /sys/class/infiniband_verbs/uverbsN/ibdev names the device. */
struct uverbs_search {
    const char *device;
    char found[32];
};

static void uverbs_compare(struct doctor *doctor, const char *name, void *context)
{
    struct uverbs_search *search = context;
    char device[64];

    if (doctor_read(doctor, device, sizeof(device), "/sys/class/infiniband_verbs/%s/ibdev", name) &&
        strcmp(device, search->device) == 0)
        snprintf(search->found, sizeof(search->found), "%s", name);
}

static void check_uverbs(struct doctor *doctor, const char *device)
{
    struct uverbs_search search = {.device = device};
    struct doctor_finding *finding;

    (void)doctor_each(doctor, "/sys/class/infiniband_verbs", uverbs_compare, &search);
    if (search.found[0] != '\0') {
        check_access(doctor, device, search.found);
        return;
    }
    finding = doctor_add(doctor, DOCTOR_BAD, device, "no verbs device belongs to it");
    doctor_remedy(finding, "modprobe ib_uverbs");
}

/* How many addresses the port has, and whether one is RoCE v2 with IPv4, which is best. */
static unsigned gids_count(const struct doctor *doctor, const char *device, const char *port,
                           bool *best)
{
    unsigned count = 0;

    *best = false;
    for (int i = 0; i < GIDS_MAX; i++) {
        char gid[64], type[64] = "";

        if (!doctor_read(doctor, gid, sizeof(gid), DEVICES "/%s/ports/%s/gids/%d", device, port, i))
            break;
        if (strcmp(gid, GID_NONE) == 0)
            continue;
        count++;
        (void)doctor_read(doctor, type, sizeof(type), DEVICES "/%s/ports/%s/gid_attrs/types/%d",
                          device, port, i);
        if (strcmp(type, "RoCE v2") == 0 && strncmp(gid, GID_IPV4, strlen(GID_IPV4)) == 0)
            *best = true;
    }
    return count;
}

static void check_mtu(struct doctor *doctor, const char *what, const char *netdev)
{
    long long mtu = doctor_number(doctor, 0, "/sys/class/net/%s/mtu", netdev);
    struct doctor_finding *finding;

    if (mtu == 0 || mtu >= MTU_RDMA_MAX + MTU_HEADERS)
        return;
    finding = doctor_add(doctor, DOCTOR_NOTE, what,
                         "%s has an MTU of %lld: RDMA packets carry %d bytes instead of %d", netdev,
                         mtu, mtu >= 2048 + MTU_HEADERS ? 2048 : 1024, MTU_RDMA_MAX);
    doctor_remedy(finding,
                  "ip link set dev %s mtu 4200, on both hosts, where the switches let it "
                  "through",
                  netdev);
}

static void check_ethernet(struct doctor *doctor, const char *device, const char *port,
                           const char *what)
{
    char netdev[64] = "its network interface";
    bool best;
    unsigned gids = gids_count(doctor, device, port, &best);
    struct doctor_finding *finding;

    (void)doctor_read(doctor, netdev, sizeof(netdev), DEVICES "/%s/ports/%s/gid_attrs/ndevs/0",
                      device, port);
    if (gids == 0) {
        finding = doctor_add(doctor, DOCTOR_BAD, what, "has no GID: no peer can reach it");
        doctor_remedy(finding, "ip link set dev %s up; ip address add ADDRESS/LENGTH dev %s",
                      netdev, netdev);
        return;
    }
    finding = doctor_add(doctor, best ? DOCTOR_OK : DOCTOR_NOTE, what, "active, %u GIDs%s", gids,
                         best ? "" : ", none of them RoCE v2 with IPv4");
    if (!best)
        doctor_remedy(finding, "ip address add ADDRESS/LENGTH dev %s, unless IPv6 is meant",
                      netdev);
    check_mtu(doctor, what, netdev);
}

/* "4: ACTIVE" */
static void check_port(struct doctor *doctor, const char *device, const char *port)
{
    char what[64], state[64] = "unknown", layer[32] = "";
    struct doctor_finding *finding;

    snprintf(what, sizeof(what), "%.40s port %.8s", device, port);
    (void)doctor_read(doctor, state, sizeof(state), DEVICES "/%s/ports/%s/state", device, port);
    (void)doctor_read(doctor, layer, sizeof(layer), DEVICES "/%s/ports/%s/link_layer", device,
                      port);
    if (state[0] != '4') {
        finding = doctor_add(doctor, DOCTOR_NOTE, what, "is not active (%s)", state);
        doctor_remedy(finding, "%s",
                      strcmp(layer, "Ethernet") == 0
                          ? "the cable, the switch port, `ip link set dev ... up`"
                          : "the cable, and a subnet manager (`ibstat`, `opensm`)");
        return;
    }
    if (strcmp(layer, "Ethernet") == 0)
        check_ethernet(doctor, device, port, what);
    else
        doctor_add(doctor, DOCTOR_OK, what, "active, %s", layer);
}

static void check_device(struct doctor *doctor, const char *device, void *context)
{
    (void)context;
    check_uverbs(doctor, device);
    for (int port = 1; port <= 2; port++) {
        char number[8], path[PATH_MAX];

        snprintf(number, sizeof(number), "%d", port);
        snprintf(path, sizeof(path), DEVICES "/%s/ports/%s", device, number);
        if (doctor_exists(doctor, path))
            check_port(doctor, device, number);
    }
}

void doctor_check_nics(struct doctor *doctor)
{
    if (doctor_each(doctor, DEVICES, check_device, NULL) == 0)
        doctor_add(doctor, DOCTOR_NOTE, "RDMA", "no device: transfers go by tcp and local");
}
