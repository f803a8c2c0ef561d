/* The [pair NAME] sections of the config file: what one worker shall have instead of the plan. */
#ifndef TESUP_SUPERVISOR_OPTIONS_PAIR_H
#define TESUP_SUPERVISOR_OPTIONS_PAIR_H

#include <stdio.h>

#include "topology/topology.h"

#define OPTIONS_PAIR_SECTION "pair"

bool options_pair_is_section(const char *section);
/* One key of a section, "pair NAME". 0, or -1 with a phrase in why that says what is allowed. */
int options_pair_set(struct topology_rules *rules, const char *section, const char *key,
                     const char *value, unsigned line, char *why, size_t why_size);
/* Their part of the config reference. */
void options_pair_reference_print(FILE *out);

#endif
