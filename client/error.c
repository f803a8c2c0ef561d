/* Status codes in words: a phrase for each code, and the sentence about this thread's last error.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/internal.h"
#include "shm/err.h"

#define SENTENCE_MAX 768

static _Thread_local char sentence[SENTENCE_MAX];

int error_note(int code, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(sentence, sizeof(sentence), format, arguments);
    va_end(arguments);
    return code;
}

struct errno_meaning {
    int number, code;
    const char *remedy;
};

static const struct errno_meaning meanings[] = {
    {EMFILE, TS_ERR_LIMIT,
     "; this process may have no more files (RLIMIT_NOFILE): raise it with `ulimit -n`"},
    {ENFILE, TS_ERR_LIMIT, "; the system may have no more files: raise sysctl fs.file-max"},
    {ENOMEM, TS_ERR_NO_MEMORY,
     "; the system, its cgroup or RLIMIT_AS (`ulimit -v`) allows no more memory"},
    {ENOSPC, TS_ERR_NO_MEMORY, "; the system or its cgroup has no memory left for shared pages"},
    {EFBIG, TS_ERR_LIMIT,
     "; files may not be that large (RLIMIT_FSIZE): raise it with `ulimit -f`"},
    {EACCES, TS_ERR_DENIED, ""},
    {EPERM, TS_ERR_DENIED, ""},
};

int error_system(const char *format, ...)
{
    struct errno_meaning meaning = {.number = errno, .code = TS_ERR_SYSTEM, .remedy = ""};
    char reason[96];
    va_list arguments;
    int used;

    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
        if (meanings[i].number == meaning.number)
            meaning = meanings[i];
    va_start(arguments, format);
    used = vsnprintf(sentence, sizeof(sentence), format, arguments);
    va_end(arguments);
    if (used >= 0 && (size_t)used < sizeof(sentence))
        snprintf(sentence + used, sizeof(sentence) - (size_t)used, ": %s%s",
                 strerror_r(meaning.number, reason, sizeof(reason)), meaning.remedy);
    return meaning.code;
}

const char *tesup_strerror(int code)
{
    return err_name(code);
}

const char *tesup_last_error(void)
{
    return sentence[0] != '\0' ? sentence : "no error in this thread yet";
}
