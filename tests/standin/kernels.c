/* The twins of the kernels that tests and programs launch: what the device would have done, with
 * the same parameters.  A twin knows nothing of the PTX but its list of parameters; the PTX of the
 * benchmark is run by tests/python/ptx.py. */
#include <string.h>

#include "tests/standin/cuda.h"

/* The whole of a range, which was checked when the kernel was launched. */
static char *range_reach(const struct standin_work *launch, unsigned int range, bool write)
{
    const struct standin_range *of = &launch->twin->ranges[range];
    size_t size = standin_range_size(launch, of), part = size;
    char *bytes = standin_reach(launch->twin->name, launch->arguments[of->address], &part, write);

    if (part != size)
        standin_die("%s: the twin needs memory in one piece", launch->twin->name);
    return bytes;
}

/* standin_invert(u64 address, u64 size): for the stand-in's own test. */
static void invert(const struct standin_work *launch)
{
    char *bytes = range_reach(launch, 0, true);

    for (size_t i = 0; i < launch->arguments[1]; i++)
        bytes[i] = (char)~bytes[i];
}

/* ---- client/bench/pattern.ptx ---- */

/* Its threads are numbered by x alone: with more of them a byte would be counted twice. */
static void line_check(const struct standin_work *launch)
{
    if (launch->grid[1] * launch->grid[2] * launch->block[1] * launch->block[2] != 1)
        standin_die("%s: a grid of more than one dimension", launch->twin->name);
}

static unsigned char pattern_at(const struct standin_work *launch, size_t offset)
{
    uint64_t start = launch->arguments[2], step = launch->arguments[3];

    return (unsigned char)((start + offset / 8 * step) >> offset % 8 * 8);
}

/* pattern_fill(u64 block, u64 length, u64 start, u64 step) */
static void pattern_fill(const struct standin_work *launch)
{
    char *bytes = range_reach(launch, 0, true);

    line_check(launch);
    for (size_t i = 0; i < launch->arguments[1]; i++)
        bytes[i] = (char)pattern_at(launch, i);
}

/* pattern_check(u64 block, u64 length, u64 start, u64 step, u64 verdict): adds to the verdict. */
static void pattern_check(const struct standin_work *launch)
{
    const char *bytes = range_reach(launch, 0, false);
    char *verdict = range_reach(launch, 1, true);
    uint64_t told[3]; /* seen, wrong, first */

    line_check(launch);
    if (launch->arguments[4] % 8 != 0)
        standin_die("pattern_check: the verdict is not aligned to 8 bytes");
    memcpy(told, verdict, sizeof(told));
    told[0] += launch->arguments[1];
    for (size_t i = 0; i < launch->arguments[1]; i++) {
        if ((unsigned char)bytes[i] == pattern_at(launch, i))
            continue;
        told[1]++;
        told[2] = i < told[2] ? i : told[2];
    }
    memcpy(verdict, told, sizeof(told));
}

size_t standin_range_size(const struct standin_work *launch, const struct standin_range *range)
{
    return range->bytes ? range->bytes : launch->arguments[range->size];
}

const struct standin_twin *standin_twin_find(const char *kernel)
{
    static const struct standin_twin twins[] = {
        {"standin_invert", invert, 2, 1, {{.address = 0, .size = 1}}},
        {"pattern_fill", pattern_fill, 4, 1, {{.address = 0, .size = 1}}},
        {"pattern_check",
         pattern_check,
         5,
         2,
         {{.address = 0, .size = 1}, {.address = 4, .bytes = 24}}},
    };

    for (size_t i = 0; i < sizeof(twins) / sizeof(twins[0]); i++) {
        if (strcmp(twins[i].name, kernel) == 0)
            return &twins[i];
    }
    return NULL;
}
