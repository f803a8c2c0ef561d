/* [pair NAME] sections, looked up in a machine. */
#ifndef TESUP_TOPOLOGY_RULES_H
#define TESUP_TOPOLOGY_RULES_H

#include "topology/draft.h"

/* Fills claims[rules->count]. 0, or -1 with a sentence in text that has the line and what is
 * possible. Free with rules_free(), in both cases. */
int rules_resolve(const struct scope *scope, const struct topology_rules *rules,
                  struct claim *claims, char *text, size_t text_size);
void rules_free(struct claim *claims, size_t count);

#endif
