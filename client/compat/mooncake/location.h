/* The `location` of registered memory: where a program says that it lies. */
#ifndef TESUP_COMPAT_MOONCAKE_LOCATION_H
#define TESUP_COMPAT_MOONCAKE_LOCATION_H

#include <stdbool.h>

/* "*", "", "cpu:N", "cuda:N" and "segments:PAGE:N0,N1..."; NULL is "*".
 * 0, or a positive code with a sentence in `text`. */
int location_check(const char *location, char *text, unsigned long size);
/* One that passed the check: does it say that the memory is of a GPU? */
bool location_is_gpu(const char *location);

#endif
