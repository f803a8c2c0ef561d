/* TESUP_MORE: one notification for many transfers, behind all of them. */
#include "tests/harness/test.h"

#include <string.h>

#include "tests/integration/duo_fixture.h"

#define MEMBERS 64u
#define ROUNDS  20u
#define PIECE   (MIB / MEMBERS)

static struct tesup_request piece(const struct duo *duo, uint32_t index)
{
    struct tesup_request request = duo->request;

    request.flags = TESUP_MORE;
    request.cookie = index;
    request.local_offset = request.remote_offset = index * PIECE;
    request.length = PIECE;
    return request;
}

static void note_add(struct tesup_request *request, const char *name)
{
    request->flags = 0;
    request->name = name;
    request->name_len = (uint32_t)strlen(name);
}

static void note_expect(const struct duo *duo, const char *name, uint64_t bytes)
{
    struct tesup_notification note = party_next(duo->right.channel);

    assert_true(party_name_is(&note, name));
    party_expect(note.status, TESUP_OK);
    assert_int_equal(note.bytes, bytes);
    party_check(tesup_notify_release(duo->right.channel), "release");
}

static void all_of_it(void **state)
{
    struct duo duo;

    duo_begin(&duo, *state, MIB);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        party_fill(duo.local.bytes, MIB, round);
        for (uint32_t i = 0; i < MEMBERS; i++) {
            struct tesup_request request = piece(&duo, i);

            if (i == MEMBERS - 1)
                note_add(&request, "all");
            party_submit(duo.left.channel, &request);
        }
        note_expect(&duo, "all", MIB);
        party_verify(duo.remote.bytes, MIB, round, "at the notification");
        for (uint32_t i = 0; i < MEMBERS; i++)
            party_check(party_complete(duo.left.channel).status, "a member");
    }
    duo_end(&duo);
}

static void one_that_fails(void **state)
{
    struct tesup_request request;
    struct duo duo;

    duo_begin(&duo, *state, MIB);
    request = piece(&duo, 0);
    request.remote_offset = MIB;
    party_submit(duo.left.channel, &request);
    request = piece(&duo, 1);
    note_add(&request, "never");
    party_submit(duo.left.channel, &request);
    for (int i = 0; i < 2; i++) {
        struct tesup_completion done = party_complete(duo.left.channel);

        party_expect(done.status, done.cookie == 0 ? TESUP_ERR_INVALID : TESUP_ERR_SKIPPED);
    }
    request = piece(&duo, 2);
    note_add(&request, "the first that arrives");
    party_check(party_do(duo.left.channel, &request).status, "WRITE");
    note_expect(&duo, "the first that arrives", PIECE);
    duo_end(&duo);
}

#define ON(test, index)                                                           \
    {                                                                             \
#test " over " #index, test, NULL, NULL, (void *)(uintptr_t)&sites[index] \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON(all_of_it, SITE_TCP),        ON(all_of_it, SITE_LOCAL),
        ON(all_of_it, SITE_WORKER),     ON(one_that_fails, SITE_TCP),
        ON(one_that_fails, SITE_LOCAL), ON(one_that_fails, SITE_WORKER),
    };

    return cmocka_run_group_tests(tests, site_group_setup, site_group_teardown);
}
