/* A limit of the system, set from outside, and what a job sees when it reaches one. */
#ifndef TESUP_TESTS_FAULT_LIMIT_FIXTURE_H
#define TESUP_TESTS_FAULT_LIMIT_FIXTURE_H

#include "tests/harness/test.h"

#include <string.h>
#include <sys/resource.h>

#include "tests/harness/job.h"
#include "tests/harness/party.h"

#define MIB (UINT64_C(1) << 20)

static inline void error_expect(int code, int expected, const char *part)
{
    party_expect(code, expected);
    if (!strstr(tesup_last_error(), part))
        fail_msg("'%s' is not in: %s", part, tesup_last_error());
}

/* The soft limit only: it can be raised again without any right. */
static inline void limit_set(pid_t pid, int resource, rlim_t value)
{
    struct rlimit limit;

    assert_int_equal(prlimit(pid, (__rlimit_resource_t)resource, NULL, &limit), 0);
    limit.rlim_cur = value < limit.rlim_max ? value : limit.rlim_max;
    assert_int_equal(prlimit(pid, (__rlimit_resource_t)resource, &limit, NULL), 0);
}

static inline int attach(const struct daemon *daemon, struct tesup_session **session)
{
    const struct tesup_options options = {.socket = daemon->socket, .timeout_ms = 3000};

    return tesup_attach(&options, session);
}

/* A session that was there before works as if nothing was wrong. */
static inline void session_expect_alive(struct tesup_session *session)
{
    const struct tesup_request nop = {.op = TESUP_OP_NOP};

    party_check(party_do(tesup_channel_main(session), &nop).status, "NOP");
}

#endif
