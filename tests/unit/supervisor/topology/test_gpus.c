/* What NVML knows goes to the GPU with the same bus id, in every form of `tesup topology`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "supervisor/topology/show.h"
#include "tests/harness/standin.h"

static struct topology *topology;
static struct topology_plan plan;
static struct gpu_facts facts;
static char text[32768];

static int set_up(void **state)
{
    (void)state;
    assert_int_equal(topology_load_rooted(TESUP_FIXTURES "/topology/nps4.xml", NULL, &topology,
                                          text, sizeof(text)),
                     0);
    assert_int_equal(topology_plan_make(topology, NULL, 0, &plan, text, sizeof(text)), 0);
    setenv("STANDIN_CUDA_DEVICES", "0000:03:00.0,0000:44:00.0/mig0,0000:c4:00.0", 1);
    setenv("STANDIN_NVML_NVLINK", "0000:44:00.0+0000:c4:00.0", 1);
    gpu_facts_read(&facts);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    topology_free(topology);
    return 0;
}

static void shown(int (*show)(const struct topology *, const struct topology_plan *,
                              const struct gpu_facts *))
{
    FILE *capture = tmpfile();
    int out = dup(STDOUT_FILENO);
    size_t length;

    assert_non_null(capture);
    fflush(NULL);
    dup2(fileno(capture), STDOUT_FILENO);
    assert_int_equal(show(topology, &plan, &facts), 0);
    fflush(NULL);
    dup2(out, STDOUT_FILENO);
    close(out);
    rewind(capture);
    length = fread(text, 1, sizeof(text) - 1, capture);
    text[length] = '\0';
    fclose(capture);
}

static void every_form_tells_of_links(void **state)
{
    const char *gpu;

    (void)state;
    assert_int_equal(facts.count, 3);
    shown(topology_show_json);
    gpu = strstr(text, "\"bus_id\": \"0000:44:00.0\"");
    assert_non_null(gpu);
    assert_memory_equal(strstr(gpu, "\"uuid\": ") + 8, "\"GPU-", 5);
    assert_non_null(strstr(gpu, "\"nvlink\": [\n        \"0000:c4:00.0\"\n"));
    assert_non_null(strstr(gpu, "\"mig\": [\n        \"MIG-"));
    shown(topology_show_matrix);
    assert_non_null(strstr(text, "GPU1   SYS   X     SYS   NV "));
    shown(topology_show_tree);
    assert_non_null(strstr(text, "NVLinks: 0000:c4:00.0; 1 MIG instances"));
}

static void without_nvml_there_is_nothing_to_tell(void **state)
{
    (void)state;
    setenv("STANDIN_NVML_INIT", "9", 1);
    gpu_facts_read(&facts);
    unsetenv("STANDIN_NVML_INIT");
    assert_int_equal(facts.count, 0);
    shown(topology_show_matrix);
    assert_non_null(strstr(text, "GPU1   SYS   X     SYS   SYS "));
    gpu_facts_print(&facts, "0000:44:00.0", text, sizeof(text));
    assert_string_equal(text, "");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_tells_of_links),
        cmocka_unit_test(without_nvml_there_is_nothing_to_tell),
    };

    (void)argc;
    standin_use(argv);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
