/* Where the other programs of this release are. */
#ifndef TESUP_SUPERVISOR_PROGRAM_H
#define TESUP_SUPERVISOR_PROGRAM_H

#include <stddef.h>

/* Beside this program (a build folder), where an installation has them relative to it, wherever
 * that was put, and last where it was configured to be.  0, or -1 with the last path that was
 * tried. */
int program_find(const char *name, char *path, size_t size);

#endif
