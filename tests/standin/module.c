/* Modules and kernels.  PTX is not run: the text is searched for the entry and its parameters, and
 * a twin in C (kernels.c) does what the kernel would. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/standin/cuda.h"

#define PARAMETERS 16

struct cuda_function {
    struct list node;
    char name[64];
    const struct standin_twin *twin;
    unsigned int parameters;
    unsigned char sizes[PARAMETERS];
};

struct cuda_module {
    struct list node, functions;
    char *text;
};

static struct list modules = {&modules, &modules};

static struct cuda_module *module_check(const char *call, struct cuda_module *module)
{
    list_each (node, following, &modules) {
        if (list_entry(node, struct cuda_module, node) == module)
            return module;
    }
    standin_die("%s: %p is no module, or was unloaded", call, (void *)module);
}

enum cuda_result cuModuleLoadData(struct cuda_module **out, const void *image)
{
    struct cuda_context *context;
    struct cuda_module *module;
    enum cuda_result dead;

    STANDIN_ENTER("cuModuleLoadData");
    dead = standin_context_live("cuModuleLoadData", &context);
    if (dead != CUDA_OK)
        return standin_leave(dead);
    if (!strstr(image, ".version"))
        return standin_leave(CUDA_INVALID_IMAGE);
    if (!strstr(image, ".target") || !strstr(image, ".address_size 64"))
        return standin_leave(CUDA_INVALID_PTX);
    module = calloc(1, sizeof(*module));
    if (!module || !(module->text = strdup(image)))
        standin_die("no memory for the stand-in itself");
    list_init(&module->functions);
    list_append(&modules, &module->node);
    standin_count->modules++;
    *out = module;
    return standin_leave(CUDA_OK);
}

enum cuda_result cuModuleUnload(struct cuda_module *module)
{
    STANDIN_ENTER("cuModuleUnload");
    module = module_check("cuModuleUnload", module);
    list_each (node, following, &module->functions)
        free(list_entry(node, struct cuda_function, node));
    list_remove(&module->node);
    free(module->text);
    free(module);
    standin_count->modules--;
    return standin_leave(CUDA_OK);
}

/* ".param .u64 name": 8 bytes. */
static unsigned char parameter_size(const char *text)
{
    const char *type = strstr(text, ".param");
    char *end;
    long bits;

    type = type ? strchr(type + 1, '.') : NULL;
    if (!type || !strchr("usbf", type[1]))
        return 0;
    bits = strtol(type + 2, &end, 10);
    return (unsigned char)(bits / 8);
}

/* The parameters between the parentheses behind ".entry NAME". */
static void parameters_read(struct cuda_function *function, const char *text)
{
    const char *end = strchr(text, ')');

    while (text && end && (text = strstr(text, ".param")) && text < end) {
        unsigned char size = parameter_size(text);

        if (function->parameters == PARAMETERS || size == 0 || size > 8)
            standin_die("kernel %s: parameter %u is too much for the stand-in", function->name,
                        function->parameters);
        function->sizes[function->parameters++] = size;
        text += strlen(".param");
    }
}

/* Text and twin agree about what a launch passes. */
static void parameters_check(const struct cuda_function *function)
{
    if (function->parameters != function->twin->parameters)
        standin_die("kernel %s: the PTX lists %u parameters, the twin has %u", function->name,
                    function->parameters, function->twin->parameters);
    for (unsigned int i = 0; i < function->parameters; i++)
        if (function->sizes[i] != sizeof(uint64_t))
            standin_die("kernel %s: parameter %u has %u bytes, the twin's 8", function->name, i,
                        function->sizes[i]);
}

static const char *entry_find(const char *text, const char *name)
{
    size_t length = strlen(name);

    while ((text = strstr(text, ".entry"))) {
        text += strlen(".entry");
        while (isspace((unsigned char)*text))
            text++;
        if (strncmp(text, name, length) == 0 && !isalnum((unsigned char)text[length]) &&
            text[length] != '_')
            return text + length;
    }
    return NULL;
}

enum cuda_result cuModuleGetFunction(struct cuda_function **out, struct cuda_module *module,
                                     const char *name)
{
    struct cuda_function *function;
    const char *entry;

    STANDIN_ENTER("cuModuleGetFunction");
    module = module_check("cuModuleGetFunction", module);
    entry = entry_find(module->text, name);
    if (!entry)
        return standin_leave(CUDA_NOT_FOUND);
    function = calloc(1, sizeof(*function));
    if (!function)
        standin_die("no memory for the stand-in itself");
    snprintf(function->name, sizeof(function->name), "%s", name);
    function->twin = standin_twin_find(name);
    if (!function->twin)
        standin_die("kernel %s has no twin in tests/standin/kernels.c", name);
    parameters_read(function, entry);
    parameters_check(function);
    list_append(&module->functions, &function->node);
    *out = function;
    return standin_leave(CUDA_OK);
}

static void kernel_run(struct standin_work *work)
{
    work->twin->run(work);
}

/* The memory that the kernel is given must be there as long as it runs: +1 or -1. */
static void ranges_hold(const struct standin_work *work, int change)
{
    const struct standin_range *ranges = work->twin->ranges;

    for (size_t i = 0; i < work->twin->range_count; i++) {
        size_t size = standin_range_size(work, &ranges[i]);

        if (change > 0)
            standin_range_check(work->twin->name, work->arguments[ranges[i].address], size);
        standin_range_hold(work->arguments[ranges[i].address], size, change);
    }
}

static void kernel_done(struct standin_work *work)
{
    ranges_hold(work, -1);
}

static bool is_function(const struct cuda_function *function)
{
    list_each (node, following, &modules) {
        struct cuda_module *module = list_entry(node, struct cuda_module, node);

        list_each (inner, inner_following, &module->functions) {
            if (list_entry(inner, struct cuda_function, node) == function)
                return true;
        }
    }
    return false;
}

enum cuda_result cuLaunchKernel(struct cuda_function *function, unsigned int grid_x,
                                unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
                                unsigned int block_y, unsigned int block_z, unsigned int shared,
                                struct cuda_stream *stream, void **arguments, void **extra)
{
    struct cuda_context *context;
    struct standin_work *work;
    enum cuda_result dead;

    (void)shared;
    STANDIN_ENTER("cuLaunchKernel");
    stream = standin_stream_check("cuLaunchKernel", stream);
    dead = standin_context_live("cuLaunchKernel", &context);
    if (dead != CUDA_OK)
        return standin_leave(dead);
    if (!is_function(function))
        standin_die("cuLaunchKernel: %p is no function, or its module was unloaded",
                    (void *)function);
    if (!grid_x || !grid_y || !grid_z || !block_x || !block_y || !block_z ||
        (unsigned long)block_x * block_y * block_z > 1024 || grid_x > INT32_MAX ||
        grid_y > UINT16_MAX || grid_z > UINT16_MAX)
        standin_die("cuLaunchKernel: %s: a grid of nothing, more than 1024 threads in a block, or "
                    "more blocks than any device has",
                    function->name);
    if (extra)
        standin_die("cuLaunchKernel: %s: parameters by `extra` are not known here", function->name);
    work = standin_work_new("cuLaunchKernel", stream, kernel_run);
    work->twin = function->twin;
    work->done = kernel_done;
    for (unsigned int i = 0; i < function->parameters; i++)
        memcpy(&work->arguments[i], arguments[i], function->sizes[i]);
    work->grid[0] = grid_x;
    work->grid[1] = grid_y;
    work->grid[2] = grid_z;
    work->block[0] = block_x;
    work->block[1] = block_y;
    work->block[2] = block_z;
    ranges_hold(work, 1);
    standin_count->kernels++;
    standin_stream_submit(work);
    return standin_leave(CUDA_OK);
}
