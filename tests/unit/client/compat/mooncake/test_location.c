/* The forms of `location`, and what kind of memory lies somewhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "client/compat/mooncake/code.h"
#include "client/compat/mooncake/location.h"
#include "client/compat/mooncake/probe.h"

#define PAGE 4096u

static const struct {
    const char *location;
    int code;
    const char *sentence;
} forms[] = {
    {NULL, 0, ""},
    {"", 0, ""},
    {"*", 0, ""},
    {"cpu:0", 0, ""},
    {"segments:4096:0", 0, ""},
    {"segments:2097152:0,0,0", 0, ""},
    {"cpu:", TRANSFER_ENGINE_INVALID_ARGUMENT, "'cpu:' is none"},
    {"cpu:0 ", TRANSFER_ENGINE_INVALID_ARGUMENT, "is none"},
    {"cpu:-1", TRANSFER_ENGINE_INVALID_ARGUMENT, "is none"},
    {"cpu:99999999999999999999", TRANSFER_ENGINE_INVALID_ARGUMENT, "is none"},
    {"cpu:4711", TRANSFER_ENGINE_NUMA, "no NUMA node 4711"},
    {"cuda:0", 0, ""},
    {"cuda:x", TRANSFER_ENGINE_INVALID_ARGUMENT, "is none"},
    {"segments:0:0", TRANSFER_ENGINE_INVALID_ARGUMENT, "is none"},
    {"segments:4095:0", TRANSFER_ENGINE_INVALID_ARGUMENT, "is none"},
    {"segments:4096", TRANSFER_ENGINE_INVALID_ARGUMENT, "is none"},
    {"segments:4096:", TRANSFER_ENGINE_INVALID_ARGUMENT, "is none"},
    {"segments:4096:0,", TRANSFER_ENGINE_INVALID_ARGUMENT, "is none"},
    {"segments:4096:0;1", TRANSFER_ENGINE_INVALID_ARGUMENT, "is none"},
    {"segments:4096:0,4711", TRANSFER_ENGINE_NUMA, "no NUMA node 4711"},
    {"gpu:0", TRANSFER_ENGINE_INVALID_ARGUMENT, "is none"},
};

static void each_form(void **state)
{
    char text[256];

    (void)state;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        text[0] = '\0';
        if (location_check(forms[i].location, text, sizeof(text)) != forms[i].code ||
            strstr(text, forms[i].sentence) == NULL)
            fail_msg("location '%s': '%s'", forms[i].location ? forms[i].location : "NULL", text);
    }
}

static uint64_t pages(int protection)
{
    void *bytes = mmap(NULL, 3 * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(bytes, MAP_FAILED);
    return (uint64_t)(uintptr_t)bytes;
}

static void each_kind_of_memory(void **state)
{
    uint64_t plain = pages(PROT_READ | PROT_WRITE), reserved = pages(PROT_NONE);
    uint64_t read_only = pages(PROT_READ), holes = pages(PROT_READ | PROT_WRITE);

    (void)state;
    munmap((void *)(uintptr_t)(holes + PAGE), PAGE);
    assert_int_equal(probe_memory(plain + 1, 3 * PAGE - 2), PROBE_PLAIN);
    assert_int_equal(probe_memory(reserved, 3 * PAGE), PROBE_PLAIN);
    assert_int_equal(probe_memory(read_only + 7, 1), PROBE_READ_ONLY);
    assert_int_equal(probe_memory(holes, PAGE), PROBE_PLAIN);
    assert_int_equal(probe_memory(holes + PAGE - 1, 2), PROBE_UNMAPPED);
    assert_int_equal(probe_memory(holes + PAGE, 1), PROBE_UNMAPPED);
    assert_int_equal(probe_memory(UINT64_C(1) << 62, 1), PROBE_UNMAPPED);
    munmap((void *)(uintptr_t)plain, 3 * PAGE);
    munmap((void *)(uintptr_t)reserved, 3 * PAGE);
    munmap((void *)(uintptr_t)read_only, 3 * PAGE);
    munmap((void *)(uintptr_t)holes, PAGE);
    munmap((void *)(uintptr_t)(holes + 2 * PAGE), PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_form),
        cmocka_unit_test(each_kind_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
