#include "supervisor/options/pair.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/options/help.h"
#include "supervisor/options/table.h"

#define PAIR_NAME_MAX 43u /* what libinih has room for behind "pair " */

#define RULE(member) .value = offsetof(struct topology_rule, member)
#define AT(member)   .at = offsetof(struct topology_rule, at.member)

static const struct pair_key {
    const char *name;
    size_t value, at; /* in struct topology_rule */
    const char *allowed;
    const char *help;
} pair_keys[] = {
    {"nic", RULE(nic), AT(nic), "a NIC that `tesup topology` shows, such as mlx5_0",
     "the NIC of this worker; other GPUs may still share it"},
    {"gpu", RULE(gpu), AT(gpu),
     "a bus id, such as 0000:44:00.0, or a MIG instance by its whole UUID",
     "the GPU of this worker; its NIC is the nearest one unless nic says otherwise. A GPU whose "
     "MIG instances are named has a worker for each of those, and none for itself"},
    {"cpus", RULE(cpus), AT(cpus), "numbers and ranges with commas, such as 3 or 3,5-7",
     "CPUs that this worker may run on, also when others use them"},
    {"node", RULE(node), AT(node), "a NUMA node, such as 0",
     "node of this worker's memory and core; one without CPUs (HBM) gives the memory only"},
};
#define PAIR_KEYS (sizeof(pair_keys) / sizeof(pair_keys[0]))

bool options_pair_is_section(const char *section)
{
    size_t length = strlen(OPTIONS_PAIR_SECTION);

    return strncmp(section, OPTIONS_PAIR_SECTION, length) == 0 &&
           (section[length] == ' ' || section[length] == '\0');
}

static bool name_valid(const char *name)
{
    if (name[0] == '\0' || strlen(name) > PAIR_NAME_MAX)
        return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && !strchr("._-@:+", *name))
            return false;
    return true;
}

static struct topology_rule *rule_get(struct topology_rules *rules, const char *name, unsigned line)
{
    for (size_t i = 0; i < rules->count; i++)
        if (strcmp(rules->rule[i].name, name) == 0)
            return &rules->rule[i];
    if (rules->count == TOPOLOGY_PAIRS_MAX)
        return NULL;
    struct topology_rule *rule = &rules->rule[rules->count++];
    *rule = (struct topology_rule){.node = -1, .line = line};
    memcpy(rule->name, name, strlen(name) + 1);
    return rule;
}

static const struct pair_key *key_find(const char *name)
{
    for (size_t i = 0; i < PAIR_KEYS; i++)
        if (strcmp(pair_keys[i].name, name) == 0)
            return &pair_keys[i];
    return NULL;
}

/* Whether the machine has what is named is for the plan to say. */
static bool value_store(const struct pair_key *key, struct topology_rule *rule, const char *value)
{
    char *field = (char *)rule + key->value;

    if (value[0] == '\0' || strlen(value) >= TOPOLOGY_LABEL_MAX)
        return false;
    if (key->value == offsetof(struct topology_rule, node)) {
        char *end;
        long node = strtol(value, &end, 10);
        rule->node = (int)node;
        return isdigit((unsigned char)value[0]) && *end == '\0' && node <= INT16_MAX;
    }
    memcpy(field, value, strlen(value) + 1);
    return key->value != offsetof(struct topology_rule, cpus) || option_cpus_valid(value);
}

int options_pair_set(struct topology_rules *rules, const char *section, const char *key_name,
                     const char *value, unsigned line, char *why, size_t why_size)
{
    const char *name = section + strlen(OPTIONS_PAIR_SECTION);
    const struct pair_key *key = key_find(key_name);

    name += strspn(name, " ");
    if (!name_valid(name)) {
        snprintf(why, why_size,
                 "[%.60s]: [pair NAME] needs a name of 1..%u letters, digits and . _ - @ : +",
                 section, PAIR_NAME_MAX);
        return -1;
    }
    if (!key) {
        snprintf(why, why_size, "unknown key '%.60s'; keys of [pair %s]: nic, gpu, cpus, node",
                 key_name, name);
        return -1;
    }
    struct topology_rule *rule = rule_get(rules, name, line);
    if (!rule) {
        snprintf(why, why_size, "more than %d [pair] sections", TOPOLOGY_PAIRS_MAX);
        return -1;
    }
    unsigned *at = (unsigned *)(void *)((char *)rule + key->at);
    if (*at) {
        snprintf(why, why_size, "%s is set twice; first on line %u", key->name, *at);
        return -1;
    }
    *at = line;
    if (value_store(key, rule, value))
        return 0;
    snprintf(why, why_size, "%s: '%.60s' is not possible; allowed: %s", key->name, value,
             key->allowed);
    return -1;
}

void options_pair_reference_print(FILE *out)
{
    char note[160];

    fprintf(out, "# One worker of the plan (NAME as `tesup topology` shows it), or one more (any\n"
                 "# other name, with nic or gpu); what is not said stays as planned:\n"
                 ";[pair NAME]\n\n");
    for (size_t i = 0; i < PAIR_KEYS; i++) {
        options_comment_print(out, pair_keys[i].help);
        snprintf(note, sizeof(note), "allowed: %s; default: as planned", pair_keys[i].allowed);
        options_comment_print(out, note);
        fprintf(out, ";%s =\n\n", pair_keys[i].name);
    }
}
