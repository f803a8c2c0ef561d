/* The config file of `tesup serve`. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/options/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct serve_options options;
    char text[OPTIONS_TEXT_MAX] = "";
    FILE *file;
    int rc;

    if (size == 0)
        return 0;
    file = fmemopen((void *)(uintptr_t)data, size, "r");
    if (file == NULL)
        abort();
    options_defaults(&options);
    rc = options_config_read(file, "fuzzed.conf", &options, text, sizeof(text));
    fclose(file);
    /* A refusal names file and line. */
    if (rc != 0 && strncmp(text, "fuzzed.conf:", 12) != 0)
        abort();
    if (rc == 0 && (options.slice_bytes < 4096 || options.slots < 16 || options.workers > 64))
        abort();
    return 0;
}
