/* Segment names: HOST:PORT/SEGMENT, with HOST a name, an IPv4 address or [IPv6]. */
#ifndef TESUP_SHM_NAME_H
#define TESUP_SHM_NAME_H

#include <stdbool.h>

#include "shm/proto.h"

#define NAME_HOST_MAX 254

struct segment_name {
    char host[NAME_HOST_MAX]; /* without brackets */
    char port[8];
    char segment[PROTO_LABEL_MAX];
};

/* Splits `text`. TS_OK, or TS_ERR_INVALID with a sentence in `why`. */
int name_parse(const char *text, struct segment_name *name, const char **why);
/* Splits HOST:PORT alone; same results. segment is "". */
int name_parse_address(const char *text, struct segment_name *name, const char **why);
/* 1 … 63 characters of letters, digits, '.', '_', '-', '@', ':', '+'. */
bool name_label_valid(const char *label);

#endif
