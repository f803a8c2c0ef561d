/* What `tesup serve --help` shows, made from the table of options. */
#ifndef TESUP_SUPERVISOR_OPTIONS_HELP_H
#define TESUP_SUPERVISOR_OPTIONS_HELP_H

#include <argp.h>
#include <stdio.h>

#define OPTIONS_HELP_KEY           0x100 /* key of the table's first option */
#define OPTIONS_HELP_KEY_REFERENCE 0x80  /* --help-config */

/* For struct argp: all options in groups. NULL without memory. Free with options_help_free(). */
struct argp_option *options_help_make(void);
void options_help_free(struct argp_option *list);

/* A comment of the config reference, folded. */
void options_comment_print(FILE *out, const char *text);

#endif
