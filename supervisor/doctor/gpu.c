/* NVIDIA GPUs: is there a driver, and which ways lead from a NIC into their memory. */
#include <stdlib.h>
#include <string.h>

#include "supervisor/doctor/doctor.h"
#include "supervisor/topology/gpus.h"

#define PCI_DEVICES   "/sys/bus/pci/devices"
#define VENDOR_NVIDIA 0x10de
#define CLASS_DISPLAY 0x03 /* of the three bytes, the first */

static void gpu_count(struct doctor *doctor, const char *name, void *context)
{
    size_t *count = context;

    if (doctor_number(doctor, 0, PCI_DEVICES "/%s/vendor", name) == VENDOR_NVIDIA &&
        doctor_number(doctor, 0, PCI_DEVICES "/%s/class", name) >> 16 == CLASS_DISPLAY)
        (*count)++;
}

/* "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15 ..." */
static bool check_driver(struct doctor *doctor, size_t gpus, bool *open)
{
    char version[DOCTOR_TEXT];
    struct doctor_finding *finding;

    if (doctor_read(doctor, version, sizeof(version), "/proc/driver/nvidia/version")) {
        *open = strstr(version, "Open Kernel Module") != NULL;
        doctor_add(doctor, DOCTOR_OK, "GPU driver", "%zu GPUs; %.180s", gpus, version);
        return true;
    }
    finding =
        doctor_add(doctor, DOCTOR_BAD, "GPU driver",
                   "%zu GPUs and no driver of theirs is loaded: their memory cannot be used", gpus);
    doctor_remedy(finding, "install NVIDIA's driver, `modprobe nvidia`");
    return false;
}

/* What a [pair] and a job's CUDA_VISIBLE_DEVICES may name. */
static void check_instances(struct doctor *doctor)
{
    static struct gpu_facts facts;

    gpu_facts_read(&facts);
    for (unsigned i = 0; i < facts.count; i++) {
        const struct nvml_gpu *gpu = &facts.gpu[i];

        for (unsigned k = 0; k < gpu->mig_count; k++)
            doctor_add(doctor, DOCTOR_OK, "MIG instance", "%s of %s", gpu->mig[k], gpu->bus_id);
    }
}

/* A dmabuf needs the open kernel modules and ibv_reg_dmabuf_mr(3), which is of Linux 5.12; without
 * one, nvidia-peermem does it; without both, bytes are copied through host memory. */
static void check_ways(struct doctor *doctor, bool open)
{
    bool peermem = doctor_exists(doctor, "/sys/module/nvidia_peermem");
    char release[64] = "0.0";
    long major, minor = 0;
    char *dot;
    struct doctor_finding *finding;

    (void)doctor_read(doctor, release, sizeof(release), "/proc/sys/kernel/osrelease");
    major = strtol(release, &dot, 10);
    if (*dot == '.')
        minor = strtol(dot + 1, NULL, 10);
    if (open && (major > 5 || (major == 5 && minor >= 12))) {
        doctor_add(doctor, DOCTOR_OK, "GPU to NIC", "dmabuf (Linux %s, open kernel modules)%s",
                   release, peermem ? "; nvidia-peermem, too" : "");
        return;
    }
    if (peermem) {
        doctor_add(doctor, DOCTOR_OK, "GPU to NIC", "nvidia-peermem");
        return;
    }
    finding = doctor_add(doctor, DOCTOR_NOTE, "GPU to NIC",
                         "neither dmabuf nor nvidia-peermem: bytes are copied through host memory");
    doctor_remedy(finding, "modprobe nvidia-peermem; or NVIDIA's open kernel modules on Linux 5.12 "
                           "or later");
}

void doctor_check_gpus(struct doctor *doctor)
{
    bool open = false;
    size_t gpus = 0;

    (void)doctor_each(doctor, PCI_DEVICES, gpu_count, &gpus);
    if (gpus == 0) {
        doctor_add(doctor, DOCTOR_OK, "GPU", "none here");
        return;
    }
    if (!check_driver(doctor, gpus, &open))
        return;
    check_instances(doctor);
    if (doctor_exists(doctor, "/sys/class/infiniband"))
        check_ways(doctor, open);
}
