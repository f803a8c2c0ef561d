/* The config file: INI by libinih, every key from the table, errors with file and line. */
#include <errno.h>
#include <ini.h>
#include <string.h>

#include "supervisor/options/pair.h"
#include "supervisor/options/table.h"

struct config_reader {
    FILE *file;
    const char *path;
    struct serve_options *o;
    unsigned line;                  /* of the last line read */
    unsigned set_on[OPTIONS_COUNT]; /* line that set an option, 0 = none yet */
    bool failed;
    char *text;
    size_t text_size;
};

static void config_fail(struct config_reader *reader, const char *what)
{
    if (!reader->failed)
        snprintf(reader->text, reader->text_size, "%s:%u: %s", reader->path, reader->line, what);
    reader->failed = true;
}

/* Hands out one line, without the leading blanks that would make it a continuation line.
 * Stops at the first error, so that the first one is the one reported. */
static char *config_line(char *line, int room, void *stream)
{
    struct config_reader *reader = stream;
    char what[80];
    int len = 0;
    int c;

    if (reader->failed || room < 2)
        return NULL;
    reader->line++;
    while ((c = getc(reader->file)) != EOF && c != '\n') {
        if (len == 0 && (c == ' ' || c == '\t'))
            continue;
        if (c == '\0' || len == room - 1) {
            snprintf(what, sizeof(what),
                     c ? "the line is longer than %d characters"
                       : "this is not a text file: a NUL byte in column %d",
                     c ? room - 1 : len + 1);
            config_fail(reader, what);
            return NULL;
        }
        line[len++] = (char)c;
    }
    line[len] = '\0';
    return c == EOF && len == 0 ? NULL : line;
}

static void list_append(char *text, size_t size, const char *word)
{
    size_t len = strlen(text);

    snprintf(text + len, size - len, "%s%s", len ? ", " : "", word);
}

static bool section_known(const char *section)
{
    for (size_t i = 0; i < options_section_count; i++)
        if (strcmp(options_sections[i].name, section) == 0)
            return true;
    return false;
}

static void section_fail(struct config_reader *reader, const char *section, const char *key)
{
    char known[256] = "";
    char what[512];

    for (size_t i = 0; i < options_section_count; i++)
        list_append(known, sizeof(known), options_sections[i].name);
    list_append(known, sizeof(known), OPTIONS_PAIR_SECTION " NAME");
    if (section[0] == '\0')
        snprintf(what, sizeof(what), "key '%.60s' stands before any [section]; sections: %s", key,
                 known);
    else
        snprintf(what, sizeof(what), "unknown section [%.60s]; sections: %s", section, known);
    config_fail(reader, what);
}

static void key_fail(struct config_reader *reader, const char *section, const char *key)
{
    char known[256] = "";
    char full[160];
    char hint[160] = "";
    char what[512];

    for (size_t i = 0; i < OPTIONS_COUNT; i++)
        if (option_in_section(&options_table[i], section))
            list_append(known, sizeof(known), option_key(&options_table[i]));
    snprintf(full, sizeof(full), "%.60s.%.60s", section, key);
    const char *nearest = options_nearest(full);
    if (nearest)
        snprintf(hint, sizeof(hint), " (did you mean '%s'?)", strchr(nearest, '.') + 1);
    snprintf(what, sizeof(what), "unknown key '%.60s'%s; keys of [%s]: %s", key, hint, section,
             known);
    config_fail(reader, what);
}

static int config_key(void *user, const char *section, const char *key, const char *value)
{
    struct config_reader *reader = user;
    char why[512];
    char what[640];

    if (options_pair_is_section(section)) {
        if (options_pair_set(&reader->o->rules, section, key, value, reader->line, why,
                             sizeof(why)) == 0)
            return 1;
        config_fail(reader, why);
        return 0;
    }
    if (!section_known(section)) {
        section_fail(reader, section, key);
        return 0;
    }
    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        const struct serve_option *option = &options_table[i];

        if (!option_in_section(option, section) || strcmp(option_key(option), key) != 0)
            continue;
        if (reader->set_on[i]) {
            snprintf(what, sizeof(what), "%s is set twice; first on line %u", key,
                     reader->set_on[i]);
            config_fail(reader, what);
            return 0;
        }
        reader->set_on[i] = reader->line;
        if (option_set(option, value, reader->o, why, sizeof(why)) == 0)
            return 1;
        snprintf(what, sizeof(what), "%s: %s", key, why);
        config_fail(reader, what);
        return 0;
    }
    key_fail(reader, section, key);
    return 0;
}

int options_config_read(FILE *file, const char *path, struct serve_options *o, char *text,
                        size_t text_size)
{
    struct config_reader reader = {
        .file = file, .path = path, .o = o, .text = text, .text_size = text_size};
    snprintf(o->rules.file, sizeof(o->rules.file), "%s", path);
    int wrong_line = ini_parse_stream(config_line, &reader, config_key, &reader);

    if (ferror(file)) {
        snprintf(text, text_size, "%s: cannot be read: %s", path, strerror(errno));
        return -1;
    }
    if (wrong_line > 0 && (!reader.failed || (unsigned)wrong_line < reader.line)) {
        /* inih goes on after a line that it cannot read; ours is the last one. */
        snprintf(text, text_size, "%s:%d: this is neither 'key = value' nor '[section]'", path,
                 wrong_line);
        return -1;
    }
    if (wrong_line < 0) {
        snprintf(text, text_size, "%s: no memory to read it", path);
        return -1;
    }
    return reader.failed ? -1 : 0;
}
