#include "tests/harness/test.h"

#include "tests/harness/endpoints.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/err.h"
#include "tests/harness/wait.h"

struct counters_segment *endpoints_open(const struct daemon *daemon)
{
    char path[DAEMON_PATH], line[128], *rest;
    struct counters_segment *counters = NULL;
    long number, pid;
    int fd;
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s.lock", daemon_directory(), daemon->name);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    fclose(file);
    /* PID STARTTIME COUNTERS_FD */
    pid = strtol(line, &rest, 10);
    (void)strtoull(rest, &rest, 10);
    number = strtol(rest, NULL, 10);
    snprintf(path, sizeof(path), "/proc/%ld/fd/%ld", pid, number);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(counters_map(fd, false, &counters), TS_OK);
    close(fd);
    return counters;
}

struct endpoints endpoints_look(const struct counters_segment *counters)
{
    struct endpoints found = {.state = ""};

    for (size_t i = 0; i < COUNTERS_ENDPOINTS; i++) {
        const struct counters_endpoint *live = &counters->worker[0].endpoint[i];
        struct counters_endpoint endpoint;

        if (atomic_peek(&live->used) == 0 || !counters_snapshot(live, &endpoint, sizeof(endpoint)))
            continue;
        if (strcmp(endpoint.fabric, "self") == 0)
            continue;
        if (atomic_peek(&endpoint.state) == ENDPOINT_READY) {
            found.ready++;
            continue;
        }
        found.other++;
        found.state = endpoint_state_name(atomic_peek(&endpoint.state));
    }
    return found;
}

void endpoints_wait(const struct counters_segment *counters, unsigned ready, const char *what)
{
    uint64_t until = wait_now_ms() + WAIT_MS;
    struct endpoints now;

    while (now = endpoints_look(counters), now.ready != ready || now.other > 0) {
        if (wait_now_ms() > until)
            fail_msg("%s: %u ready endpoints instead of %u, and %u that are not%s%s", what,
                     now.ready, ready, now.other, now.other > 0 ? ", one is " : "", now.state);
        wait_sleep_ms(1);
    }
}
