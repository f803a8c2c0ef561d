/* A session that is attached to a fake supervisor, made anew for every test. */
#ifndef TESTS_UNIT_CLIENT_ATTACHED_FIXTURE_H
#define TESTS_UNIT_CLIENT_ATTACHED_FIXTURE_H

#include "tests/unit/client/fake_peer.h"

static struct fake fake;
static struct tesup_session *session;
static struct tesup_channel *channel; /* the session's main one */
static struct fake_channel *worker;   /* its other side */

/* Ring counters begin at `start`. */
static inline void attached_begin(uint64_t start)
{
    fake_init(&fake);
    fake.shape.start = start;
    session = fake_attach(&fake);
    channel = tesup_channel_main(session);
    worker = &fake.channels[0];
}

static inline int attached_setup(void **state)
{
    (void)state;
    attached_begin(0);
    return 0;
}

static inline int attached_teardown(void **state)
{
    (void)state;
    tesup_detach(session);
    fake_fini(&fake);
    return 0;
}

#define ATTACHED_TEST(function) \
    cmocka_unit_test_setup_teardown(function, attached_setup, attached_teardown)

#endif
