/* One option's value: text in, checked and stored. */
#include <arpa/inet.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "shm/err.h"
#include "shm/name.h"
#include "supervisor/options/table.h"
#include "supervisor/options/units.h"

static int bool_parse(const char *value, bool *out)
{
    if (strcmp(value, "1") == 0 || strcmp(value, "true") == 0)
        *out = true;
    else if (strcmp(value, "0") == 0 || strcmp(value, "false") == 0)
        *out = false;
    else
        return -1;
    return 0;
}

static bool name_valid(const char *name)
{
    if (!isalnum((unsigned char)name[0]))
        return false;
    for (const char *at = name; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("._-", *at))
            return false;
    return true;
}

/* A literal or a name; colons only in an IPv6 literal, whose scope ("%eth0") may follow. */
static bool host_valid(const char *host)
{
    if (strchr(host, ':')) {
        char literal[INET6_ADDRSTRLEN];
        struct in6_addr address;
        size_t len = strcspn(host, "%");

        if (len >= sizeof(literal))
            return false;
        memcpy(literal, host, len);
        literal[len] = '\0';
        return inet_pton(AF_INET6, literal, &address) == 1;
    }
    if (!isalnum((unsigned char)host[0]))
        return false;
    for (const char *at = host; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("._-", *at))
            return false;
    return true;
}

/* Copies without the brackets that IPv6 literals may have. */
static int host_parse(const char *text, char *host, size_t host_size)
{
    size_t len = strlen(text);

    if (len >= 2 && text[0] == '[' && text[len - 1] == ']' && strchr(text, ':')) {
        text++;
        len -= 2;
    }
    if (len == 0 || len >= host_size)
        return -1;
    memcpy(host, text, len);
    host[len] = '\0';
    return host_valid(host) ? 0 : -1;
}

int option_address_split(const char *address, char *host, size_t host_size, uint16_t *port,
                         char *why, size_t why_size)
{
    struct segment_name name;
    const char *reason = "the host is neither a name nor an address";

    if (name_parse_address(address, &name, &reason) != TS_OK || !host_valid(name.host) ||
        strlen(name.host) >= host_size) {
        snprintf(why, why_size, "'%.200s' is not possible: %s", address, reason);
        return -1;
    }
    memcpy(host, name.host, strlen(name.host) + 1);
    *port = (uint16_t)strtoul(name.port, NULL, 10);
    return 0;
}

static int uids_parse(const char *value, struct option_uids *uids, char *why, size_t why_size)
{
    struct option_uids list = {.all = strcmp(value, "*") == 0};
    char copy[OPTIONS_UIDS_MAX * 12];
    char *rest = NULL;
    char phrase[128];
    uint64_t uid;

    if (strlen(value) >= sizeof(copy)) {
        snprintf(why, why_size, "the list is too long; at most %u uids", OPTIONS_UIDS_MAX);
        return -1;
    }
    snprintf(copy, sizeof(copy), "%s", list.all ? "" : value);
    for (char *at = strtok_r(copy, ", \t", &rest); at; at = strtok_r(NULL, ", \t", &rest)) {
        if (list.count == OPTIONS_UIDS_MAX) {
            snprintf(why, why_size, "the list is too long; at most %u uids", OPTIONS_UIDS_MAX);
            return -1;
        }
        /* The largest uid_t means "no user" to the kernel. */
        if (units_count_parse(at, &uid, phrase, sizeof(phrase)) || uid >= (uid_t)-1) {
            snprintf(why, why_size, "'%.60s' is not a uid; allowed: numbers with commas, or *", at);
            return -1;
        }
        list.uid[list.count++] = (uid_t)uid;
    }
    if (!list.all && list.count == 0) {
        snprintf(why, why_size, "no uid is named; allowed: numbers with commas, or *");
        return -1;
    }
    *uids = list;
    return 0;
}

bool option_cpus_valid(const char *value)
{
    while (true) {
        char *end;
        if (!isdigit((unsigned char)value[0]))
            return false;
        unsigned long first = strtoul(value, &end, 10), last = first;
        if (*end == '-' && isdigit((unsigned char)end[1]))
            last = strtoul(end + 1, &end, 10);
        if (first > last || last > INT32_MAX || (*end != ',' && *end != '\0'))
            return false;
        if (*end == '\0')
            return true;
        value = end + 1;
    }
}

static int choice_parse(const struct serve_option *option, const char *value, uint32_t *out)
{
    for (uint32_t i = 0; option->values[i]; i++)
        if (strcmp(option->values[i], value) == 0) {
            *out = i;
            return 0;
        }
    return -1;
}

static void choice_list(const char *const *values, char *text, size_t size)
{
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; values[i] && len < size; i++) {
        const char *link = i == 0 ? "" : values[i + 1] ? ", " : " or ";
        int n = snprintf(text + len, size - len, "%s%s", link, values[i]);
        len += n > 0 ? (size_t)n : 0;
    }
}

void option_allowed(const struct serve_option *option, char *text, size_t size)
{
    char low[24];
    char high[24];

    text[0] = '\0';
    switch (option->kind) {
    case OPTION_BOOL:
        snprintf(text, size, "0, 1, true or false");
        return;
    case OPTION_CHOICE:
        choice_list(option->values, text, size);
        return;
    case OPTION_NAME:
        snprintf(text, size, "1..%zu letters, digits, '.', '_' and '-', first a letter or digit",
                 option->size - 1);
        return;
    case OPTION_SIZE:
        units_size_format(option->min, low, sizeof(low));
        units_size_format(option->max, high, sizeof(high));
        break;
    case OPTION_DURATION:
        units_duration_format(option->min, low, sizeof(low));
        units_duration_format(option->max, high, sizeof(high));
        break;
    case OPTION_COUNT:
    case OPTION_POWER2:
    case OPTION_U64:
        snprintf(low, sizeof(low), "%" PRIu64, option->min);
        snprintf(high, sizeof(high), "%" PRIu64, option->max);
        break;
    case OPTION_CPUS:
        snprintf(text, size, "numbers and ranges with commas, such as 0-3,8");
        return;
    case OPTION_WORDS:
        snprintf(text, size, "names with commas, as `tesup topology` shows them");
        return;
    case OPTION_FLAG:
    case OPTION_PATH:
    case OPTION_HOST:
    case OPTION_ADDRESS:
    case OPTION_UIDS:
        return;
    }
    snprintf(text, size, "%s%s..%s%s%s", option->kind == OPTION_POWER2 ? "powers of two, " : "",
             low, high, option->unit ? " " : "", option->unit ? option->unit : "");
}

static int number_set(const struct serve_option *option, const char *value, void *field, char *why,
                      size_t why_size)
{
    char allowed[128];
    uint64_t number = 0;
    int err;

    if (option->kind == OPTION_SIZE)
        err = units_size_parse(value, &number, why, why_size);
    else if (option->kind == OPTION_DURATION)
        err = units_duration_parse(value, &number, why, why_size);
    else
        err = units_count_parse(value, &number, why, why_size);

    option_allowed(option, allowed, sizeof(allowed));
    if (err) {
        size_t len = strlen(why);
        snprintf(why + len, why_size - len, "; allowed: %s", allowed);
        return -1;
    }
    bool uneven = option->kind == OPTION_POWER2 && (number & (number - 1)) != 0;
    if (number < option->min || number > option->max || uneven) {
        snprintf(why, why_size, "%.60s is not possible; allowed: %s", value, allowed);
        return -1;
    }
    if (option->kind == OPTION_U64) {
        memcpy(field, &number, sizeof(number));
    } else {
        uint32_t narrow = (uint32_t)number;
        memcpy(field, &narrow, sizeof(narrow));
    }
    return 0;
}

static int text_set(const struct serve_option *option, const char *value, char *field, char *why,
                    size_t why_size)
{
    char allowed[128];
    char host[OPTIONS_HOST_MAX];
    uint16_t port;

    if (value[0] == '\0') {
        snprintf(why, why_size, "the value is empty");
        return -1;
    }
    if (option->kind == OPTION_HOST) {
        if (host_parse(value, field, option->size) == 0)
            return 0;
        snprintf(why, why_size, "'%.200s' is not a host name or address (no port here)", value);
        return -1;
    }
    if (option->kind == OPTION_ADDRESS &&
        option_address_split(value, host, sizeof(host), &port, why, why_size))
        return -1;
    if (option->kind == OPTION_NAME && (strlen(value) >= option->size || !name_valid(value))) {
        option_allowed(option, allowed, sizeof(allowed));
        snprintf(why, why_size, "'%.60s' is not a name; allowed: %s", value, allowed);
        return -1;
    }
    if (option->kind == OPTION_CPUS && !option_cpus_valid(value)) {
        option_allowed(option, allowed, sizeof(allowed));
        snprintf(why, why_size, "'%.60s' is not possible; allowed: %s", value, allowed);
        return -1;
    }
    if (strlen(value) >= option->size) {
        snprintf(why, why_size, "'%.60s...' is longer than %zu characters", value,
                 option->size - 1);
        return -1;
    }
    memcpy(field, value, strlen(value) + 1);
    return 0;
}

int option_set(const struct serve_option *option, const char *value, struct serve_options *o,
               char *why, size_t why_size)
{
    void *field = (char *)o + option->offset;
    char allowed[128];
    int err = 0;

    switch (option->kind) {
    case OPTION_FLAG:
    case OPTION_BOOL:
        err = bool_parse(value, field);
        break;
    case OPTION_CHOICE:
        err = choice_parse(option, value, field);
        break;
    case OPTION_UIDS:
        return uids_parse(value, field, why, why_size);
    case OPTION_NAME:
    case OPTION_PATH:
    case OPTION_HOST:
    case OPTION_ADDRESS:
    case OPTION_WORDS:
    case OPTION_CPUS:
        return text_set(option, value, field, why, why_size);
    case OPTION_COUNT:
    case OPTION_POWER2:
    case OPTION_U64:
    case OPTION_SIZE:
    case OPTION_DURATION:
        return number_set(option, value, field, why, why_size);
    }
    if (err) {
        option_allowed(option, allowed, sizeof(allowed));
        snprintf(why, why_size, "'%.60s' is not possible; allowed: %s", value, allowed);
    }
    return err;
}
