/* Segment names as users and peers write them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shm/err.h"
#include "shm/name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void name_try(int rc, const struct segment_name *name, const char *why)
{
    if (memchr(name->host, 0, sizeof(name->host)) == NULL ||
        memchr(name->port, 0, sizeof(name->port)) == NULL)
        abort();
    if (rc == TS_OK && (name->host[0] == '\0' || strtoul(name->port, NULL, 10) > 65535))
        abort();
    if (rc != TS_OK && why == NULL)
        abort(); /* a refusal comes with its sentence */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct segment_name name;
    const char *why = NULL;
    char *text = malloc(size + 1);
    int rc;

    memcpy(text, data, size);
    text[size] = '\0';
    rc = name_parse(text, &name, &why);
    name_try(rc, &name, why);
    if (rc == TS_OK && !name_label_valid(name.segment))
        abort();
    why = NULL;
    rc = name_parse_address(text, &name, &why);
    name_try(rc, &name, why);
    (void)name_label_valid(text);
    free(text);
    return 0;
}
