/* The `location` of registered memory: where a program says that it lies. */
#ifndef TESUP_COMPAT_MOONCAKE_LOCATION_H
#define TESUP_COMPAT_MOONCAKE_LOCATION_H

/* "*", "", "cpu:N", "cuda:N" and "segments:PAGE:N0,N1..."; NULL is "*".
 * 0, or a positive code with a sentence in `text`. */
int location_check(const char *location, char *text, unsigned long size);

#endif
