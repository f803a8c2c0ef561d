#include "client/bench/options.h"

#include <argp.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define HELP_KEY_USAGE 0x81

struct choice {
    const char *name;
    int value;
};

static const struct choice op_choices[] = {
    {"write", BENCH_OP_WRITE}, {"read", BENCH_OP_READ}, {NULL, 0}};
static const struct choice notify_choices[] = {{"none", BENCH_NOTIFY_NONE},
                                               {"native", BENCH_NOTIFY_NATIVE},
                                               {"oob", BENCH_NOTIFY_OOB},
                                               {NULL, 0}};
static const struct choice memory_choices[] = {{"shared", BENCH_MEMORY_SHARED},
                                               {"private", BENCH_MEMORY_PRIVATE},
                                               {"gpu", BENCH_MEMORY_GPU},
                                               {NULL, 0}};
static const struct choice fabric_choices[] = {{"auto", BENCH_FABRIC_AUTO},
                                               {"tcp", BENCH_FABRIC_TCP},
                                               {"local", BENCH_FABRIC_LOCAL},
                                               {"verbs", BENCH_FABRIC_VERBS},
                                               {NULL, 0}};
static const struct choice idle_choices[] = {{"adaptive", BENCH_IDLE_ADAPTIVE},
                                             {"busy", BENCH_IDLE_BUSY},
                                             {"sleep", BENCH_IDLE_SLEEP},
                                             {NULL, 0}};

enum {
    KEY_OP = 0x100,
    KEY_SIZES,
    KEY_ITERS,
    KEY_WARMUP,
    KEY_BATCH,
    KEY_DEPTH,
    KEY_NOTIFY,
    KEY_MEMORY,
    KEY_GPU,
    KEY_PEER_GPU,
    KEY_FABRIC,
    KEY_IDLE,
    KEY_JSON,
    KEY_CSV,
    KEY_CORRUPT,
    KEY_SEGMENT,
    KEY_SOCKET,
    KEY_END
};

static const struct argp_option option_table[] = {
    {0, 0, 0, 0, "What is measured (local, initiator):", 1},
    {"op", KEY_OP, "LIST", 0, "write, read or both, in this order (default: write,read)", 0},
    {"sizes", KEY_SIZES, "LIST", 0,
     "block sizes: a size, FROM:TO (doubling) or a list; 1 to 1G (default: 4K:64M)", 0},
    {"iters", KEY_ITERS, "N", 0,
     "timed iterations a row, 1 to 10000000 (default: 1000, fewer for large blocks: what moves "
     "1 GiB, at least 16)",
     0},
    {"warmup", KEY_WARMUP, "N", 0,
     "iterations before them, not timed, 0 to 10000000 (default: 100, at most iters / 10 + 1)", 0},
    {"batch", KEY_BATCH, "N", 0, "blocks submitted together as one iteration (default: 1)", 0},
    {"depth", KEY_DEPTH, "N", 0,
     "iterations in flight at once (default: 1); batch x depth is at most 1024", 0},
    {"notify", KEY_NOTIFY, "KIND", 0,
     "notification bound to each block: none, native or oob (default: native)", 0},
    {"memory", KEY_MEMORY, "KIND", 0,
     "shared or private memory of both jobs, or memory of a gpu, filled and checked there by "
     "kernels (default: shared)",
     0},
    {"gpu", KEY_GPU, "N", 0, "which GPU, as CUDA counts (default: 0)", 0},
    {"peer-gpu", KEY_PEER_GPU, "N", 0, "which GPU at the target (default: 0)", 0},
    {"fabric", KEY_FABRIC, "NAME", 0,
     "auto, tcp, local or verbs; local starts its supervisors with it, initiator refuses to run "
     "over "
     "another (default: auto)",
     0},
    {"idle", KEY_IDLE, "HOW", 0,
     "how jobs and the workers of local wait: adaptive, busy or sleep (default: adaptive)", 0},
    {"corrupt", KEY_CORRUPT, "ITERATION:OFFSET", 0,
     "damage this byte on purpose, to see that the check finds it (default: none)", 0},
    {0, 0, 0, 0, "What is printed (local, initiator):", 2},
    {"json", KEY_JSON, 0, 0, "JSON instead of the table", 0},
    {"csv", KEY_CSV, 0, 0, "CSV instead of the table", 0},
    {0, 0, 0, 0, "Where (target, initiator):", 3},
    {"segment", KEY_SEGMENT, "NAME", 0, "target: name of its segment (default: bench)", 0},
    {"socket", KEY_SOCKET, "PATH", 0,
     "supervisor's socket (default: $TESUP_SOCKET, then the default path)", 0},
    {0},
};

struct parse {
    struct bench_options *options;
    bool given[KEY_END - KEY_OP];
};

static void choices_join(const struct choice *choices, char *text, size_t size)
{
    text[0] = '\0';
    for (; choices->name; choices++) {
        strncat(text, choices->name, size - strlen(text) - 1);
        if (choices[1].name)
            strncat(text, ", ", size - strlen(text) - 1);
    }
}

static int choice_find(struct argp_state *state, const char *option, const struct choice *choices,
                       const char *text)
{
    char allowed[128];

    for (const struct choice *choice = choices; choice->name; choice++)
        if (strcmp(choice->name, text) == 0)
            return choice->value;
    choices_join(choices, allowed, sizeof(allowed));
    argp_error(state, "%s: '%s' is not one of: %s", option, text, allowed);
    return 0;
}

static uint64_t number_parse(struct argp_state *state, const char *option, const char *text,
                             uint64_t min, uint64_t max)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);

    if (!isdigit((unsigned char)text[0]) || *end != '\0' || value < min || value > max)
        argp_error(state, "%s: '%s' is not a whole number from %llu to %llu", option, text,
                   (unsigned long long)min, (unsigned long long)max);
    return value;
}

static void ops_parse(struct argp_state *state, struct bench_options *options, const char *text)
{
    char copy[64];
    char *rest = NULL;

    options->op_count = 0;
    strncpy(copy, text, sizeof(copy) - 1);
    copy[sizeof(copy) - 1] = '\0';
    for (char *name = strtok_r(copy, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        enum bench_op op = (enum bench_op)choice_find(state, "--op", op_choices, name);
        if (options->op_count == BENCH_OP_COUNT || (options->op_count == 1 && options->op[0] == op))
            argp_error(state, "--op: '%s' names an operation twice", text);
        options->op[options->op_count++] = op;
    }
    if (options->op_count == 0)
        argp_error(state, "--op: '%s' is not one of: write, read", text);
}

static void corrupt_parse(struct argp_state *state, struct bench_options *options, const char *text)
{
    char copy[64];

    strncpy(copy, text, sizeof(copy) - 1);
    copy[sizeof(copy) - 1] = '\0';
    char *colon = strchr(copy, ':');
    if (!colon) {
        argp_error(state, "--corrupt: '%s' is not ITERATION:OFFSET", text);
        return;
    }
    *colon = '\0';
    options->corrupt = true;
    options->corrupt_iteration = number_parse(state, "--corrupt", copy, 0, OPTIONS_ITERS_MAX);
    options->corrupt_offset = number_parse(state, "--corrupt", colon + 1, 0, SIZES_BLOCK_MAX);
}

static void mode_parse(struct argp_state *state, struct bench_options *options, const char *text)
{
    static const struct choice modes[] = {{"local", BENCH_MODE_LOCAL},
                                          {"target", BENCH_MODE_TARGET},
                                          {"initiator", BENCH_MODE_INITIATOR},
                                          {NULL, 0}};

    if (state->arg_num == 0)
        options->mode = (enum bench_mode)choice_find(state, "command", modes, text);
    else if (state->arg_num == 1 && options->mode == BENCH_MODE_INITIATOR)
        options->peer = text;
    else
        argp_error(state, "'%s' is one argument too many", text);
}

/* An option that its command would ignore is refused, not accepted in silence. */
static void options_check(struct argp_state *state, const struct parse *parse)
{
    const struct bench_options *options = parse->options;

    if (options->mode == BENCH_MODE_INITIATOR && !options->peer)
        argp_error(state, "initiator needs HOST:PORT/SEGMENT, as the target printed it");
    for (const struct argp_option *row = option_table; row->doc; row++) {
        int allowed = BENCH_MODE_LOCAL | BENCH_MODE_INITIATOR;
        if (row->key == 0 || !parse->given[row->key - KEY_OP])
            continue;
        if (row->key == KEY_SEGMENT)
            allowed = BENCH_MODE_TARGET;
        else if (row->key == KEY_SOCKET)
            allowed = BENCH_MODE_TARGET | BENCH_MODE_INITIATOR;
        if (!((int)options->mode & allowed))
            argp_error(state, "--%s has no meaning here; it belongs to: %s%s%s", row->name,
                       allowed & BENCH_MODE_LOCAL ? "local " : "",
                       allowed & BENCH_MODE_TARGET ? "target " : "",
                       allowed & BENCH_MODE_INITIATOR ? "initiator" : "");
    }
    if ((uint64_t)options->batch * options->depth > OPTIONS_BLOCKS_MAX)
        argp_error(state, "--batch %u x --depth %u is more than %u blocks in flight",
                   options->batch, options->depth, OPTIONS_BLOCKS_MAX);
    if ((parse->given[KEY_GPU - KEY_OP] || parse->given[KEY_PEER_GPU - KEY_OP]) &&
        options->memory != BENCH_MEMORY_GPU)
        argp_error(state, "--gpu and --peer-gpu are for --memory gpu");
    if (parse->given[KEY_JSON - KEY_OP] && parse->given[KEY_CSV - KEY_OP])
        argp_error(state, "--json and --csv exclude each other");
}

static error_t option_parse(int key, char *arg, struct argp_state *state)
{
    struct parse *parse = state->input;
    struct bench_options *options = parse->options;
    char why[256];

    if (key >= KEY_OP && key < KEY_END)
        parse->given[key - KEY_OP] = true;
    switch (key) {
    case KEY_OP:
        ops_parse(state, options, arg);
        return 0;
    case KEY_SIZES:
        if (sizes_parse(arg, &options->sizes, why, sizeof(why)))
            argp_error(state, "--sizes: %s", why);
        return 0;
    case KEY_ITERS:
        options->iters = (uint32_t)number_parse(state, "--iters", arg, 1, OPTIONS_ITERS_MAX);
        return 0;
    case KEY_WARMUP:
        options->warmup = (uint32_t)number_parse(state, "--warmup", arg, 0, OPTIONS_ITERS_MAX);
        options->warmup_given = true;
        return 0;
    case KEY_BATCH:
        options->batch = (uint32_t)number_parse(state, "--batch", arg, 1, OPTIONS_BLOCKS_MAX);
        return 0;
    case KEY_DEPTH:
        options->depth = (uint32_t)number_parse(state, "--depth", arg, 1, OPTIONS_BLOCKS_MAX);
        return 0;
    case KEY_NOTIFY:
        options->notify = (enum bench_notify)choice_find(state, "--notify", notify_choices, arg);
        return 0;
    case KEY_MEMORY:
        options->memory = (enum bench_memory)choice_find(state, "--memory", memory_choices, arg);
        return 0;
    case KEY_GPU:
        options->gpu = (uint32_t)number_parse(state, "--gpu", arg, 0, OPTIONS_GPU_MAX);
        return 0;
    case KEY_PEER_GPU:
        options->peer_gpu = (uint32_t)number_parse(state, "--peer-gpu", arg, 0, OPTIONS_GPU_MAX);
        return 0;
    case KEY_FABRIC:
        options->fabric = (enum bench_fabric)choice_find(state, "--fabric", fabric_choices, arg);
        return 0;
    case KEY_IDLE:
        options->idle = (enum bench_idle)choice_find(state, "--idle", idle_choices, arg);
        return 0;
    case KEY_JSON:
        options->format = BENCH_FORMAT_JSON;
        return 0;
    case KEY_CSV:
        options->format = BENCH_FORMAT_CSV;
        return 0;
    case KEY_CORRUPT:
        corrupt_parse(state, options, arg);
        return 0;
    case KEY_SEGMENT:
        options->segment = arg;
        return 0;
    case KEY_SOCKET:
        options->socket = arg;
        return 0;
    case ARGP_KEY_ARG:
        mode_parse(state, options, arg);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "say what to run: local, target or initiator HOST:PORT/SEGMENT");
        return 0;
    case ARGP_KEY_SUCCESS:
        options_check(state, parse);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* argp's own help has another letter than the other commands of tesup. */
static const struct argp_option help_table[] = {
    {"help", 'h', 0, 0, "show this text and exit", -1},
    {"usage", HELP_KEY_USAGE, 0, 0, "show the options in short and exit", -1},
    {0},
};

static error_t help_parse(int key, char *arg, struct argp_state *state)
{
    (void)arg;
    if (key != 'h' && key != HELP_KEY_USAGE)
        return ARGP_ERR_UNKNOWN;
    argp_state_help(state, stdout, key == 'h' ? ARGP_HELP_STD_HELP : ARGP_HELP_USAGE);
    exit(EXIT_SUCCESS);
}

void options_parse(struct bench_options *options, int argc, char **argv)
{
    static const struct argp help_argp = {.options = help_table, .parser = help_parse};
    static const struct argp_child children[] = {{&help_argp, 0, NULL, -1}, {0}};
    static const struct argp argp = {
        .options = option_table,
        .parser = option_parse,
        .children = children,
        .args_doc = "local\ntarget\ninitiator HOST:PORT/SEGMENT",
        .doc = "Measure READ and WRITE with their notifications, and check every byte.\v"
               "`local` starts two private supervisors and both jobs on this machine and removes "
               "them again. For two hosts, run `target` on one and `initiator` with the name that "
               "it printed on the other. Exit code: 0 all verified, 1 a wrong byte or a failure, "
               "2 a wrong command line.",
    };
    struct parse parse = {.options = options};

    *options = (struct bench_options){
        .segment = "bench",
        .op = {BENCH_OP_WRITE, BENCH_OP_READ},
        .op_count = 2,
        .batch = 1,
        .depth = 1,
        .notify = BENCH_NOTIFY_NATIVE,
    };
    for (uint64_t size = 4096; size <= (UINT64_C(64) << 20); size *= 2)
        options->sizes.size[options->sizes.count++] = size;
    argp_err_exit_status = OPTIONS_EXIT_USAGE;
    argp_parse(&argp, argc, argv, ARGP_NO_HELP, NULL, &parse);
}

static const char *choice_name(const struct choice *choices, int value)
{
    for (; choices->name; choices++)
        if (choices->value == value)
            return choices->name;
    return "unknown";
}

const char *options_op_name(enum bench_op op)
{
    return choice_name(op_choices, (int)op);
}

const char *options_notify_name(enum bench_notify notify)
{
    return choice_name(notify_choices, (int)notify);
}

const char *options_memory_name(enum bench_memory memory)
{
    return choice_name(memory_choices, (int)memory);
}

const char *options_fabric_name(enum bench_fabric fabric)
{
    return choice_name(fabric_choices, (int)fabric);
}

const char *options_idle_name(enum bench_idle idle)
{
    return choice_name(idle_choices, (int)idle);
}
