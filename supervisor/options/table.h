/* The table of options: what parsing, --help and the config reference are made from. */
#ifndef TESUP_SUPERVISOR_OPTIONS_TABLE_H
#define TESUP_SUPERVISOR_OPTIONS_TABLE_H

#include "supervisor/options/options.h"

enum option_kind {
    OPTION_FLAG,     /* bool; command line only, takes no value */
    OPTION_BOOL,     /* bool; 0, 1, true, false */
    OPTION_NAME,     /* char[]; letters, digits, '.', '_', '-' */
    OPTION_PATH,     /* char[] */
    OPTION_HOST,     /* char[]; host name or address, no port */
    OPTION_ADDRESS,  /* char[]; HOST:PORT */
    OPTION_CHOICE,   /* uint32_t: index in `values` */
    OPTION_COUNT,    /* uint32_t */
    OPTION_POWER2,   /* uint32_t, a power of two */
    OPTION_U64,      /* uint64_t */
    OPTION_SIZE,     /* uint32_t bytes */
    OPTION_DURATION, /* uint32_t ms */
    OPTION_UIDS,     /* struct option_uids */
    OPTION_WORDS,    /* char[]; names with commas or blanks */
    OPTION_CPUS,     /* char[]; a list such as 0-3,8 */
};

struct serve_option {
    const char *flag;   /* long option; NULL: not on the command line */
    const char *config; /* section.key; NULL: not in the config file */
    const char *env;    /* variable, or NULL */
    enum option_kind kind;
    const char *arg;     /* placeholder for the value */
    const char *initial; /* default; NULL: made later, initial_words says how */
    const char *initial_words;
    const char *unit;          /* of a plain number, or NULL */
    uint64_t min, max;         /* of a number, in bytes or ms where those are the unit */
    const char *const *values; /* of a choice */
    size_t offset, size;       /* in struct serve_options */
    const char *help;
};

#define OPTIONS_COUNT        44
#define OPTIONS_TABLE_CONFIG 0 /* index of --config, which is read first */

extern const struct serve_option options_table[OPTIONS_COUNT];

/* A section of the config file and the title of its group, in order of display. */
struct option_section {
    const char *name;
    const char *title;
};
extern const struct option_section options_sections[];
extern const size_t options_section_count;

/* True when `option` belongs to `section` (of its config key). */
bool option_in_section(const struct serve_option *option, const char *section);
/* The part of the config key behind the section. */
const char *option_key(const struct serve_option *option);

/* Checks `value` and stores it. 0, or -1 with a phrase in `why` that quotes it and says what is
 * allowed. */
int option_set(const struct serve_option *option, const char *value, struct serve_options *o,
               char *why, size_t why_size);
/* "1..64", "4K..16M", "auto, tcp or local"; "" when anything goes. */
void option_allowed(const struct serve_option *option, char *text, size_t size);
/* True for a list of CPUs such as 0-3,8. */
bool option_cpus_valid(const char *value);
/* "HOST:PORT" -> both parts. 0, or -1 with why. */
int option_address_split(const char *address, char *host, size_t host_size, uint16_t *port,
                         char *why, size_t why_size);

/* The known "section.key" closest to a mistyped one, or NULL when none is close. */
const char *options_nearest(const char *key);

#endif
