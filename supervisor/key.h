/* The pre-shared key of all peers: a file that only its owner can read. */
#ifndef TESUP_SUPERVISOR_KEY_H
#define TESUP_SUPERVISOR_KEY_H

#include <stddef.h>
#include <stdint.h>

#include "shm/handshake.h"

/* Reads the key; makes the file with a fresh one (and missing directories) when there is none.
 * Two daemons that do this at once end with the same key. 0, or -1 with a sentence in text. */
int key_load(const char *path, uint8_t key[HANDSHAKE_KEY], char *text, size_t text_size);

#endif
