/* What the system refused for lack of room, in words: limit, need, remedy. */
#ifndef TESUP_SUPERVISOR_SHORTAGE_H
#define TESUP_SUPERVISOR_SHORTAGE_H

#include <stddef.h>

/* `error` is an errno, `what` and `bytes` what was wanted ("a channel"). Fills the sentence and
 * returns the status for it: TS_ERR_LIMIT, TS_ERR_NO_MEMORY or TS_ERR_SYSTEM. */
int shortage_explain(int error, const char *what, unsigned long long bytes, char *text,
                     size_t text_size);

#endif
