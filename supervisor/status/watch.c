#include "supervisor/status/watch.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "shm/clock.h"

/* Another screen, so that what was on this one comes back; no cursor that jumps about; lines that
 * are too long for a narrow terminal end at its edge. */
#define SCREEN_ENTER "\033[?1049h\033[?25l\033[?7l"
#define SCREEN_LEAVE "\033[?7h\033[?25h\033[?1049l"
/* Frames are written over each other: clearing first is what flickers. */
#define FRAME_HOME  "\033[H"
#define LINE_CLEAR  "\033[K"
#define FRAME_CLEAR "\033[J"

struct watch {
    bool terminal;
    uint64_t period_ns, next_ns;
    const char *between;
    bool first;
    sigset_t signals; /* taken by sigtimedwait */
};

static int bytes_write(const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t done = write(STDOUT_FILENO, bytes, size);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -1;
        bytes += done;
        size -= (size_t)done;
    }
    return 0;
}

static int text_write(const char *text)
{
    return bytes_write(text, strlen(text));
}

static unsigned terminal_height(void)
{
    struct winsize size = {0};

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1 ? size.ws_row : 24;
}

/* What does not fit is left out, and said: a frame that scrolls could not be written over. */
static void frame_place(const char *frame, FILE *out)
{
    unsigned room = terminal_height();
    unsigned lines = 0, left_out = 0;

    for (const char *at = frame; *at; at++)
        lines += *at == '\n';
    if (lines >= room)
        left_out = lines - (room - 2);
    fputs(FRAME_HOME, out);
    for (unsigned i = 0; i < lines - left_out; i++) {
        int length = (int)strcspn(frame, "\n");

        fprintf(out, "%.*s" LINE_CLEAR "\n", length, frame);
        frame += length + 1;
    }
    if (left_out)
        fprintf(out, "(%u more lines: make the terminal higher)" LINE_CLEAR, left_out);
    fputs(FRAME_CLEAR, out);
}

static int frame_write(struct watch *watch, const char *frame)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out;
    int err;

    if (!watch->terminal) {
        err = watch->first ? 0 : text_write(watch->between);
        return err ? err : text_write(frame);
    }
    out = open_memstream(&text, &size);
    if (!out)
        return -1;
    frame_place(frame, out);
    err = fclose(out) ? -1 : bytes_write(text, size);
    free(text);
    return err;
}

static int frame_show(struct watch *watch, status_frame *frame, void *argument, int *code)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    int err;

    if (!out)
        return -1;
    *code = frame(argument, out);
    err = fclose(out) ? -1 : frame_write(watch, text);
    free(text);
    watch->first = false;
    return err;
}

/* Ctrl-Z gives the terminal back for as long as it lasts. */
static int watch_suspend(void)
{
    if (text_write(SCREEN_LEAVE))
        return -1;
    raise(SIGSTOP);
    return text_write(SCREEN_ENTER);
}

/* 1: it is time for the next frame; 0: it is time to end; -1: nothing can be written. */
static int watch_wait(struct watch *watch)
{
    for (;;) {
        uint64_t now = clock_now();
        uint64_t left = watch->next_ns > now ? watch->next_ns - now : 0;
        struct timespec timeout = {.tv_sec = (time_t)(left / CLOCK_NS_PER_S),
                                   .tv_nsec = (long)(left % CLOCK_NS_PER_S)};

        switch (sigtimedwait(&watch->signals, NULL, &timeout)) {
        case -1:
            if (errno == EINTR)
                continue;
            watch->next_ns += watch->period_ns;
            if (watch->next_ns < clock_now())
                watch->next_ns = clock_now() + watch->period_ns;
            return 1;
        case SIGWINCH:
            return 1;
        case SIGTSTP:
            return watch_suspend() ? -1 : 1;
        default:
            return 0;
        }
    }
}

/* Without a terminal there is nothing to give back: signals end the process as usual. */
static void watch_signals(struct watch *watch)
{
    static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP};

    sigemptyset(&watch->signals);
    for (size_t i = 0; watch->terminal && i < sizeof(taken) / sizeof(taken[0]); i++)
        sigaddset(&watch->signals, taken[i]);
}

int status_watch(unsigned seconds, const char *between, status_frame *frame, void *argument)
{
    struct watch watch = {.terminal = isatty(STDOUT_FILENO),
                          .period_ns = seconds * CLOCK_NS_PER_S,
                          .next_ns = clock_now() + seconds * CLOCK_NS_PER_S,
                          .between = between,
                          .first = true};
    sigset_t before;
    int code = 0;
    int go = 1;

    watch_signals(&watch);
    sigprocmask(SIG_BLOCK, &watch.signals, &before);
    if (watch.terminal && text_write(SCREEN_ENTER))
        go = -1;
    while (go > 0)
        go = frame_show(&watch, frame, argument, &code) ? -1 : watch_wait(&watch);
    if (watch.terminal && text_write(SCREEN_LEAVE))
        go = -1;
    sigprocmask(SIG_SETMASK, &before, NULL);
    return go < 0 ? -1 : code;
}
