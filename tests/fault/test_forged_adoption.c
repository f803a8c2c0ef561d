/* A hostile job overwrites its channel, then its worker dies: the next worker finds out when it
 * adopts the channel.  That job's session ends, and each honest job of the worker goes on. */
#include "tests/harness/test.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "shm/atomics.h"
#include "tests/harness/forge.h"
#include "tests/harness/load.h"
#include "tests/harness/status.h"
#include "tests/harness/wait.h"

#define HANGUP_MS  10000u
#define DETACHED   "and was detached"
#define PATIENT    "--fabric tcp --restart-max-deaths 1000"
#define SCRIBBLERS 12u
#define ROUNDS     5

static struct daemon left, right;
static struct load *load;

static int group_setup(void **state)
{
    if (daemon_group_setup(state) < 0)
        return -1;
    daemon_start(&left, "left", PATIENT);
    daemon_start(&right, "right", PATIENT);
    load = load_start(&left, &right, 2, PARTY_MEMORY_ALLOC);
    return 0;
}

static int group_teardown(void **state)
{
    load_stop(load);
    daemon_stop(&left);
    daemon_stop(&right);
    return daemon_group_teardown(state);
}

/* The worker that is ready then has adopted every channel, or refused it. */
static pid_t worker_replace(void)
{
    pid_t old = status_worker_ready(&left, 0);

    assert_int_equal(kill(old, SIGKILL), 0);
    return status_worker_ready(&left, old);
}

static struct journal_entry *forge_journal(const struct forge *forge)
{
    return forge->map.journal;
}

/* ---- each lie by itself ---- */

static void lie_magic(struct forge *forge)
{
    forge->map.header->magic ^= 1;
}

static void lie_version(struct forge *forge)
{
    forge->map.header->version_major++;
}

static void lie_size(struct forge *forge)
{
    forge->map.header->size *= 2;
}

static void lie_no_slots(struct forge *forge)
{
    forge->map.header->slots = 0;
}

static void lie_many_slots(struct forge *forge)
{
    struct channel_header *header = forge->map.header;

    header->slots = LAYOUT_SLOTS_MAX;
    header->sq.size = header->cq.size = LAYOUT_SLOTS_MAX;
}

static void lie_ring_outside(struct forge *forge)
{
    forge->map.header->ntx.offset = UINT64_MAX - 63;
}

static void lie_ring_too_long(struct forge *forge)
{
    forge->map.header->nrx.size = UINT64_C(1) << 40;
}

static void lie_journal_outside(struct forge *forge)
{
    forge->map.header->journal_offset = forge->map.header->size - 64;
}

static void lie_limit(struct forge *forge)
{
    forge->map.header->notify_max = UINT32_MAX;
}

static void lie_completions_read(struct forge *forge)
{
    atomic_publish(&forge->map.header->cq_words.head, UINT64_C(1) << 40);
}

static void lie_completions_written(struct forge *forge)
{
    atomic_publish(&forge->map.header->cq_words.tail, UINT64_C(1) << 63);
}

static void lie_mailbox(struct forge *forge)
{
    atomic_publish(&forge->map.header->nrx_words.tail, UINT64_C(1) << 50);
}

static void lie_unaligned(struct forge *forge)
{
    atomic_publish(&forge->map.header->ntx_words.head, 3);
}

/* More is owed than the completion ring can hold: it is full of what nobody took. */
static void lie_debts(struct forge *forge)
{
    atomic_publish(&forge->map.header->cq_words.tail, forge->map.slots);
    for (uint32_t slot = 0; slot < forge->map.slots; slot++) {
        forge_journal(forge)[slot].ticket = UINT64_MAX; /* accepted before the first */
        atomic_publish(&forge_journal(forge)[slot].state, JOURNAL_ACCEPTED);
    }
}

/* Adopted as it is: the first look at the ring tells. */
static void lie_submissions(struct forge *forge)
{
    atomic_publish(&forge->map.header->sq_words.head, UINT64_C(1) << 40);
}

static void (*const lies[])(struct forge *) = {
    lie_magic,
    lie_version,
    lie_size,
    lie_no_slots,
    lie_many_slots,
    lie_ring_outside,
    lie_ring_too_long,
    lie_journal_outside,
    lie_limit,
    lie_completions_read,
    lie_completions_written,
    lie_mailbox,
    lie_unaligned,
    lie_debts,
    lie_submissions,
};
#define LIES (sizeof(lies) / sizeof(lies[0]))

static void test_lies(void **state)
{
    static struct forge forge[LIES]; /* large */
    unsigned lines = daemon_log_count(&left, DETACHED);
    pid_t worker;

    (void)state;
    for (size_t i = 0; i < LIES; i++) {
        forge_attach(&forge[i], &left, NULL);
        lies[i](&forge[i]);
    }
    worker = worker_replace();
    for (size_t i = 0; i < LIES; i++) {
        forge_expect_hangup(forge[i].socket, HANGUP_MS);
        forge_leave(&forge[i]);
    }
    /* All but the wrong version, which a job of another release might have, too. */
    status_worker_wait(&left, "sessions_killed", LIES - 1);
    assert_int_equal(status_worker_count(&left, "sessions_killed"), LIES - 1);
    load_expect_progress(load);
    assert_int_equal(status_worker_ready(&left, 0), worker);
    lines = daemon_log_count(&left, DETACHED) - lines;
    if (lines == 0 || lines >= LIES)
        fail_msg("%u lines in the log about %zu jobs: at least one, and not one for each", lines,
                 LIES);
}

/* ---- anything anywhere ---- */

static uint64_t random_next(uint64_t *word)
{
    *word ^= *word << 13;
    *word ^= *word >> 7;
    *word ^= *word << 17;
    return *word;
}

/* Some words of the header, of the counters or of the journal; small values as often as large. */
static void scribble(struct forge *forge, uint64_t seed)
{
    uint8_t *bytes = (uint8_t *)forge->map.header;
    size_t journal = (size_t)((uint8_t *)forge_journal(forge) - bytes);
    uint64_t word = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;

    for (int i = 0; i < 8; i++) {
        uint64_t where = random_next(&word) % 3, at = random_next(&word), value;

        if (where == 0)
            at = at % (160 / 8) * 8;
        else if (where == 1)
            at = offsetof(struct channel_header, sq_words) + at % 8 * LAYOUT_LINE;
        else
            at = journal + at % (forge->map.slots * sizeof(struct journal_entry) / 8) * 8;
        value = random_next(&word) >> random_next(&word) % 64;
        memcpy(bytes + at, &value, sizeof(value));
    }
}

/* Some of it is nonsense and ends the session, some is harmless; none of it harms anybody else. */
static void test_scribble(void **state)
{
    static struct forge forge[SCRIBBLERS]; /* large */

    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        pid_t worker;

        for (size_t i = 0; i < SCRIBBLERS; i++) {
            const struct sqe nop = {.op = SQE_NOP};

            forge_attach(&forge[i], &left, NULL);
            (void)forge_open(&forge[i], forge[i].name);
            forge_sqe(&forge[i], &nop);
            forge_publish(&forge[i]);
            (void)forge_complete(&forge[i]);
            scribble(&forge[i], round * SCRIBBLERS + i);
        }
        worker = worker_replace();
        load_expect_progress(load);
        for (size_t i = 0; i < SCRIBBLERS; i++) {
            forge_wake(&forge[i]);
            forge_leave(&forge[i]);
        }
        load_expect_progress(load);
        assert_int_equal(status_worker_ready(&left, 0), worker);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lies),
        cmocka_unit_test(test_scribble),
    };

    return cmocka_run_group_tests_name("forged channels and the next worker", tests, group_setup,
                                       group_teardown);
}
