/* A program that was linked against the stand-in and knows no header of ours: it prints the name of
 * its engine. */
#include <stdint.h>
#include <stdio.h>

void *createTransferEngine(const char *metadata, const char *server, const char *host,
                           uint64_t port, int discover);
int getLocalIpAndPort(void *engine, char *buffer, size_t size);
void destroyTransferEngine(void *engine);

int main(void)
{
    char name[64] = "";
    void *engine = createTransferEngine("P2PHANDSHAKE", "127.0.0.1", "", 0, 1);

    if (engine == NULL || getLocalIpAndPort(engine, name, sizeof(name)) != 0)
        return 1;
    puts(name);
    destroyTransferEngine(engine);
    return 0;
}
