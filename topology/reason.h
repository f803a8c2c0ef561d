/* Why a worker is as it is, in one line for people. */
#ifndef TESUP_TOPOLOGY_REASON_H
#define TESUP_TOPOLOGY_REASON_H

#include "topology/draft.h"

/* Where the core of a worker came from. */
struct seat {
    const struct cpu *cpu;
    size_t home;     /* the node that it should have been from; CORES_ANY_NODE: none is known */
    int neighbour;   /* worker on the same core or CPU before it; -1: none */
    bool told;       /* the rule names CPUs */
    bool shares_cpu; /* with that one */
    bool taken;      /* shares with another daemon's worker */
};

/* Writes the reason of draft->pair[own] into text. */
void reason_write(const struct scope *scope, const struct draft *draft, size_t own,
                  const struct seat *seat, char text[TOPOLOGY_TEXT_MAX]);

#endif
