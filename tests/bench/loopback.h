/* A TCP connection of this process with itself, set up as workers set up theirs. */
#ifndef TESUP_TESTS_BENCH_LOOPBACK_H
#define TESUP_TESTS_BENCH_LOOPBACK_H

#include <stddef.h>

void loopback_open(int sockets[2]);
void loopback_close(const int sockets[2]);
/* Blocking, whole, and never longer than some seconds without progress. */
void loopback_send(int socket, const void *bytes, size_t size);
void loopback_receive(int socket, void *bytes, size_t size);

#endif
