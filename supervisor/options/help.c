#include "supervisor/options/help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/options/pair.h"
#include "supervisor/options/table.h"

#define HELP_DOC_MAX 400u

static const char *initial_words(const struct serve_option *option)
{
    return option->initial ? option->initial : option->initial_words;
}

static void doc_write(const struct serve_option *option, char *doc)
{
    char allowed[128];
    int len = snprintf(doc, HELP_DOC_MAX, "%s", option->help);

    if (option->kind == OPTION_FLAG)
        return;
    option_allowed(option, allowed, sizeof(allowed));
    snprintf(doc + len, HELP_DOC_MAX - (size_t)len, "%s%s%s (default: %s%s%s)",
             allowed[0] ? " [" : "", allowed, allowed[0] ? "]" : "", initial_words(option),
             option->env ? "; environment: " : "", option->env ? option->env : "");
}

/* Section number of an option, 1-based; 0 for those of the command line only. */
static int group_of(const struct serve_option *option)
{
    for (size_t i = 0; i < options_section_count; i++)
        if (option_in_section(option, options_sections[i].name))
            return (int)i + 1;
    return 0;
}

/* One block: the list, then the texts it points at. */
struct argp_option *options_help_make(void)
{
    size_t rows = OPTIONS_COUNT + options_section_count + 2;
    char(*doc)[HELP_DOC_MAX];
    struct argp_option *list = calloc(1, rows * sizeof(*list) + OPTIONS_COUNT * sizeof(*doc));
    struct argp_option *row = list;

    if (!list)
        return NULL;
    doc = (void *)(list + rows);
    for (size_t i = 0; i < OPTIONS_COUNT; i++, doc++) {
        const struct serve_option *option = &options_table[i];

        if (!option->flag)
            continue;
        doc_write(option, *doc);
        *row++ = (struct argp_option){.name = option->flag,
                                      .key = OPTIONS_HELP_KEY + (int)i,
                                      .arg = option->arg,
                                      .doc = *doc,
                                      .group = group_of(option)};
    }
    for (size_t i = 0; i < options_section_count; i++)
        *row++ = (struct argp_option){.doc = options_sections[i].title, .group = (int)i + 1};
    *row++ = (struct argp_option){.name = "help-config",
                                  .key = OPTIONS_HELP_KEY_REFERENCE,
                                  .doc = "print a config file with every key explained, and exit",
                                  .group = -1};
    return list;
}

void options_help_free(struct argp_option *list)
{
    free(list);
}

void options_comment_print(FILE *out, const char *text)
{
    const size_t width = 76;

    while (*text) {
        size_t len = strlen(text);

        if (len > width) {
            len = width;
            while (len > 1 && text[len] != ' ')
                len--;
        }
        fprintf(out, "# %.*s\n", (int)len, text);
        text += len;
        text += strspn(text, " ");
    }
}

static void key_print(FILE *out, const struct serve_option *option)
{
    char allowed[128];
    char note[512];

    option_allowed(option, allowed, sizeof(allowed));
    options_comment_print(out, option->help);
    snprintf(note, sizeof(note), "%s%s%sdefault: %s%s%s%s%s", allowed[0] ? "allowed: " : "",
             allowed, allowed[0] ? "; " : "", initial_words(option),
             option->flag ? "; option --" : "", option->flag ? option->flag : "",
             option->env ? "; environment " : "", option->env ? option->env : "");
    options_comment_print(out, note);
    fprintf(out, ";%s =%s%s\n\n", option_key(option), option->initial ? " " : "",
            option->initial ? option->initial : "");
}

void options_reference_print(FILE *out)
{
    fprintf(out, "# Configuration of `tesup serve --config FILE`.\n"
                 "# The environment goes over this file, the command line over both.\n\n");
    for (size_t s = 0; s < options_section_count; s++) {
        fprintf(out, "# %s\n[%s]\n\n", options_sections[s].title, options_sections[s].name);
        for (size_t i = 0; i < OPTIONS_COUNT; i++)
            if (option_in_section(&options_table[i], options_sections[s].name))
                key_print(out, &options_table[i]);
    }
    options_pair_reference_print(out);
}
