/* Where the job of `tesup run --bind` runs: beside the worker that will serve it. */
#ifndef TESUP_SUPERVISOR_COMMAND_RUN_BIND_H
#define TESUP_SUPERVISOR_COMMAND_RUN_BIND_H

#include "supervisor/options/paths.h"

struct run_bind {
    char *cpus; /* a list; "": of a node without CPUs, as inherited; NULL: nothing is bound */
    int node;
};

/* Looks up `words` (place.h) among the workers of the supervisor there: the CPUs of the worker's
 * node without those of workers, where others are left, and the node's memory.
 * 0, or -1 with a sentence in text. Free with run_bind_free(). */
int run_bind_find(const struct options_paths *paths, const char *words, struct run_bind *bind,
                  char *text, size_t text_size);
void run_bind_free(struct run_bind *bind);

/* In the job's process, before exec. 0, or -1 after a sentence on stderr. */
int run_bind_apply(const struct run_bind *bind);

#endif
