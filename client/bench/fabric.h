/* Over which fabric the bytes really went: `tesup status --json` of this job's supervisor knows. */
#ifndef TESUP_BENCH_FABRIC_H
#define TESUP_BENCH_FABRIC_H

#include <stddef.h>

/* `socket` as in tesup_options (NULL = default), `peer` is HOST:PORT/SEGMENT of an open segment.
 * 0, or -1 when the status does not tell. */
int fabric_find(const char *socket, const char *peer, char *fabric, size_t size);

#endif
