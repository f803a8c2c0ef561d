/* Four jobs, two workers, requests of all sizes and kinds, and at random moments cables that are
 * silent, addresses that go, packets that are lost, workers that are killed or stopped.  The ledger
 * of each job says: no wrong byte, exactly one completion for each request, a notification at most
 * once, in order, never before its data.  TESUP_SEED=N repeats a run's events. */
#include "tests/harness/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shm/atomics.h"
#include "tests/harness/command.h"
#include "tests/harness/job.h"
#include "tests/harness/status.h"
#include "tests/rdma/rdma_fixture.h"

#define JOBS   4u /* 0 and 1 on the left, 2 and 3 on the right; N works with 3 - N */
#define DEPTH  4u /* requests of one job in flight */
#define SLOTS  16u
#define SLOT   (256 * KIB)
#define EVENTS 10u
#define MORE   5u /* notifications for each job between two events */

/* What one job tells the others and the test. */
struct seat {
    char name[LAYOUT_NAME_MAX];
    tesup_region_t region;
    _Atomic uint64_t attached;
    _Atomic uint64_t seen; /* the peer's last number that came */
    _Atomic uint64_t good; /* notifications that came, their data right */
};

struct table {
    uint64_t seed;
    _Atomic uint64_t next, stop;
    struct seat seat[JOBS];
};

/* Of a request, by its number; it is its cookie, and its notification. */
struct entry {
    uint64_t number; /* 0: free */
    uint32_t op, length;
};

struct player {
    struct table *table;
    unsigned index;
    uint64_t random, number, accepted, completed;
    struct seat *own, *other;
    struct party party;
    struct party_region out, in; /* `in`: slots that are written, and behind them what is read */
    tesup_remote_t remote;
    struct entry entry[DEPTH];
};

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint64_t content(unsigned job, uint64_t number)
{
    return (uint64_t)job << 48 | number;
}

/* ---- what is sent ---- */

static void entry_choose(struct player *player, struct entry *entry)
{
    static const uint32_t lengths[] = {1, 64, 4096, 65536, 65537, SLOT - 3, SLOT};
    uint64_t dice = random_next(&player->random);

    entry->op = dice % 4 == 0 ? TESUP_OP_NOTIFY : dice % 4 == 1 ? TESUP_OP_READ : TESUP_OP_WRITE;
    entry->length = lengths[dice / 4 % (sizeof(lengths) / sizeof(lengths[0]))];
    /* A slot is written again when its last content was looked at. */
    if (entry->number >= atomic_observe(&player->other->seen) + SLOTS)
        entry->op = TESUP_OP_NOTIFY;
}

static void entry_submit(struct player *player, struct entry *entry)
{
    uint64_t place;
    struct tesup_request request = {.remote = player->remote,
                                    .local_region = player->out.handle,
                                    .remote_region = player->other->region,
                                    .name = entry,
                                    .name_len = sizeof(*entry)};
    uint32_t accepted = 0;
    int code;

    entry->number = ++player->number;
    place = entry->number % SLOTS * SLOT;
    entry_choose(player, entry);
    request.op = entry->op;
    request.cookie = entry->number;
    if (entry->op != TESUP_OP_NOTIFY) {
        request.length = entry->length;
        request.local_offset = request.remote_offset = place;
    }
    if (entry->op == TESUP_OP_READ)
        request.remote_offset += SLOTS * SLOT;
    if (entry->op == TESUP_OP_WRITE)
        party_fill(player->out.bytes + place, entry->length, content(player->index, entry->number));
    code = tesup_submit(player->party.channel, &request, 1, NULL, &accepted);
    if (code != TESUP_AGAIN)
        party_check(code, "submit");
    player->accepted += accepted;
    if (accepted == 0)
        entry->number = 0;
}

static void completion_take(struct player *player, const struct tesup_completion *done)
{
    struct entry *entry = player->entry;

    while (entry < player->entry + DEPTH && entry->number != done->cookie)
        entry++;
    if (entry == player->entry + DEPTH)
        fail_msg("a completion for request %llu, which is not in flight",
                 (unsigned long long)done->cookie);
    player->completed++;
    if (done->status == TESUP_OK && entry->op == TESUP_OP_READ)
        party_verify(player->out.bytes + entry->number % SLOTS * SLOT, entry->length,
                     content(JOBS - 1 - player->index, entry->number % SLOTS), "what was read");
    if (done->status != TESUP_OK && done->status != TESUP_ERR_UNCERTAIN &&
        done->status != TESUP_AGAIN)
        party_expect(done->status, TESUP_ERR_UNREACHABLE);
    entry->number = 0;
}

/* ---- what comes ---- */

static void note_take(struct player *player, const struct tesup_notification *note)
{
    uint64_t last = atomic_peek(&player->own->seen);
    struct entry entry;

    assert_int_equal(note->kind, TESUP_NOTIFICATION_MESSAGE);
    assert_int_equal(note->name_len, sizeof(entry));
    memcpy(&entry, note->name, sizeof(entry));
    if (entry.number <= last)
        fail_msg("notification %llu came behind %llu", (unsigned long long)entry.number,
                 (unsigned long long)last);
    if (entry.op == TESUP_OP_WRITE)
        party_verify(player->in.bytes + entry.number % SLOTS * SLOT, entry.length,
                     content(JOBS - 1 - player->index, entry.number), "at its notification");
    atomic_publish(&player->own->seen, entry.number);
    atomic_count(&player->own->good, 1);
    party_check(tesup_notify_release(player->party.channel), "release");
}

/* ---- a job ---- */

static void player_open(struct player *player)
{
    struct table *table = player->table;

    player->index = (unsigned)atomic_fetch_add(&table->next, 1);
    player->random = (table->seed + player->index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    player->own = &table->seat[player->index];
    player->other = &table->seat[JOBS - 1 - player->index];
    party_attach(&player->party, &rdma_daemon[player->index / 2], NULL);
    party_region_create(&player->party, PARTY_MEMORY_ALLOC, SLOTS * SLOT, TESUP_ACCESS_LOCAL,
                        &player->out);
    party_region_create(&player->party, PARTY_MEMORY_ALLOC, 2 * SLOTS * SLOT, READ_WRITE,
                        &player->in);
    for (unsigned i = 0; i < SLOTS; i++)
        party_fill(player->in.bytes + (SLOTS + i) * SLOT, SLOT, content(player->index, i));
    snprintf(player->own->name, sizeof(player->own->name), "%s",
             tesup_segment_name(player->party.session));
    player->own->region = player->in.handle;
    atomic_publish(&player->own->attached, 1);
    wait_word(&player->other->attached, 1, "the other job");
    player->remote = party_open(&player->party, player->other->name);
}

static void player_turn(struct player *player, bool more)
{
    struct tesup_completion done[DEPTH];
    struct tesup_notification note;
    int got = tesup_poll(player->party.channel, done, DEPTH);
    int code;

    assert_true(got >= 0);
    for (int i = 0; i < got; i++)
        completion_take(player, &done[i]);
    while ((code = tesup_notify_peek(player->party.channel, &note)) == TESUP_OK)
        note_take(player, &note);
    party_expect(code, TESUP_AGAIN);
    for (unsigned i = 0; i < DEPTH && more; i++)
        if (player->entry[i].number == 0)
            entry_submit(player, &player->entry[i]);
    code = tesup_wait(player->party.channel, 10);
    if (code != TESUP_ERR_TIMEOUT)
        party_check(code, "wait");
}

static void player_run(void *argument)
{
    struct player player = {.table = argument};
    struct wait wait;

    player_open(&player);
    while (atomic_observe(&player.table->stop) == 0)
        player_turn(&player, true);
    wait = wait_begin("the last completions", WAIT_MS);
    while (player.completed < player.accepted) {
        player_turn(&player, false);
        wait_step(&wait);
    }
    player_turn(&player, false); /* one more would be one too many */
    assert_int_equal(player.completed, player.accepted);
    /* Who leaves first would make the other's last requests fail. */
    atomic_publish(&player.own->attached, 2);
    for (wait = wait_begin("the others' end", WAIT_MS);
         atomic_observe(&player.other->attached) < 2;)
        player_turn(&player, false);
    party_detach(&player.party);
}

/* ---- events ---- */

static void worker_kill(const struct daemon *daemon)
{
    pid_t pid = status_worker_ready(daemon, 0);

    kill(pid, SIGKILL);
    (void)status_worker_ready(daemon, pid);
}

static void worker_stop(const struct daemon *daemon)
{
    pid_t pid = status_worker_ready(daemon, 0);

    kill(pid, SIGSTOP);
    wait_sleep_ms(700);
    kill(pid, SIGCONT);
}

/* A cable that carries nothing, both ways.  Taking the interface down under load is no test of
 * ours: Linux 6.1's Soft-RoCE then sends in a loop without end, inside the kernel, and `ip` waits
 * for that CPU (test_restart.c takes it down with a bounded number of requests). */
static void silence(unsigned ms)
{
    for (unsigned side = 0; side < RDMA_SIDES; side++)
        rdma_disturb(side, "loss 100%");
    wait_sleep_ms(ms);
    for (unsigned side = 0; side < RDMA_SIDES; side++)
        rdma_disturb(side, NULL);
}

static void event_do(uint64_t dice)
{
    unsigned side = dice / 8 % 2;

    switch (dice % 8) {
    case 0:
    case 1:
        worker_kill(&rdma_daemon[side]);
        return;
    case 2:
        worker_stop(&rdma_daemon[side]);
        return;
    case 3:
        rdma_disturb(side, "loss 3%");
        wait_sleep_ms(1000);
        rdma_disturb(side, NULL);
        return;
    case 4:
        rdma_disturb(side, "loss 100%");
        wait_sleep_ms(2500);
        rdma_disturb(side, NULL);
        return;
    case 5:
        rdma_address_drop(side);
        wait_sleep_ms(300);
        rdma_address_give(side);
        return;
    default:
        silence(dice % 8 == 6 ? 300 : 2500);
        return;
    }
}

/* All that can be known about a job that got nothing for WAIT_MS. */
static void stall_show(unsigned job)
{
    static struct command command; /* large */
    char words[512];

    print_error("job %u got nothing\n", job);
    for (unsigned side = 0; side < RDMA_SIDES; side++) {
        snprintf(words, sizeof(words),
                 TESUP_BIN_DIR "/tesup status --json --name %s --runtime-dir %s",
                 rdma_daemon[side].name, daemon_directory());
        command_run(&command, words);
        fprintf(stderr, "%s\n", command.out); /* print_error() would cut it */
    }
    command_run(&command, "rdma resource show qp");
    fprintf(stderr, "%s\n", command.out);
}

static void progress_expect(struct table *table)
{
    uint64_t before[JOBS], until = wait_now_ms() + WAIT_MS;

    for (unsigned i = 0; i < JOBS; i++)
        before[i] = atomic_observe(&table->seat[i].good);
    for (unsigned i = 0; i < JOBS; i++) {
        while (atomic_observe(&table->seat[i].good) < before[i] + MORE && wait_now_ms() < until)
            wait_sleep_ms(5);
        if (atomic_observe(&table->seat[i].good) >= before[i] + MORE)
            continue;
        stall_show(i);
        fail_msg("no notifications after an event");
    }
}

static uint64_t seed_choose(void)
{
    const char *text = getenv("TESUP_SEED");

    return text != NULL ? strtoull(text, NULL, 10)
                        : (uint64_t)time(NULL) * 1000 + (uint64_t)getpid();
}

static void the_ledger_is_right(void **state)
{
    struct table *table = job_board_create(sizeof(*table));
    uint64_t random;
    struct job job[JOBS];

    (void)state;
    table->seed = seed_choose();
    print_message("TESUP_SEED=%llu\n", (unsigned long long)table->seed);
    random = table->seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    rdma_setup(NULL);
    for (unsigned i = 0; i < JOBS; i++)
        job_start(&job[i], "player", player_run, table);
    progress_expect(table);
    for (unsigned i = 0; i < EVENTS; i++) {
        uint64_t dice = random_next(&random) >> 20;

        print_message("event %u: kind %u, side %u\n", i, (unsigned)(dice % 8),
                      (unsigned)(dice / 8 % 2));
        event_do(dice);
        progress_expect(table);
    }
    atomic_publish(&table->stop, 1);
    for (unsigned i = 0; i < JOBS; i++)
        job_expect_success(&job[i], 2 * WAIT_MS);
    for (unsigned side = 0; side < RDMA_SIDES; side++)
        assert_int_equal(rdma_objects(status_worker_ready(&rdma_daemon[side], 0)).qps, 2);
    daemon_stop(&rdma_daemon[RDMA_LEFT]);
    daemon_stop(&rdma_daemon[RDMA_RIGHT]);
    job_board_free(table, sizeof(*table));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_ledger_is_right, rdma_teardown),
    };

    return cmocka_run_group_tests(tests, rdma_vm_setup, rdma_vm_teardown);
}
