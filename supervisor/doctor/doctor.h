/* `tesup doctor`: what of this host would keep jobs from moving bytes, and the command that mends
 * it.
 *
 * Reads files of /proc, /sys and /dev and limits of this process, nothing else: it changes nothing,
 * loads no driver, and needs no supervisor.  What a supervisor's own process may is asked for by
 * running this as it runs: same user, same unit or container.
 */
#ifndef TESUP_SUPERVISOR_DOCTOR_DOCTOR_H
#define TESUP_SUPERVISOR_DOCTOR_DOCTOR_H

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define DOCTOR_FINDINGS 256
#define DOCTOR_TEXT     256

enum doctor_verdict {
    DOCTOR_OK,
    DOCTOR_NOTE, /* works, and could be better or more */
    DOCTOR_BAD,  /* something will be refused or fail */
};

struct doctor_finding {
    enum doctor_verdict verdict;
    char what[64];
    char text[DOCTOR_TEXT];
    char remedy[DOCTOR_TEXT]; /* "" when there is nothing to do */
};

struct doctor {
    /* what it looks at: tests have others */
    const char *root;    /* before each path; "" */
    uint64_t memlock;    /* bytes; UINT64_MAX unlimited, or CAP_IPC_LOCK */
    uint64_t files;      /* RLIMIT_NOFILE */
    cpu_set_t cpus;      /* that this process may use */
    bool may_read_other; /* CAP_SYS_PTRACE */
    /* what it found */
    struct doctor_finding findings[DOCTOR_FINDINGS];
    size_t count;
};

/* What this process may. */
void doctor_init(struct doctor *doctor);
/* All checks. */
void doctor_run(struct doctor *doctor);
enum doctor_verdict doctor_worst(const struct doctor *doctor);
int doctor_print_text(const struct doctor *doctor, FILE *out);
int doctor_print_json(const struct doctor *doctor, FILE *out);

/* ---- for the checks ---- */

/* Adds a finding; its text. The remedy is empty. NULL when there are too many. */
struct doctor_finding *doctor_add(struct doctor *doctor, enum doctor_verdict verdict,
                                  const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void doctor_remedy(struct doctor_finding *finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* First line of a file below root, without its newline. False: there is none. */
bool doctor_read(const struct doctor *doctor, char *line, size_t size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same as a number; `otherwise` when there is none. */
long long doctor_number(const struct doctor *doctor, long long otherwise, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool doctor_exists(const struct doctor *doctor, const char *path);
/* Calls `each` for every entry of a folder, in order of their names. Returns how many. */
size_t doctor_each(struct doctor *doctor, const char *folder,
                   void (*each)(struct doctor *doctor, const char *name, void *context),
                   void *context);

/* host.c, nic.c, gpu.c */
void doctor_check_host(struct doctor *doctor);
void doctor_check_nics(struct doctor *doctor);
void doctor_check_gpus(struct doctor *doctor);

#endif
