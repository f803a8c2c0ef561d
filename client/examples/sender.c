/* The sending job: WRITEs and READs blocks of a receiver's memory and prints what it took. */
#include <time.h>

#include "job.h"

#define ROUNDS 20

struct sender {
    struct tesup_channel *channel;
    struct tesup_request request; /* op, seed and length change */
    void *memory;
};

/* Waits for the receiver's answer of this name. */
static struct note answer_wait(const struct sender *sender, const char *name)
{
    struct tesup_notification next = job_next(sender->channel, JOB_PATIENCE_MS);
    struct note note;

    if (!job_is(&next, name))
        job_check(TESUP_ERR_PROTOCOL, name);
    memcpy(&note, next.msg, sizeof(note));
    job_check(tesup_notify_release(sender->channel), "release");
    return note;
}

static void tell(const struct sender *sender, const char *name, const struct note *note)
{
    const struct tesup_request notify = {.op = TESUP_OP_NOTIFY, .remote = sender->request.remote};

    job_do(sender->channel, notify, name, note);
}

/* Moves one block, with its notification. The microseconds until its completion. */
static double move(const struct sender *sender, const char *name, const struct note *note)
{
    struct timespec start, end;

    clock_gettime(CLOCK_MONOTONIC, &start);
    job_do(sender->channel, sender->request, name, note);
    clock_gettime(CLOCK_MONOTONIC, &end);
    return (double)(end.tv_sec - start.tv_sec) * 1e6 + (double)(end.tv_nsec - start.tv_nsec) / 1e3;
}

static double write_block(const struct sender *sender, const struct note *note, bool *verified)
{
    job_fill(sender->memory, note->length, note->seed);
    double us = move(sender, "written", note);
    *verified = *verified && answer_wait(sender, "checked").verified;
    return us;
}

static double read_block(const struct sender *sender, const struct note *note, bool *verified)
{
    tell(sender, "fill", note);
    answer_wait(sender, "filled");
    double us = move(sender, "read", note);
    *verified = *verified && job_verify(sender->memory, note->length, note->seed);
    answer_wait(sender, "reusable");
    return us;
}

static bool sweep(struct sender *sender, uint32_t op, const char *size)
{
    struct note note = {.length = job_size(size)};
    bool verified = true;
    double us = 0;

    sender->request.op = op;
    sender->request.length = note.length;
    for (note.seed = 1; note.seed <= ROUNDS; note.seed++)
        us += op == TESUP_OP_WRITE ? write_block(sender, &note, &verified)
                                   : read_block(sender, &note, &verified);
    us /= ROUNDS;
    printf("%-6s %6s %10.1f %8.3f  %s\n", op == TESUP_OP_WRITE ? "write" : "read", size, us,
           (double)note.length / us / 1e3, verified ? "yes" : "NO");
    return verified;
}

int main(int argc, char **argv)
{
    struct tesup_session *session;
    struct sender sender = {.memory = NULL};
    struct note hello = {.length = 0};
    uint64_t largest = 0;
    bool verified = true;

    if (argc < 3) {
        fprintf(stderr, "usage: %s HOST:PORT/SEGMENT SIZE...\n", argv[0]);
        return 2;
    }
    for (int i = 2; i < argc; i++)
        largest = job_size(argv[i]) > largest ? job_size(argv[i]) : largest;
    job_check(tesup_attach(NULL, &session), "attach");
    sender.channel = tesup_channel_main(session);
    job_check(tesup_mem_alloc(session, largest, TESUP_ACCESS_LOCAL, &sender.memory,
                              &sender.request.local_region),
              "memory");
    job_check(tesup_segment_open(session, argv[1], &sender.request.remote), argv[1]);
    job_check(tesup_segment_watch(session, sender.request.remote), argv[1]);
    tell(&sender, "hello", &hello);
    sender.request.remote_region = answer_wait(&sender, "memory").region;

    for (int i = 2; i < argc; i++)
        verified = sweep(&sender, TESUP_OP_WRITE, argv[i]) && verified;
    for (int i = 2; i < argc; i++)
        verified = sweep(&sender, TESUP_OP_READ, argv[i]) && verified;
    tell(&sender, "bye", &hello);
    tesup_detach(session);
    return verified ? EXIT_SUCCESS : EXIT_FAILURE;
}
