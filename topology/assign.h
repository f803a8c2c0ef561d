/* Which GPU uses which NIC.  Numbers in, numbers out. */
#ifndef TESUP_TOPOLOGY_ASSIGN_H
#define TESUP_TOPOLOGY_ASSIGN_H

#include <stddef.h>
#include <stdint.h>

#define ASSIGN_FREE SIZE_MAX

struct assign_problem {
    size_t gpus, nics;    /* at least one NIC */
    const unsigned *rank; /* [gpu * nics + nic]: how far */
    const size_t *forced; /* [gpu]: the NIC that it must have, or ASSIGN_FREE */
};

/* Fills nic_of[gpu] with the best of all assignments: the smallest sum of ranks, among those the
 * most even load of NICs (smallest sum of squares), among those the smallest nic_of[0], then
 * nic_of[1], …: so the same machine always gets the same one. 0, or -1 without memory. */
int assign_solve(const struct assign_problem *problem, size_t *nic_of);

#endif
