/* The variables of the environment that programs set for this library; docs/compat.md lists them.
 */
#ifndef TESUP_COMPAT_MOONCAKE_ENVIRONMENT_H
#define TESUP_COMPAT_MOONCAKE_ENVIRONMENT_H

#include <stdbool.h>
#include <stdint.h>

struct environment {
    uint32_t timeout_ms;  /* for what waits inside of a call */
    uint32_t deadline_ms; /* of requests; 0: the supervisor's */
    bool ipv6;            /* MC_USE_IPV6 */
    bool fixed_port;      /* MC_LEGACY_RPC_PORT_BINDING: rpc_port or nothing */
    bool force_tcp;       /* MC_FORCE_TCP */
    bool autostart;       /* TESUP_AUTOSTART */
};

/* Says a sentence about each value that makes no sense, or means another thing elsewhere. */
void environment_read(struct environment *environment);
/* Says which variables a supervisor that ran before us does not follow. */
void environment_compare(bool oob_fallback);

#endif
