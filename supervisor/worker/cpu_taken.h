/* CPUs that workers of other daemons on this host are pinned to.
 *
 * Several daemons may share a host (`tesup run` starts private ones), and each plans alone.  What
 * is pinned already can be seen: worker processes with one CPU in their mask.
 */
#ifndef TESUP_SUPERVISOR_WORKER_CPU_TAKEN_H
#define TESUP_SUPERVISOR_WORKER_CPU_TAKEN_H

#include "topology/topology.h"

/* Marks them in a topology of this machine. What cannot be read is not counted. */
void cpu_taken_mark(struct topology *topology);

#endif
