/* What kind of memory lies at an address of this process. */
#ifndef TESUP_COMPAT_MOONCAKE_PROBE_H
#define TESUP_COMPAT_MOONCAKE_PROBE_H

#include <stdint.h>

enum probe {
    PROBE_PLAIN,     /* mapped; perhaps reserved only */
    PROBE_READ_ONLY, /* mapped for reading */
    PROBE_UNMAPPED,  /* there are holes */
};

/* Costs system calls by the mappings, not by the bytes.  Touches the first page at most. */
enum probe probe_memory(uint64_t base, uint64_t length);

#endif
