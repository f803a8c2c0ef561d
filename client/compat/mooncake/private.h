/* A private supervisor: one per user and host, shared by all processes that found no other. */
#ifndef TESUP_COMPAT_MOONCAKE_PRIVATE_H
#define TESUP_COMPAT_MOONCAKE_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>

#define PRIVATE_PATH_MAX 108u

/* Directory and socket of this user's one. 0, or -1 with a sentence in `text`. */
int private_place(char directory[PRIVATE_PATH_MAX], char socket[PRIVATE_PATH_MAX], char *text,
                  size_t text_size);
/* Nobody else could have put a socket there. The directory may be missing. */
bool private_is_ours(const char *directory, char *text, size_t text_size);
/* Starts `tesup serve` there, listening at `host`, and waits until it is ready or has given up,
 * perhaps because another process was faster. 0, or -1 with its sentence in `text`. */
int private_start(const char *directory, const char *host, bool force_tcp, char *text,
                  size_t text_size);

#endif
