/* `tesup topology`: what is in this machine, or in an hwloc XML file, and which workers that gives.
 */
#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "supervisor/command/argp.h"
#include "supervisor/command/cmd.h"
#include "supervisor/options/options.h"
#include "supervisor/topology/show.h"

enum { TEXT_MAX = 4600 }; /* a sentence with a path of PATH_MAX in it */

enum option_key {
    KEY_XML = 'x',
    KEY_JSON = 'j',
    KEY_MATRIX = 'm',
    KEY_SVG = 's',
    KEY_CONFIG = 'c',
    KEY_WORKERS = 'w',
};

struct topology_args {
    const char *xml;
    const char *config;
    const char *svg;
    bool json;
    bool matrix;
    const char *workers; /* NULL: as the config says */
};

static const struct argp_option options[] = {
    {"xml", KEY_XML, "FILE", 0,
     "read this hwloc XML file (`lstopo --of xml FILE`); default: this machine", 0},
    {"config", KEY_CONFIG, "FILE", 0,
     "plan as `tesup serve --config FILE` would; default: without a config file", 0},
    {"workers", KEY_WORKERS, "N", 0,
     "plan for N tcp workers, 0 to 64; default: 0, one per GPU, NIC or NUMA node", 0},
    {"json", KEY_JSON, NULL, 0, "print JSON; default: a tree", 0},
    {"matrix", KEY_MATRIX, NULL, 0, "print how far GPUs and NICs are from each other", 0},
    {"svg", KEY_SVG, "FILE", 0, "draw a picture into FILE, - for standard output", 0},
    {0},
};

static int workers_parse(const char *arg, uint32_t *workers)
{
    char *end;

    errno = 0;
    unsigned long value = strtoul(arg, &end, 10);
    if (!isdigit((unsigned char)arg[0]) || *end || errno || value > TOPOLOGY_PAIRS_MAX)
        return -1;
    *workers = (uint32_t)value;
    return 0;
}

static error_t args_parse(int key, char *arg, struct argp_state *state)
{
    struct topology_args *args = state->input;
    uint32_t workers;

    switch (key) {
    case KEY_XML:
        args->xml = arg;
        return 0;
    case KEY_CONFIG:
        args->config = arg;
        return 0;
    case KEY_JSON:
        args->json = true;
        return 0;
    case KEY_MATRIX:
        args->matrix = true;
        return 0;
    case KEY_SVG:
        args->svg = arg;
        return 0;
    case KEY_WORKERS:
        args->workers = arg;
        if (workers_parse(arg, &workers) == 0)
            return 0;
        argp_error(state, "--workers %s: a whole number from 0 to %d is needed", arg,
                   TOPOLOGY_PAIRS_MAX);
        return EINVAL;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s'; a file is named with --xml FILE", arg);
        return EINVAL;
    case ARGP_KEY_END:
        if (args->json + args->matrix + (args->svg != NULL) <= 1)
            return 0;
        argp_error(state, "--json, --matrix and --svg are three forms of the same; use one");
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = options,
    .parser = args_parse,
    .doc = "Shows NUMA nodes, NICs, GPUs and the plan of workers, without a supervisor.",
    .children = cmd_argp_children,
};

static int config_read(const char *path, struct serve_options *serve, char *text, size_t text_size)
{
    FILE *file = fopen(path, "re");

    if (!file) {
        snprintf(text, text_size, "config file %s: %s", path, strerror(errno));
        return -1;
    }
    int rc = options_config_read(file, path, serve, text, text_size);
    fclose(file);
    return rc;
}

/* The command line goes over the config file, as with `tesup serve`. */
static int settings_read(const struct topology_args *args, struct serve_options *serve, char *text,
                         size_t text_size)
{
    options_defaults(serve);
    if (args->config && config_read(args->config, serve, text, text_size) < 0)
        return -1;
    if (args->workers)
        workers_parse(args->workers, &serve->workers);
    if (args->xml && snprintf(serve->topology, sizeof(serve->topology), "%s", args->xml) >=
                         (int)sizeof(serve->topology)) {
        snprintf(text, text_size, "--xml: the path is longer than %d characters", PATH_MAX);
        return -1;
    }
    return 0;
}

static int svg_write(const char *path, const struct topology *topology,
                     const struct topology_plan *plan)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *out = standard ? stdout : fopen(path, "we");

    if (!out) {
        fprintf(stderr, "tesup topology: cannot write %s: %s\n", path, strerror(errno));
        return -1;
    }
    topology_show_svg(topology, plan, out);
    bool failed = ferror(out) != 0;
    if (!standard)
        failed = fclose(out) != 0 || failed;
    if (failed)
        fprintf(stderr, "tesup topology: cannot write %s: %s\n", path, strerror(errno));
    return failed ? -1 : 0;
}

static int show(const struct topology_args *args, const struct gpu_facts *facts,
                const struct topology *topology, const struct topology_plan *plan)
{
    int rc;

    if (args->svg)
        return svg_write(args->svg, topology, plan);
    setlocale(LC_CTYPE, ""); /* the tree is drawn with the lines that the terminal has */
    rc = args->json     ? topology_show_json(topology, plan, facts)
         : args->matrix ? topology_show_matrix(topology, plan, facts)
                        : topology_show_tree(topology, plan, facts);
    if (rc < 0)
        fprintf(stderr, "tesup topology: cannot print: no memory, or standard output is closed\n");
    return rc;
}

static bool rules_name_instance(const struct topology_rules *rules)
{
    for (size_t i = 0; i < rules->count; i++)
        if (strncasecmp(rules->rule[i].gpu, "MIG-", 4) == 0)
            return true;
    return false;
}

/* As `tesup serve` would make it.  A file's machine has the instances that its rules name: the file
 * itself knows of none. */
static int plan_make(const struct serve_options *serve, struct topology **topology,
                     struct gpu_facts *facts, struct topology_plan *plan, char *text,
                     size_t text_size)
{
    bool from_file = serve->topology[0] != '\0';

    if (topology_load(from_file ? serve->topology : NULL, topology, text, text_size) < 0)
        return -1;
    if (!from_file || rules_name_instance(&serve->rules))
        gpu_facts_read(facts);
    gpu_facts_name(facts, *topology);
    return topology_plan_make(*topology, &serve->rules, serve->workers, plan, text, text_size);
}

int cmd_topology(int argc, char **argv)
{
    static struct serve_options serve;
    static struct gpu_facts facts;
    struct topology_args args = {0};
    struct topology_plan plan;
    struct topology *topology = NULL;
    char text[TEXT_MAX];

    int rc = cmd_argp_parse(&argp, "tesup topology", argc, argv, 0, &args);
    if (rc)
        return rc;
    if (settings_read(&args, &serve, text, sizeof(text)) < 0 ||
        plan_make(&serve, &topology, &facts, &plan, text, sizeof(text)) < 0) {
        fprintf(stderr, "tesup topology: %s\n", text);
        topology_free(topology);
        return EXIT_FAILURE;
    }
    rc = show(&args, &facts, topology, &plan);
    topology_free(topology);
    return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
