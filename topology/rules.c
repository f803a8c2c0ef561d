#include "topology/rules.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct reader {
    const struct scope *scope;
    const struct topology_rules *rules;
    struct draft planned; /* without any rule: what the names of sections may mean */
    char *text;
    size_t text_size;
};

__attribute__((format(printf, 4, 5))) static int rule_fail(const struct reader *reader,
                                                           const struct topology_rule *rule,
                                                           unsigned line, const char *format, ...)
{
    char what[768];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    return topology_fail(reader->text, reader->text_size, "%s:%u: [pair %s]: %s",
                         reader->rules->file, line, rule->name, what);
}

static const struct draft_pair *planned_find(const struct reader *reader, const char *name)
{
    for (size_t i = 0; i < reader->planned.count; i++)
        if (strcmp(reader->planned.pair[i].name, name) == 0)
            return &reader->planned.pair[i];
    return NULL;
}

static void planned_list(const struct reader *reader, char *text, size_t text_size)
{
    size_t length = 0;

    for (size_t i = 0; i < reader->planned.count && length < text_size; i++)
        length += (size_t)snprintf(text + length, text_size - length, "%s%s", i ? ", " : "",
                                   reader->planned.pair[i].name);
}

static int gpu_read(const struct reader *reader, const struct topology_rule *rule,
                    struct claim *claim)
{
    bool is_instance = strncasecmp(rule->gpu, "MIG-", 4) == 0;
    char known[512];

    if (is_instance) {
        claim->gpu = scope_instance_find(reader->scope, rule->gpu, &claim->instance);
        scope_instances_list(reader->scope, known, sizeof(known));
    } else {
        claim->gpu = scope_gpu_find(reader->scope, rule->gpu);
        scope_gpus_list(reader->scope, known, sizeof(known));
    }
    if (claim->gpu != SCOPE_NONE)
        return 0;
    return rule_fail(reader, rule, rule->at.gpu, "gpu: '%s' is not here; %s: %s", rule->gpu,
                     is_instance ? "MIG instances" : "GPUs", known);
}

static int devices_read(const struct reader *reader, const struct topology_rule *rule,
                        struct claim *claim)
{
    const struct draft_pair *planned = planned_find(reader, rule->name);
    char known[512];

    if (planned) {
        claim->gpu = planned->gpu;
        /* A GPU's NIC is looked for again; a NIC without a GPU is what it is. */
        claim->nic = planned->gpu == SCOPE_NONE ? planned->nic : SCOPE_NONE;
    } else if (rule->nic[0] == '\0' && rule->gpu[0] == '\0') {
        planned_list(reader, known, sizeof(known));
        return rule_fail(reader, rule, rule->line,
                         "no pair has this name; give nic or gpu, or name one of: %s", known);
    }
    if (rule->gpu[0] && gpu_read(reader, rule, claim) < 0)
        return -1;
    if (rule->nic[0]) {
        claim->nic = scope_nic_find(reader->scope, rule->nic);
        scope_nics_list(reader->scope, known, sizeof(known));
        if (claim->nic == SCOPE_NONE)
            return rule_fail(reader, rule, rule->at.nic, "nic: '%s' is not here; NICs: %s",
                             rule->nic, known);
    }
    return 0;
}

static int node_read(const struct reader *reader, const struct topology_rule *rule,
                     struct claim *claim)
{
    const struct topology *topology = reader->scope->topology;
    int node = topology_node_find(topology, rule->node);
    char known[256] = "";
    size_t length = 0;

    if (rule->node < 0)
        return 0;
    for (size_t i = 0; i < topology->node_count && length < sizeof(known); i++)
        length += (size_t)snprintf(known + length, sizeof(known) - length, "%s%d", i ? ", " : "",
                                   topology->node[i].os_index);
    if (node < 0)
        return rule_fail(reader, rule, rule->at.node, "node: %d is not here; nodes: %s", rule->node,
                         known);
    claim->node = (size_t)node;
    return 0;
}

static int cpus_read(const struct reader *reader, const struct topology_rule *rule,
                     struct claim *claim)
{
    const struct cores *cores = &reader->scope->cores;
    char known[512];
    int id;

    if (rule->cpus[0] == '\0')
        return 0;
    claim->cpus = hwloc_bitmap_alloc();
    hwloc_bitmap_t usable = hwloc_bitmap_alloc();
    if (!claim->cpus || !usable) {
        hwloc_bitmap_free(usable);
        return rule_fail(reader, rule, rule->line, "no memory");
    }
    for (size_t i = 0; i < cores->cpu_count; i++)
        hwloc_bitmap_set(usable, (unsigned)cores->cpu[i].os_index);
    hwloc_bitmap_list_snprintf(known, sizeof(known), usable);
    hwloc_bitmap_free(usable);
    if (hwloc_bitmap_list_sscanf(claim->cpus, rule->cpus) < 0 || hwloc_bitmap_iszero(claim->cpus) ||
        hwloc_bitmap_weight(claim->cpus) < 0)
        return rule_fail(reader, rule, rule->at.cpus,
                         "cpus: '%s' is no list of CPUs such as 3 or 3,5-7", rule->cpus);
    hwloc_bitmap_foreach_begin(id, claim->cpus)
    {
        if (!cores_find(cores, id))
            return rule_fail(reader, rule, rule->at.cpus,
                             "cpus: CPU %d is not there, not allowed or reserved; CPUs: %s", id,
                             known);
    }
    hwloc_bitmap_foreach_end();
    return 0;
}

/* Two instances of one GPU are two things; the GPU and an instance of it are not. */
static bool claims_clash(const struct claim *one, const struct claim *other)
{
    if (one->gpu == SCOPE_NONE || one->gpu != other->gpu)
        return false;
    return !one->instance || !other->instance || one->instance == other->instance;
}

static int claims_differ(const struct reader *reader, const struct claim *claims, size_t own)
{
    for (size_t i = 0; i < own; i++)
        if (claims_clash(&claims[i], &claims[own]))
            return rule_fail(reader, claims[own].rule, claims[own].rule->line,
                             "the GPU is that of [pair %s] on line %u already; a GPU has one "
                             "worker",
                             claims[i].rule->name, claims[i].rule->line);
    return 0;
}

int rules_resolve(const struct scope *scope, const struct topology_rules *rules,
                  struct claim *claims, char *text, size_t text_size)
{
    struct reader reader = {.scope = scope, .rules = rules, .text = text, .text_size = text_size};

    for (size_t i = 0; i < rules->count; i++)
        claims[i] = (struct claim){
            .rule = &rules->rule[i], .gpu = SCOPE_NONE, .nic = SCOPE_NONE, .node = SCOPE_NONE};
    if (draft_make(scope, NULL, 0, &reader.planned, text, text_size) < 0)
        return -1;
    for (size_t i = 0; i < rules->count; i++)
        if (devices_read(&reader, &rules->rule[i], &claims[i]) < 0 ||
            node_read(&reader, &rules->rule[i], &claims[i]) < 0 ||
            cpus_read(&reader, &rules->rule[i], &claims[i]) < 0 ||
            claims_differ(&reader, claims, i) < 0)
            return -1;
    return 0;
}

void rules_free(struct claim *claims, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hwloc_bitmap_free(claims[i].cpus);
}
