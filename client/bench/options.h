/* What the command line of `tesup bench` asks for. */
#ifndef TESUP_BENCH_OPTIONS_H
#define TESUP_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "client/bench/sizes.h"

#define OPTIONS_EXIT_USAGE 2

enum bench_mode { BENCH_MODE_LOCAL = 1, BENCH_MODE_TARGET = 2, BENCH_MODE_INITIATOR = 4 };
enum bench_op { BENCH_OP_WRITE = 0, BENCH_OP_READ = 1, BENCH_OP_COUNT };
enum bench_notify { BENCH_NOTIFY_NONE = 0, BENCH_NOTIFY_NATIVE = 1, BENCH_NOTIFY_OOB = 2 };
enum bench_memory { BENCH_MEMORY_SHARED = 0, BENCH_MEMORY_PRIVATE = 1, BENCH_MEMORY_GPU = 2 };
enum bench_fabric {
    BENCH_FABRIC_AUTO = 0,
    BENCH_FABRIC_TCP = 1,
    BENCH_FABRIC_LOCAL = 2,
    BENCH_FABRIC_VERBS = 3,
};
enum bench_idle { BENCH_IDLE_ADAPTIVE = 0, BENCH_IDLE_BUSY = 1, BENCH_IDLE_SLEEP = 2 };
enum bench_format { BENCH_FORMAT_TABLE = 0, BENCH_FORMAT_JSON = 1, BENCH_FORMAT_CSV = 2 };

/* The largest batch x depth: what fits a mailbox of the smallest size with one message each. */
#define OPTIONS_BLOCKS_MAX 1024u
#define OPTIONS_ITERS_MAX  10000000u
#define OPTIONS_GPU_MAX    255u

struct bench_options {
    enum bench_mode mode;
    const char *peer;    /* initiator: HOST:PORT/SEGMENT */
    const char *segment; /* target: name of its segment */
    const char *socket;  /* target, initiator: NULL = the library's default */
    enum bench_op op[BENCH_OP_COUNT];
    uint32_t op_count;
    struct size_list sizes;
    uint32_t iters; /* 0 = by size, see case_iterations() */
    uint32_t warmup;
    bool warmup_given;
    uint32_t batch;
    uint32_t depth;
    enum bench_notify notify;
    enum bench_memory memory;
    uint32_t gpu, peer_gpu; /* index at this job and at the target */
    enum bench_fabric fabric;
    enum bench_idle idle;
    enum bench_format format;
    bool corrupt; /* damage one byte on purpose */
    uint64_t corrupt_iteration;
    uint64_t corrupt_offset;
};

/* Fills `options`; prints and exits with OPTIONS_EXIT_USAGE when the command line is wrong. */
void options_parse(struct bench_options *options, int argc, char **argv);

const char *options_op_name(enum bench_op op);
const char *options_notify_name(enum bench_notify notify);
const char *options_memory_name(enum bench_memory memory);
const char *options_fabric_name(enum bench_fabric fabric);
const char *options_idle_name(enum bench_idle idle);

#endif
