/* Options of `tesup serve` as a user gives them, and what is printed then. */
#ifndef TESUP_TESTS_UNIT_SUPERVISOR_OPTIONS_FIXTURE_H
#define TESUP_TESTS_UNIT_SUPERVISOR_OPTIONS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "supervisor/options/options.h"
#include "supervisor/options/table.h"

#define OPTION_ARGS_MAX 16

static char *printed; /* what the last PARSE() or config() said */

/* args: argv[0], the arguments, NULL. */
static inline int parse_args(const char *const *args, struct serve_options *o)
{
    char *argv[OPTION_ARGS_MAX] = {NULL};
    int argc = 0;
    size_t size;
    FILE *real = stderr;

    for (; args[argc]; argc++)
        argv[argc] = (char *)args[argc];
    free(printed);
    stderr = open_memstream(&printed, &size);
    int rc = options_parse(argc, argv, o);
    fclose(stderr);
    stderr = real;
    return rc;
}

#define PARSE(o, ...) parse_args((const char *const[]){"serve", ##__VA_ARGS__, NULL}, o)

#define assert_printed(part)                                \
    do {                                                    \
        if (!strstr(printed, part))                         \
            fail_msg("'%s' is not in '%s'", part, printed); \
    } while (0)

/* Parses `text` as a config file named x.conf over the defaults. */
static inline int config_text(const char *text, size_t length, struct serve_options *o)
{
    static char message[OPTIONS_TEXT_MAX];
    FILE *file = fmemopen((void *)text, length, "r");

    message[0] = '\0';
    options_defaults(o);
    int rc = options_config_read(file, "x.conf", o, message, sizeof(message));
    fclose(file);
    free(printed);
    printed = strdup(message);
    return rc;
}

static inline int config(const char *text, struct serve_options *o)
{
    return config_text(text, strlen(text), o);
}

static inline int environment_clean(void **state)
{
    (void)state;
    unsetenv("MC_RDMA_NOTIFY_ENABLED");
    unsetenv("MC_RDMA_NOTIFY_OOB_FALLBACK");
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    setenv("XDG_CONFIG_HOME", "/home/x/.config", 1);
    return 0;
}

static inline int printed_free(void **state)
{
    (void)state;
    free(printed);
    printed = NULL;
    return 0;
}

#define OPTION_TEST(function) cmocka_unit_test_setup(function, environment_clean)

#endif
