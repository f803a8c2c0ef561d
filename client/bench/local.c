#include "client/bench/local.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "client/bench/clock.h"
#include "client/bench/process.h"

#define LOCAL_START_NS (20 * CLOCK_NS_PER_S)
#define LOCAL_JOB_MS   2000u
#define LOCAL_DRAIN_MS 8000u
#define LOCAL_LOG_TAIL 4096
#define LOCAL_TEXT     256u
#define LOCAL_SELF     "/proc/self/exe"

struct local {
    const struct bench_options *options;
    int signal_fd;
    char directory[PATH_MAX / 2]; /* "" before it exists */
    struct process supervisor[2];
    struct process target, initiator;
    char target_name[2 * LOCAL_TEXT]; /* HOST:PORT/SEGMENT */
};

static const char *const supervisor_names[2] = {"bench-a", "bench-b"};

/* INT, TERM and HUP become readable, so that every way out goes through the clean-up. */
static int signals_open(struct local *local)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    local->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
    return local->signal_fd < 0 ? -1 : 0;
}

static int signal_code(const struct local *local)
{
    struct signalfd_siginfo info;

    if (read(local->signal_fd, &info, sizeof(info)) != sizeof(info))
        return EXIT_FAILURE;
    return 128 + (int)info.ssi_signo;
}

static int directory_create(struct local *local)
{
    const char *base = getenv("TMPDIR");

    snprintf(local->directory, sizeof(local->directory), "%s/tesup-bench-XXXXXX",
             base && *base ? base : "/tmp");
    if (mkdtemp(local->directory))
        return 0;
    fprintf(stderr, "tesup bench: cannot create %s: %s\n", local->directory, strerror(errno));
    local->directory[0] = '\0';
    return -1;
}

static int entry_remove(const char *path, const struct stat *status, int kind, struct FTW *ftw)
{
    (void)status;
    (void)kind;
    (void)ftw;
    remove(path);
    return 0;
}

static void log_show(const char *path)
{
    char text[LOCAL_LOG_TAIL + 1];
    FILE *file = fopen(path, "re");

    if (!file)
        return;
    if (fseek(file, -LOCAL_LOG_TAIL, SEEK_END) < 0)
        rewind(file);
    text[fread(text, 1, LOCAL_LOG_TAIL, file)] = '\0';
    fputs(text, stderr);
    fclose(file);
}

static void log_path(const struct local *local, int i, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s.log", local->directory, supervisor_names[i]);
}

/* Starts it and waits for the line that begins with `word`; what follows goes to `rest`.
 * `log` is of the supervisor that knows why not. 0, or the exit code of the benchmark. */
static int ready_start(const struct local *local, struct process *process,
                       const struct process_plan *plan, const char *log, const char *word,
                       char *rest, size_t size)
{
    char line[2 * LOCAL_TEXT];
    uint64_t deadline = clock_now_ns() + LOCAL_START_NS;
    int got = process_start(process, plan);

    while (got == 0) {
        got = process_line_read(process, line, sizeof(line), deadline, local->signal_fd);
        if (got == 0 && strncmp(line, word, strlen(word)) == 0) {
            snprintf(rest, size, "%s", line + strlen(word));
            return 0;
        }
    }
    if (got == -2)
        return signal_code(local);
    fprintf(stderr, "tesup bench: `%s %s` did not say '%s'; its supervisor's last words:\n",
            plan->path, plan->argv[1], word);
    log_show(log);
    return EXIT_FAILURE;
}

static int supervisor_start(struct local *local, int i)
{
    char tesup[PATH_MAX], key[PATH_MAX], log[PATH_MAX], address[LOCAL_TEXT];
    const struct bench_options *options = local->options;
    /* One does for memory and TCP; RDMA needs the plan's, which have devices. */
    const char *workers = options->fabric == BENCH_FABRIC_VERBS ? "0" : "1";
    const char *const argv[] = {"tesup",
                                "serve",
                                "--foreground",
                                "--name",
                                supervisor_names[i],
                                "--runtime-dir",
                                local->directory,
                                "--listen",
                                "127.0.0.1:0",
                                "--workers",
                                workers,
                                "--fabric",
                                options_fabric_name(options->fabric),
                                "--idle",
                                options_idle_name(options->idle),
                                "--peer-key",
                                key,
                                NULL};
    /* With the native way off and the fallback on, every notification goes out of band. */
    const char *const oob[] = {"MC_RDMA_NOTIFY_ENABLED=0", "MC_RDMA_NOTIFY_OOB_FALLBACK=1", NULL};
    const char *const native[] = {"MC_RDMA_NOTIFY_ENABLED=1", "MC_RDMA_NOTIFY_OOB_FALLBACK=0",
                                  NULL};
    const struct process_plan plan = {
        .path = tesup,
        .argv = argv,
        .variable = options->notify == BENCH_NOTIFY_OOB ? oob : native,
        .error_file = log,
        .capture_output = 1,
    };

    process_tesup_find(tesup);
    snprintf(key, sizeof(key), "%s/peer.key", local->directory);
    log_path(local, i, log);
    return ready_start(local, &local->supervisor[i], &plan, log, "listening on ", address,
                       sizeof(address));
}

static void socket_variable(const struct local *local, int i, char *variable, size_t size)
{
    snprintf(variable, size, "TESUP_SOCKET=%s/%s.sock", local->directory, supervisor_names[i]);
}

static int target_start(struct local *local)
{
    char variable[PATH_MAX], log[PATH_MAX];
    const char *const argv[] = {"tesup bench", "target", NULL};
    const char *const variables[] = {variable, NULL};
    const struct process_plan plan = {
        .path = LOCAL_SELF, .argv = argv, .variable = variables, .capture_output = 1};

    socket_variable(local, 0, variable, sizeof(variable));
    log_path(local, 0, log);
    return ready_start(local, &local->target, &plan, log, "target ", local->target_name,
                       sizeof(local->target_name));
}

/* The initiator gets our own command line, with "local" replaced by what it is to do. */
static int initiator_execute(struct local *local, int argc, char **argv)
{
    char variable[PATH_MAX];
    const char *const variables[] = {variable, NULL};
    const char **own = calloc((size_t)argc + 2, sizeof(*own));
    const struct process_plan plan = {.path = LOCAL_SELF, .argv = own, .variable = variables};

    if (!own) {
        fprintf(stderr, "tesup bench: out of memory\n");
        return EXIT_FAILURE;
    }
    memcpy(own, argv, (size_t)(argc - 1) * sizeof(*own));
    own[argc - 1] = "initiator";
    own[argc] = local->target_name;
    socket_variable(local, 1, variable, sizeof(variable));
    int started = process_start(&local->initiator, &plan);
    free((void *)own);
    if (started) {
        fprintf(stderr, "tesup bench: cannot start the initiator job: %s\n", strerror(errno));
        return EXIT_FAILURE;
    }
    /* Every wait of the initiator has a deadline, so this one needs none. */
    int code = process_wait(&local->initiator, UINT64_MAX, local->signal_fd);
    return code == -2 ? signal_code(local) : code;
}

/* A supervisor that does not end well makes a good run a bad one: its last words are shown. */
static int supervisor_stop(struct local *local, int i, int code)
{
    char log[PATH_MAX];
    int ended = process_stop(&local->supervisor[i], LOCAL_DRAIN_MS);

    if (ended == 0 || code != EXIT_SUCCESS)
        return code;
    log_path(local, i, log);
    fprintf(stderr, "tesup bench: the supervisor ended with code %d; it said:\n", ended);
    log_show(log);
    return EXIT_FAILURE;
}

/* Returns what becomes of `code`. */
static int local_clean(struct local *local, int code)
{
    process_stop(&local->initiator, LOCAL_JOB_MS);
    /* After a good run the target ends by itself. */
    if (code == EXIT_SUCCESS && local->target.pid)
        process_wait(&local->target, clock_now_ns() + LOCAL_JOB_MS * CLOCK_NS_PER_MS, -1);
    process_stop(&local->target, LOCAL_JOB_MS);
    for (int i = 0; i < 2; i++)
        code = supervisor_stop(local, i, code);
    if (local->directory[0])
        nftw(local->directory, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
    if (local->signal_fd >= 0)
        close(local->signal_fd);
    return code;
}

int local_run(const struct bench_options *options, int argc, char **argv)
{
    struct local local = {.options = options,
                          .signal_fd = -1,
                          .supervisor = {PROCESS_EMPTY, PROCESS_EMPTY},
                          .target = PROCESS_EMPTY,
                          .initiator = PROCESS_EMPTY};
    int code = EXIT_FAILURE;

    if (signals_open(&local) || directory_create(&local))
        goto out;
    code = supervisor_start(&local, 0);
    if (code == 0)
        code = supervisor_start(&local, 1);
    if (code == 0)
        code = target_start(&local);
    if (code == 0)
        code = initiator_execute(&local, argc, argv);

out:
    return local_clean(&local, code);
}
