/* Hosts made of files: what each of them lacks is found, and said with the command that mends it.
 */
#include "tests/harness/test.h"

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "supervisor/doctor/doctor.h"
#include "tests/harness/standin.h"

#define PORT "/sys/class/infiniband/mlx5_0/ports/1"

static char root[] = "/tmp/tesup-doctor-XXXXXX";
static struct doctor doctor;

/* With all folders on the way. */
static void file_put(const char *path, const char *text)
{
    char whole[512];
    FILE *file;

    snprintf(whole, sizeof(whole), "%s%s", root, path);
    for (char *at = strchr(whole + strlen(root) + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(whole, 0700);
        *at = '/';
    }
    file = fopen(whole, "w");
    assert_non_null(file);
    fprintf(file, "%s\n", text);
    fclose(file);
}

static int remove_one(const char *path, const struct stat *facts, int kind, struct FTW *where)
{
    (void)facts;
    (void)kind;
    (void)where;
    return remove(path);
}

static void file_drop(const char *path)
{
    char whole[512];

    snprintf(whole, sizeof(whole), "%s%s", root, path);
    (void)nftw(whole, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* A host with one NIC and one GPU that lacks nothing. */
static int setup(void **state)
{
    (void)state;
    memcpy(root + strlen(root) - 6, "XXXXXX", 6);
    assert_non_null(mkdtemp(root));
    file_put("/dev/shm/.keep", "");
    file_put("/sys/devices/system/node/node0/cpulist", "0-3");
    file_put("/sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0");
    file_put("/dev/infiniband/uverbs0", "");
    file_put(PORT "/state", "4: ACTIVE");
    file_put(PORT "/link_layer", "Ethernet");
    file_put(PORT "/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001");
    file_put(PORT "/gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0001");
    file_put(PORT "/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000");
    file_put(PORT "/gid_attrs/types/0", "IB/RoCE v1");
    file_put(PORT "/gid_attrs/types/1", "RoCE v2");
    file_put(PORT "/gid_attrs/ndevs/0", "eth7");
    file_put("/sys/class/net/eth7/mtu", "9000");
    file_put("/sys/bus/pci/devices/0000:3b:00.0/vendor", "0x10de");
    file_put("/sys/bus/pci/devices/0000:3b:00.0/class", "0x030200");
    file_put("/sys/bus/pci/devices/0000:02:00.0/vendor", "0x8086");
    file_put("/sys/bus/pci/devices/0000:02:00.0/class", "0x030000");
    file_put("/proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15");
    file_put("/proc/sys/kernel/osrelease", "6.1.0-18-amd64");
    doctor_init(&doctor);
    doctor.root = root;
    doctor.memlock = UINT64_MAX;
    doctor.files = 65536;
    doctor.may_read_other = false;
    CPU_ZERO(&doctor.cpus);
    CPU_SET(2, &doctor.cpus);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    file_drop("");
    return 0;
}

/* One finding of that verdict says so; the others are as good as on a host that lacks nothing. */
static void expect(enum doctor_verdict verdict, const char *what, const char *text,
                   const char *remedy)
{
    unsigned others = 0;
    bool found = false;

    doctor_run(&doctor);
    for (size_t i = 0; i < doctor.count; i++) {
        const struct doctor_finding *finding = &doctor.findings[i];

        if (finding->verdict == verdict && strcmp(finding->what, what) == 0 &&
            strstr(finding->text, text) != NULL && strstr(finding->remedy, remedy) != NULL)
            found = true;
        else
            others += finding->verdict != DOCTOR_OK;
    }
    if (!found || others > 0)
        doctor_print_text(&doctor, stderr);
    assert_true(found);
    assert_int_equal(others, 0);
    assert_int_equal(doctor_worst(&doctor), verdict);
}

static void test_nothing_is_wrong(void **state)
{
    (void)state;
    expect(DOCTOR_OK, "GPU to NIC", "dmabuf (Linux 6.1.0-18-amd64", "");
    assert_int_equal(doctor.count, 8);
}

static void test_memlock(void **state)
{
    (void)state;
    doctor.memlock = 8u << 20;
    expect(DOCTOR_BAD, "memlock", "8192 KiB may be pinned", "LimitMEMLOCK=infinity");
}

static void test_memlock_is_some(void **state)
{
    (void)state;
    doctor.memlock = UINT64_C(1) << 32;
    expect(DOCTOR_NOTE, "memlock", "pins all of it", "ulimit -l unlimited");
}

static void test_few_files(void **state)
{
    (void)state;
    doctor.files = 1024;
    expect(DOCTOR_NOTE, "open files", "1024", "LimitNOFILE=4096");
}

static void test_yama(void **state)
{
    (void)state;
    file_put("/proc/sys/kernel/yama/ptrace_scope", "2");
    expect(DOCTOR_BAD, "private memory", "ptrace_scope is 2", "sysctl kernel.yama.ptrace_scope=1");
}

static void test_yama_for_ever(void **state)
{
    (void)state;
    doctor.may_read_other = true; /* that does not help then */
    file_put("/proc/sys/kernel/yama/ptrace_scope", "3");
    expect(DOCTOR_BAD, "private memory", "ptrace_scope is 3", "a reboot");
}

static void test_yama_for_root(void **state)
{
    (void)state;
    doctor.may_read_other = true;
    file_put("/proc/sys/kernel/yama/ptrace_scope", "2");
    expect(DOCTOR_OK, "private memory", "ptrace_scope 2", "");
}

static void test_cpuset(void **state)
{
    (void)state;
    file_put("/sys/devices/system/node/node1/cpulist", "4-6,9");
    expect(DOCTOR_BAD, "node1", "none of its CPUs (4-6,9) is allowed", "AllowedCPUs=");
    doctor.count = 0;
    CPU_SET(9, &doctor.cpus);
    expect(DOCTOR_OK, "node1", "CPUs 4-6,9", "");
}

static void test_no_shared_memory(void **state)
{
    (void)state;
    file_drop("/dev/shm");
    expect(DOCTOR_NOTE, "/dev/shm", "not there", "mount -t tmpfs");
}

static void test_device_cannot_be_opened(void **state)
{
    (void)state;
    file_drop("/dev/infiniband");
    expect(DOCTOR_BAD, "mlx5_0", "cannot open /dev/infiniband/uverbs0: No such file",
           "--device /dev/infiniband");
}

static void test_no_verbs_device(void **state)
{
    (void)state;
    file_put("/sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_9");
    expect(DOCTOR_BAD, "mlx5_0", "no verbs device", "modprobe ib_uverbs");
}

static void test_port_is_down(void **state)
{
    (void)state;
    file_put(PORT "/state", "1: DOWN");
    expect(DOCTOR_NOTE, "mlx5_0 port 1", "is not active (1: DOWN)", "the cable, the switch port");
}

static void test_infiniband_waits(void **state)
{
    (void)state;
    file_put(PORT "/link_layer", "InfiniBand");
    file_put(PORT "/state", "2: INIT");
    expect(DOCTOR_NOTE, "mlx5_0 port 1", "is not active (2: INIT)", "a subnet manager");
}

static void test_no_address(void **state)
{
    (void)state;
    file_drop(PORT "/gids");
    expect(DOCTOR_BAD, "mlx5_0 port 1", "has no GID", "ip address add ADDRESS/LENGTH dev eth7");
}

static void test_no_ipv4(void **state)
{
    (void)state;
    file_put(PORT "/gid_attrs/types/1", "IB/RoCE v1");
    expect(DOCTOR_NOTE, "mlx5_0 port 1", "2 GIDs, none of them RoCE v2 with IPv4",
           "ip address add");
}

static void test_small_mtu(void **state)
{
    (void)state;
    file_put("/sys/class/net/eth7/mtu", "1500");
    expect(DOCTOR_NOTE, "mlx5_0 port 1", "carry 1024 bytes instead of 4096",
           "ip link set dev eth7 mtu 4200");
}

static void test_gpu_without_a_driver(void **state)
{
    (void)state;
    file_drop("/proc/driver");
    expect(DOCTOR_BAD, "GPU driver", "1 GPUs and no driver", "modprobe nvidia");
}

static void test_gpu_without_a_way(void **state)
{
    (void)state;
    file_put("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535");
    expect(DOCTOR_NOTE, "GPU to NIC", "copied through host memory", "modprobe nvidia-peermem");
    doctor.count = 0;
    file_put("/sys/module/nvidia_peermem/refcnt", "0");
    expect(DOCTOR_OK, "GPU to NIC", "nvidia-peermem", "");
}

static void test_mig_instances(void **state)
{
    (void)state;
    setenv("STANDIN_CUDA_DEVICES", "0000:17:00.0,0000:44:00.0/mig0,0000:44:00.0/mig1", 1);
    expect(DOCTOR_OK, "MIG instance", " of 0000:44:00.0", "");
    setenv("STANDIN_CUDA_DEVICES", "none", 1);
}

static void test_old_kernel(void **state)
{
    (void)state;
    file_put("/proc/sys/kernel/osrelease", "5.10.0");
    expect(DOCTOR_NOTE, "GPU to NIC", "neither dmabuf", "Linux 5.12");
}

static void test_no_devices(void **state)
{
    (void)state;
    file_drop("/sys/class/infiniband");
    file_drop("/sys/bus");
    expect(DOCTOR_NOTE, "RDMA", "transfers go by tcp and local", "");
}

/* More than fits is left out, not written behind the end. */
static void test_many(void **state)
{
    (void)state;
    for (unsigned i = 0; i < DOCTOR_FINDINGS + 10; i++)
        doctor_remedy(doctor_add(&doctor, DOCTOR_OK, "what", "%u", i), "nothing");
    assert_int_equal(doctor.count, DOCTOR_FINDINGS);
    assert_string_equal(doctor.findings[DOCTOR_FINDINGS - 1].text, "255");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(test_nothing_is_wrong),
        TEST(test_memlock),
        TEST(test_memlock_is_some),
        TEST(test_few_files),
        TEST(test_yama),
        TEST(test_yama_for_ever),
        TEST(test_yama_for_root),
        TEST(test_cpuset),
        TEST(test_no_shared_memory),
        TEST(test_device_cannot_be_opened),
        TEST(test_no_verbs_device),
        TEST(test_port_is_down),
        TEST(test_infiniband_waits),
        TEST(test_no_address),
        TEST(test_no_ipv4),
        TEST(test_small_mtu),
        TEST(test_gpu_without_a_driver),
        TEST(test_gpu_without_a_way),
        TEST(test_mig_instances),
        TEST(test_old_kernel),
        TEST(test_no_devices),
        TEST(test_many),
    };

    (void)argc;
    standin_use(argv);
    setenv("STANDIN_CUDA_DEVICES", "none", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
