/* Host names to addresses, within a deadline. */
#ifndef TESUP_COMPAT_MOONCAKE_RESOLVE_H
#define TESUP_COMPAT_MOONCAKE_RESOLVE_H

#include <netdb.h>
#include <stdint.h>

/* `family` as in getaddrinfo(3).  *list goes to freeaddrinfo. 0, or a code of gai_strerror(3);
 * EAI_AGAIN when the deadline came first. */
int resolve_host(const char *host, const char *port, int family, uint64_t deadline,
                 struct addrinfo **list);

#endif
