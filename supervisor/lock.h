/* One supervisor per name: the runtime directory and the lock file in it. */
#ifndef TESUP_SUPERVISOR_LOCK_H
#define TESUP_SUPERVISOR_LOCK_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct lock {
    int fd; /* -1 = not held */
    bool made_directory;
    char directory[PATH_MAX];
    char path[PATH_MAX];
};

/* Makes the directory when it is missing (`open_to_all`: others may enter it), takes the lock.
 * 0, or -1 with a sentence in text. */
int lock_take(struct lock *lock, const char *directory, const char *path, const char *name,
              bool open_to_all, char *text, size_t text_size);
/* Writes who holds it and where its counters are. 0, or -1 with text. */
int lock_write(struct lock *lock, int counters_fd, char *text, size_t text_size);
/* Removes the file, and the directory if it was made by lock_take and is empty. */
void lock_release(struct lock *lock);

#endif
