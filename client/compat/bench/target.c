/* The other process, and the pipe by which it is told what to do. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/compat/bench/bench.h"

enum verb { VERB_RECEIVE, VERB_FILL, VERB_CHECK };

struct command {
    enum verb verb;
    enum bench_way way;
    uint64_t length, number; /* notifications to come, or the seed */
};

static const struct bench_method *const methods[BENCH_WAYS] = {&bench_abi, &bench_direct,
                                                               &bench_tcp};

/* ---- the child ---- */

static int receive(struct bench_side *side, const struct command *command)
{
    struct bench_spin spin = {0};
    uint64_t received = 0;

    while (received < command->number) {
        int count = methods[command->way]->take(side, command->length);

        if (count < 0)
            return -1;
        received += (uint64_t)count;
        if (count > 0) {
            atomic_publish(&side->board->received, received); /* pairs with measure_one */
            spin = (struct bench_spin){0};
        } else if (!bench_spin(&spin)) {
            return bench_fail("the target waits in vain for a notification");
        }
    }
    return 0;
}

static int command_do(struct bench_side *side, const struct command *command)
{
    switch (command->verb) {
    case VERB_RECEIVE:
        return receive(side, command);
    case VERB_FILL:
        bench_fill(side->bytes, command->length, command->number);
        return 0;
    case VERB_CHECK:
        break;
    }
    if (!bench_filled(side->bytes, command->length, command->number))
        return bench_fail("the target's block has wrong bytes");
    return 0;
}

static bool way_wanted(const struct bench_side *side, unsigned way)
{
    return way != BENCH_DIRECT || side->options->direct;
}

static int answer(int fd, int rc)
{
    char word = rc == 0 ? 'y' : 'n';

    return write(fd, &word, 1) == 1 ? rc : -1;
}

static int child_run(struct bench_side *side, int commands, int answers)
{
    struct command command;
    int rc = 0;

    for (unsigned way = 0; rc == 0 && way < BENCH_WAYS; way++)
        if (way_wanted(side, way))
            rc = methods[way]->begin(side);
    side->board->address = (uint64_t)(uintptr_t)side->bytes;
    rc = answer(answers, rc);
    while (rc == 0 && read(commands, &command, sizeof(command)) == (ssize_t)sizeof(command)) {
        /* The initiator starts to move when it knows that somebody looks. */
        if (command.verb == VERB_RECEIVE)
            rc = answer(answers, 0);
        if (rc == 0)
            rc = answer(answers, command_do(side, &command));
    }
    for (unsigned way = 0; way < BENCH_WAYS; way++)
        if (way_wanted(side, way))
            methods[way]->end();
    return rc;
}

/* ---- the parent ---- */

static int answer_wait(const struct bench_target *target)
{
    struct pollfd wait = {.fd = target->answers, .events = POLLIN};
    char word = 'n';

    if (poll(&wait, 1, 3 * BENCH_WAIT_MS) <= 0)
        return bench_fail("the target does not answer");
    return read(target->answers, &word, 1) == 1 && word == 'y' ? 0 : -1;
}

int target_start(struct bench_target *target, const struct bench_side *side)
{
    struct bench_side other = *side;
    int commands[2], answers[2];
    pid_t parent = getpid();

    if (pipe(commands) < 0 || pipe(answers) < 0)
        return bench_fail("no pipe: %s", strerror(errno));
    target->pid = fork();
    if (target->pid < 0)
        return bench_fail("fork: %s", strerror(errno));
    if (target->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(commands[1]);
        close(answers[0]);
        other.target = true;
        memset(other.bytes, 0, side->options->max);
        _exit(getppid() == parent && child_run(&other, commands[0], answers[1]) == 0 ? 0 : 1);
    }
    close(commands[0]);
    close(answers[1]);
    target->commands = commands[1];
    target->answers = answers[0];
    return answer_wait(target);
}

static int command_send(const struct bench_target *target, const struct command *command)
{
    if (write(target->commands, command, sizeof(*command)) != (ssize_t)sizeof(*command))
        return bench_fail("the target has ended");
    return answer_wait(target);
}

int target_receive(struct bench_target *target, enum bench_way way, uint64_t length, uint64_t count)
{
    return command_send(target, &(struct command){VERB_RECEIVE, way, length, count});
}

int target_received(struct bench_target *target)
{
    return answer_wait(target);
}

int target_fill(struct bench_target *target, uint64_t length, uint64_t seed)
{
    return command_send(target, &(struct command){VERB_FILL, BENCH_ABI, length, seed});
}

int target_check(struct bench_target *target, uint64_t length, uint64_t seed)
{
    return command_send(target, &(struct command){VERB_CHECK, BENCH_ABI, length, seed});
}

int target_stop(struct bench_target *target)
{
    int status;

    close(target->commands);
    while (waitpid(target->pid, &status, 0) < 0 && errno == EINTR)
        ;
    close(target->answers);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : bench_fail("the target failed");
}
