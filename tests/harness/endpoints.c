#include "tests/harness/test.h"

#include "tests/harness/endpoints.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shm/err.h"
#include "tests/harness/wait.h"

struct counters_segment *endpoints_open(const struct daemon *daemon)
{
    char path[DAEMON_PATH];
    struct counters_segment *counters = NULL;
    int number = -1, pid = 0, fd;
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s.lock", daemon_directory(), daemon->name);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d %*s %d", &pid, &number), 2);
    fclose(file);
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, number);
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
