#include "tests/harness/test.h"

#include "tests/harness/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/command.h"
#include "tests/harness/wait.h"

json_t *status_document(const struct daemon *daemon)
{
    static struct command command; /* large */
    char words[512];
    json_error_t error;
    json_t *status;

    snprintf(words, sizeof(words), TESUP_BIN_DIR "/tesup status --json --name %s --runtime-dir %s",
             daemon->name, daemon_directory());
    command_run(&command, words);
    if (command.code != 0 && command.code != 1)
        fail_msg("status of %s: exit code %d: %s", daemon->name, command.code, command.err);
    status = json_loads(command.out, 0, &error);
    if (!status)
        fail_msg("status of %s: %s", daemon->name, error.text);
    return status;
}

static json_t *pair_of(const json_t *status)
{
    return json_array_get(json_object_get(status, "pairs"), 0);
}

static json_t *worker_of(const json_t *status)
{
    return json_object_get(pair_of(status), "worker");
}

static uint64_t count_take(json_t *status, const json_t *owner, const char *name)
{
    const json_t *number = json_object_get(json_object_get(owner, "counters"), name);
    uint64_t count;

    if (!json_is_integer(number))
        fail_msg("status has no counter %s", name);
    count = (uint64_t)json_integer_value(number);
    json_decref(status);
    return count;
}

uint64_t status_worker_count(const struct daemon *daemon, const char *name)
{
    json_t *status = status_document(daemon);

    return count_take(status, worker_of(status), name);
}

bool status_worker_erred(const struct daemon *daemon, const char *part)
{
    json_t *status = status_document(daemon);
    const json_t *errors = json_object_get(pair_of(status), "errors");
    bool found = false;

    for (size_t i = 0; i < json_array_size(errors); i++) {
        const json_t *text = json_object_get(json_array_get(errors, i), "text");

        found |= strstr(json_string_value(text), part) != NULL;
    }
    json_decref(status);
    return found;
}

uint64_t status_supervisor_count(const struct daemon *daemon, const char *name)
{
    json_t *status = status_document(daemon);

    return count_take(status, json_object_get(status, "supervisor"), name);
}

void status_worker_wait(const struct daemon *daemon, const char *name, uint64_t least)
{
    struct wait wait = wait_begin(name, WAIT_MS);

    while (status_worker_count(daemon, name) < least)
        wait_step(&wait);
}

void status_worker_fall(const struct daemon *daemon, const char *name, uint64_t most)
{
    struct wait wait = wait_begin(name, WAIT_MS);

    while (status_worker_count(daemon, name) > most)
        wait_step(&wait);
}

void status_supervisor_wait(const struct daemon *daemon, const char *name, uint64_t least)
{
    struct wait wait = wait_begin(name, WAIT_MS);

    while (status_supervisor_count(daemon, name) < least)
        wait_step(&wait);
}

static pid_t worker_read(const struct daemon *daemon, char *state, size_t size)
{
    json_t *status = status_document(daemon);
    json_t *worker = worker_of(status);
    pid_t pid = (pid_t)json_integer_value(json_object_get(worker, "pid"));

    snprintf(state, size, "%s", json_string_value(json_object_get(worker, "state")));
    json_decref(status);
    return pid;
}

void status_worker_state(const struct daemon *daemon, char *state, size_t size)
{
    (void)worker_read(daemon, state, size);
}

void status_worker_state_wait(const struct daemon *daemon, const char *state, unsigned ms)
{
    struct wait wait = wait_begin(state, ms);
    char now[32];

    for (;;) {
        status_worker_state(daemon, now, sizeof(now));
        if (strcmp(now, state) == 0)
            return;
        wait_step(&wait);
    }
}

pid_t status_worker_ready(const struct daemon *daemon, pid_t old)
{
    struct wait wait = wait_begin("a ready worker", WAIT_MS);
    char state[32];

    for (;;) {
        pid_t pid = worker_read(daemon, state, sizeof(state));

        if (pid > 0 && pid != old && strcmp(state, "ready") == 0)
            return pid;
        wait_step(&wait);
    }
}

size_t status_sessions(const struct daemon *daemon)
{
    json_t *status = status_document(daemon);
    size_t count = json_array_size(json_object_get(status, "sessions"));

    json_decref(status);
    return count;
}
