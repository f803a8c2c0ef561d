#include "shm/name.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/err.h"

bool name_label_valid(const char *label)
{
    size_t length = strlen(label);

    if (length == 0 || length >= PROTO_LABEL_MAX)
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)label[i]) && strchr("._-@:+", label[i]) == NULL)
            return false;
    return true;
}

static int copy_part(char *to, size_t room, const char *from, size_t length)
{
    if (length == 0 || length >= room)
        return TS_ERR_INVALID;
    memcpy(to, from, length);
    to[length] = '\0';
    return TS_OK;
}

static int parse_port(const char *text, size_t length, char port[8])
{
    unsigned long value;

    if (length > 5 || copy_part(port, 8, text, length) != TS_OK)
        return TS_ERR_INVALID;
    for (size_t i = 0; i < length; i++)
        if (!isdigit((unsigned char)port[i]))
            return TS_ERR_INVALID;
    value = strtoul(port, NULL, 10);
    return value <= 65535 ? TS_OK : TS_ERR_INVALID;
}

static int parse_host_port(const char *text, size_t length, struct segment_name *name,
                           const char **why)
{
    const char *end = text + length;
    const char *host = text, *host_end;

    if (length > 0 && *text == '[') {
        host = text + 1;
        host_end = memchr(host, ']', (size_t)(end - host));
        if (host_end == NULL || host_end + 1 == end || host_end[1] != ':') {
            *why = "an IPv6 address is written [ADDRESS]:PORT";
            return TS_ERR_INVALID;
        }
        if (copy_part(name->host, sizeof(name->host), host, (size_t)(host_end - host)) != TS_OK) {
            *why = "the address in brackets is empty or too long";
            return TS_ERR_INVALID;
        }
        host_end++;
    } else {
        host_end = memchr(text, ':', length);
        if (host_end == NULL) {
            *why = "the port is missing: HOST:PORT";
            return TS_ERR_INVALID;
        }
        if (memchr(host_end + 1, ':', (size_t)(end - host_end - 1)) != NULL) {
            *why = "an IPv6 address needs brackets: [ADDRESS]:PORT";
            return TS_ERR_INVALID;
        }
        if (copy_part(name->host, sizeof(name->host), host, (size_t)(host_end - host)) != TS_OK) {
            *why = "the host is empty or too long";
            return TS_ERR_INVALID;
        }
    }
    if (parse_port(host_end + 1, (size_t)(end - host_end - 1), name->port) != TS_OK) {
        *why = "the port is not a number from 0 to 65535";
        return TS_ERR_INVALID;
    }
    return TS_OK;
}

int name_parse_address(const char *text, struct segment_name *name, const char **why)
{
    memset(name, 0, sizeof(*name));
    return parse_host_port(text, strlen(text), name, why);
}

int name_parse(const char *text, struct segment_name *name, const char **why)
{
    const char *slash = strrchr(text, '/');

    memset(name, 0, sizeof(*name));
    if (slash == NULL) {
        *why = "a segment is written HOST:PORT/SEGMENT";
        return TS_ERR_INVALID;
    }
    if (!name_label_valid(slash + 1)) {
        *why = "the segment is 1 to 63 letters, digits or one of . _ - @ : +";
        return TS_ERR_INVALID;
    }
    snprintf(name->segment, sizeof(name->segment), "%s", slash + 1);
    return parse_host_port(text, (size_t)(slash - text), name, why);
}
