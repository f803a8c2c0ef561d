/* compat_bench: what programs of libtransfer_engine.so see, measured through it. */
#include <argp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client/compat/bench/bench.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)

const char *argp_program_version = "compat_bench " TESUP_VERSION;

static const struct argp_option options_list[] = {
    {"min", 'm', "SIZE", 0, "smallest block (4K)", 0},
    {"max", 'M', "SIZE", 0, "largest block (64M)", 0},
    {"op", 'o', "read|write", 0, "one of them alone", 0},
    {"warmup", 'w', "N", 0, "iterations before each measurement (100)", 0},
    {"iterations", 'i', "N", 0, "iterations of each measurement (1000)", 0},
    {"direct", 'd', NULL, 0, "also the same over libtesup, to see what the layer adds", 0},
    {"json", 'j', "FILE", 0, "also write everything there; - is standard output", 0},
    {"host", 'H', "ADDRESS", 0, "where the engines listen (127.0.0.1)", 0},
    {"socket", 's', "PATH", 0, "supervisor of the initiator (TESUP_SOCKET or the default)", 0},
    {"target-socket", 't', "PATH", 0, "supervisor of the target (that of the initiator)", 0},
    {0},
};

int bench_fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fputs("compat_bench: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return -1;
}

static bool number_parse(const char *text, bool size, uint64_t *number)
{
    char *end;

    *number = strtoull(text, &end, 10);
    if (size && (*end == 'K' || *end == 'M'))
        *number *= *end++ == 'K' ? KIB : MIB;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && *number > 0;
}

static error_t size_set(uint64_t *size, const char *arg, struct argp_state *state)
{
    if (!number_parse(arg, true, size) || *size > 1024 * MIB)
        argp_error(state, "'%s' is no size from 1 to 1024M", arg);
    return 0;
}

static error_t count_set(uint32_t *count, const char *arg, struct argp_state *state)
{
    uint64_t number;

    if (!number_parse(arg, false, &number) || number > 1000000)
        argp_error(state, "'%s' is no number from 1 to 1000000", arg);
    *count = (uint32_t)number;
    return 0;
}

static error_t op_set(struct bench_options *options, const char *arg, struct argp_state *state)
{
    options->ops[BENCH_READ] = strcmp(arg, "read") == 0;
    options->ops[BENCH_WRITE] = strcmp(arg, "write") == 0;
    if (!options->ops[BENCH_READ] && !options->ops[BENCH_WRITE])
        argp_error(state, "'%s' is neither read nor write", arg);
    return 0;
}

static error_t option_parse(int key, char *arg, struct argp_state *state)
{
    struct bench_options *options = state->input;

    switch (key) {
    case 'm':
        return size_set(&options->min, arg, state);
    case 'M':
        return size_set(&options->max, arg, state);
    case 'o':
        return op_set(options, arg, state);
    case 'w':
        return count_set(&options->warmup, arg, state);
    case 'i':
        return count_set(&options->iterations, arg, state);
    case 'd':
        options->direct = true;
        return 0;
    case 'j':
        options->json = arg;
        return 0;
    case 'H':
        options->host = arg;
        return 0;
    case 's':
        options->sockets[0] = arg;
        return 0;
    case 't':
        options->sockets[1] = arg;
        return 0;
    case ARGP_KEY_END:
        if (options->min > options->max)
            argp_error(state, "--min is larger than --max");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int bench_run(struct bench_side *side)
{
    static struct bench_row rows[MEASURE_ROWS_MAX];
    struct bench_target target;
    unsigned count = 0;
    int rc = target_start(&target, side);

    if (rc == 0) {
        rc = measure_run(side, &target, rows, &count);
        if (target_stop(&target) < 0)
            rc = -1;
    }
    if (rc == 0 && side->options->json != NULL)
        rc = report_json(side->options, rows, count);
    return rc;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options_list,
        .parser = option_parse,
        .doc = "READ and WRITE of one block at a time with a notification, through "
               "libtransfer_engine.so, from one process to another on this host: one thread, "
               "depth 1, memory of malloc.\vTime is from the submit until the block is there and "
               "the other process holds the notification. Every block size is compared byte by "
               "byte.",
    };
    struct bench_options options = {.min = 4 * KIB,
                                    .max = 64 * MIB,
                                    .warmup = 100,
                                    .iterations = 1000,
                                    .ops = {true, true},
                                    .host = "127.0.0.1"};
    struct bench_side side = {.options = &options};
    int rc;

    argp_err_exit_status = 2;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    if (options.sockets[1] == NULL)
        options.sockets[1] = options.sockets[0];
    setvbuf(stdout, NULL, _IOLBF, 0);
    side.board =
        mmap(NULL, sizeof(*side.board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    side.bytes = malloc(options.max);
    if (side.board == MAP_FAILED || side.bytes == NULL)
        return bench_fail("no memory for blocks of %llu bytes", (unsigned long long)options.max),
               EXIT_FAILURE;
    rc = bench_run(&side);
    free(side.bytes);
    return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
