/* Another library of the same name: what a program was linked against before it got ours. */
#include <stdint.h>
#include <stdio.h>

#pragma GCC visibility push(default)
void *createTransferEngine(const char *metadata, const char *server, const char *host,
                           uint64_t port, int discover);
int getLocalIpAndPort(void *engine, char *buffer, size_t size);
void destroyTransferEngine(void *engine);
#pragma GCC visibility pop

void *createTransferEngine(const char *metadata, const char *server, const char *host,
                           uint64_t port, int discover)
{
    static char engine;

    (void)metadata;
    (void)server;
    (void)host;
    (void)port;
    (void)discover;
    return &engine;
}

int getLocalIpAndPort(void *engine, char *buffer, size_t size)
{
    (void)engine;
    snprintf(buffer, size, "stand-in");
    return 0;
}

void destroyTransferEngine(void *engine)
{
    (void)engine;
}
