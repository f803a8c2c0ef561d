/* NVML by its stand-in: who is there, who reaches whom, what happened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/nvml.h"
#include "tests/harness/standin.h"

#define FIRST  "0000:17:00.0"
#define SECOND "0000:c1:00.0"

static struct nvml_gpu gpus[NVML_GPUS_MAX];
static char text[256];

static struct nvml *begin(void)
{
    struct nvml *nvml = nvml_open(text, sizeof(text));

    if (!nvml)
        fail_msg("%s", text);
    return nvml;
}

static int set_up(void **state)
{
    (void)state;
    setenv("STANDIN_CUDA_DEVICES", FIRST "," SECOND "/mig0," SECOND "/mig1", 1);
    setenv("STANDIN_CUDA_NUMA", "1", 1);
    unsetenv("STANDIN_CUDA_LOST");
    return 0;
}

static void gpus_have_identity_and_place(void **state)
{
    struct nvml *nvml = begin();

    (void)state;
    assert_int_equal(nvml_gpus(nvml, gpus), 2);
    assert_string_equal(gpus[0].bus_id, FIRST);
    assert_string_equal(gpus[1].bus_id, SECOND);
    assert_memory_equal(gpus[0].uuid, "GPU-", 4);
    assert_int_equal(strlen(gpus[0].uuid), 40);
    assert_string_not_equal(gpus[0].uuid, gpus[1].uuid);
    assert_int_equal(gpus[0].numa_node, 1);
    assert_int_equal(gpus[0].mig_count, 0);
    assert_int_equal(gpus[1].mig_count, 2);
    assert_memory_equal(gpus[1].mig[1], "MIG-", 4);
    assert_int_equal(nvml_path(nvml, FIRST, SECOND), NVML_PATH_NODE);
    assert_int_equal(nvml_path(nvml, FIRST, "0000:ff:00.0"), NVML_PATH_UNKNOWN);
    nvml_close(nvml);
}

static void links_join_pairs(void **state)
{
    struct nvml *nvml = begin();

    (void)state;
    assert_false(nvml_is_nvlinked(nvml, FIRST, SECOND));
    setenv("STANDIN_NVML_NVLINK", FIRST "+" SECOND, 1);
    assert_true(nvml_is_nvlinked(nvml, SECOND, FIRST));
    assert_false(nvml_is_nvlinked(nvml, FIRST, FIRST));
    assert_int_equal(nvml_gpus(nvml, gpus), 2);
    unsetenv("STANDIN_NVML_NVLINK");
    assert_true(gpus[0].nvlinks >= 4);
    nvml_close(nvml);
}

static void event_add(const char *path, const char *line)
{
    FILE *file = fopen(path, "ae");

    assert_non_null(file);
    fprintf(file, "%s\n", line);
    fclose(file);
}

static void event_expect(struct nvml_watch *watch, uint64_t xid, bool severe, const char *says)
{
    struct nvml_event event;

    assert_true(nvml_watch_poll(watch, &event));
    assert_int_equal(event.xid, xid);
    assert_int_equal(event.severe, severe);
    assert_string_equal(event.text, says);
}

static void events_are_told_once_and_weighed(void **state)
{
    char path[] = "/tmp/tesup-nvml-XXXXXX";
    int fd = mkstemp(path);
    struct nvml_watch *watch;
    struct nvml_event event;
    struct nvml *nvml = begin();

    (void)state;
    close(fd);
    setenv("STANDIN_NVML_EVENTS", path, 1);
    assert_int_equal(nvml_watch_open(nvml, FIRST, &watch, text, sizeof(text)), 0);
    assert_false(nvml_watch_poll(watch, &event));
    event_add(path, SECOND " 79"); /* another GPU's */
    event_add(path, FIRST " 31");
    event_add(path, FIRST " 79");
    event_add(path, FIRST " 0");
    event_expect(watch, 31, false, "Xid 31");
    event_expect(watch, 79, true, "Xid 79 (the GPU has fallen off the bus)");
    event_expect(watch, 0, true, "uncorrectable ECC error");
    assert_false(nvml_watch_poll(watch, &event));
    /* A lost GPU is told, but not for ever. */
    setenv("STANDIN_CUDA_LOST", path, 1);
    event_add(path, FIRST " 719");
    event_expect(watch, 719, true, "Xid 719");
    event_expect(watch, 0, true, "the GPU is lost");
    assert_false(nvml_watch_poll(watch, &event));
    nvml_watch_close(watch);
    unsetenv("STANDIN_CUDA_LOST");
    unsetenv("STANDIN_NVML_EVENTS");
    unlink(path);
    nvml_close(nvml);
}

static void what_is_not_there_is_said(void **state)
{
    struct nvml_watch *watch;
    struct nvml *nvml = begin();

    (void)state;
    assert_int_equal(nvml_watch_open(nvml, "0000:ff:00.0", &watch, text, sizeof(text)),
                     TS_ERR_NOT_FOUND);
    assert_non_null(strstr(text, "no GPU 0000:ff:00.0"));
    setenv("STANDIN_NVML_EVENT_TYPES", "16", 1);
    assert_int_equal(nvml_watch_open(nvml, FIRST, &watch, text, sizeof(text)), TS_ERR_UNSUPPORTED);
    unsetenv("STANDIN_NVML_EVENT_TYPES");
    nvml_close(nvml);
    setenv("STANDIN_NVML_INIT", "9", 1);
    assert_null(nvml_open(text, sizeof(text)));
    assert_non_null(strstr(text, "the driver is not loaded"));
    unsetenv("STANDIN_NVML_INIT");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_have_identity_and_place),
        cmocka_unit_test(links_join_pairs),
        cmocka_unit_test(events_are_told_once_and_weighed),
        cmocka_unit_test(what_is_not_there_is_said),
    };

    (void)argc;
    standin_use(argv);
    return cmocka_run_group_tests(tests, set_up, NULL);
}
