/* Where the supervisor's socket, lock file and key are by default. */
#ifndef TESUP_SUPERVISOR_OPTIONS_PATHS_H
#define TESUP_SUPERVISOR_OPTIONS_PATHS_H

#include <limits.h>
#include <stddef.h>

#define OPTIONS_NAME_DEFAULT   "default"
#define OPTIONS_NAME_MAX       33u  /* supervisor's name with its NUL */
#define OPTIONS_SOCKET_MAX     108u /* sun_path */
#define OPTIONS_PATHS_TEXT_MAX 512u

struct options_paths {
    char runtime_dir[PATH_MAX];
    char socket[OPTIONS_SOCKET_MAX]; /* RUNTIME_DIR/NAME.sock */
    char lock[OPTIONS_SOCKET_MAX];   /* RUNTIME_DIR/NAME.lock */
};

/* NULL or "" for name and runtime_dir mean the default. 0, or -1 with text. */
int options_paths_default(const char *name, const char *runtime_dir, struct options_paths *paths,
                          char *text, size_t text_size);

/* The default of --peer-key. 0, or -1 with text. */
int options_key_default(char *path, size_t size, char *text, size_t text_size);

#endif
