/* Which GPU a job means by an index. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "shm/err.h"
#include "shm/visible.h"

static const char *const bus_ids[] = {"0000:c4:00.0", "0000:03:00.0", "0000:84:00.0",
                                      "0001:01:00.0"};

static char driver[64];

static int driver_make(void **state)
{
    char path[128];

    (void)state;
    snprintf(driver, sizeof(driver), "/tmp/tesup-visible-XXXXXX");
    if (!mkdtemp(driver))
        return -1;
    for (size_t i = 0; i < sizeof(bus_ids) / sizeof(bus_ids[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", driver, bus_ids[i]);
        if (mkdir(path, 0700) < 0)
            return -1;
    }
    return 0;
}

static int driver_remove(void **state)
{
    char path[128];

    (void)state;
    for (size_t i = 0; i < sizeof(bus_ids) / sizeof(bus_ids[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", driver, bus_ids[i]);
        rmdir(path);
    }
    return rmdir(driver);
}

struct meaning {
    const char *visible;
    unsigned index;
    const char *gpu;    /* NULL: refused */
    const char *phrase; /* of the refusal */
};

static void meanings_check(const char *folder, const struct meaning *meaning, size_t count)
{
    for (size_t i = 0; i < count; i++, meaning++) {
        char gpu[VISIBLE_GPU_MAX] = "", why[256] = "";
        int rc = visible_gpu(meaning->visible, folder, meaning->index, gpu, why, sizeof(why));
        const char *visible = meaning->visible ? meaning->visible : "(unset)";

        if ((rc == TS_OK) != (meaning->gpu != NULL))
            fail_msg("%s, %u: %d '%s' %s", visible, meaning->index, rc, gpu, why);
        if (meaning->gpu && strcmp(gpu, meaning->gpu) != 0)
            fail_msg("%s, %u: '%s' instead of '%s'", visible, meaning->index, gpu, meaning->gpu);
        if (!meaning->gpu && !strstr(why, meaning->phrase))
            fail_msg("%s, %u: '%s' does not say '%s'", visible, meaning->index, why,
                     meaning->phrase);
    }
}

#define MEANINGS_CHECK(folder, ...)                                   \
    do {                                                              \
        const struct meaning list[] = {__VA_ARGS__};                  \
        meanings_check(folder, list, sizeof(list) / sizeof(list[0])); \
    } while (0)

static void index_counts_by_bus_id(void **state)
{
    (void)state;
    MEANINGS_CHECK(driver, {NULL, 0, "0000:03:00.0", NULL}, {NULL, 1, "0000:84:00.0", NULL},
                   {NULL, 2, "0000:c4:00.0", NULL}, {NULL, 3, "0001:01:00.0", NULL},
                   {NULL, 4, NULL, "this process sees 4 GPUs, so there is no GPU 4"});
}

static void list_renumbers(void **state)
{
    (void)state;
    MEANINGS_CHECK(driver, {"2,0", 0, "0000:c4:00.0", NULL}, {"2,0", 1, "0000:03:00.0", NULL},
                   {" 2 , 0 ", 1, "0000:03:00.0", NULL},
                   {"2,0", 2, NULL, "CUDA_VISIBLE_DEVICES=2,0 has 2 GPUs, so there is no GPU 2"},
                   {"GPU-8932f937-d72c-4106-c12f-20bd9faed9f6,1", 0,
                    "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", NULL},
                   {"GPU-89,1", 1, "0000:84:00.0", NULL},
                   {"MIG-GPU-8932f937-d72c-4106-c12f-20bd9faed9f6/1/0", 0,
                    "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", NULL},
                   {"MIG-1c2d3e4f-0000-1111-2222-333344445555", 0,
                    "MIG-1c2d3e4f-0000-1111-2222-333344445555", NULL});
}

/* CUDA ends the list at the first entry that is no GPU. */
static void list_ends_where_cuda_ends_it(void **state)
{
    (void)state;
    MEANINGS_CHECK(driver, {"", 0, NULL, "has 0 GPUs"}, {"-1", 0, NULL, "has 0 GPUs"},
                   {"1,-1,2", 0, "0000:84:00.0", NULL}, {"1,-1,2", 1, NULL, "has 1 GPUs"},
                   {"1,-1,2", 2, NULL, "has 1 GPUs"}, {"7", 0, NULL, "sees 4 GPUs"},
                   {"none", 0, NULL, "name the GPU by bus id"}, {"1x", 0, NULL, "1x is no GPU"},
                   {"99999999999999999999", 0, NULL, "is no GPU"});
}

static void without_the_driver_the_number_stays(void **state)
{
    (void)state;
    MEANINGS_CHECK("/nowhere/at/all", {NULL, 3, "3", NULL}, {"5,2", 1, "2", NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(index_counts_by_bus_id),
        cmocka_unit_test(list_renumbers),
        cmocka_unit_test(list_ends_where_cuda_ends_it),
        cmocka_unit_test(without_the_driver_the_number_stays),
    };

    return cmocka_run_group_tests(tests, driver_make, driver_remove);
}
