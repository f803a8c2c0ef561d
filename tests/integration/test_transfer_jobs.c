/* Four jobs, two on each side, everyone with everyone: batches of mixed sizes, read back, and 64
 * MiB. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

#include "shm/atomics.h"
#include "tests/harness/job.h"
#include "tests/harness/party.h"
#include "tests/harness/site.h"
#include "tests/harness/wait.h"

#define READ_WRITE   (TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE)
#define MIB          (UINT64_C(1) << 20)
#define SEGMENT_NAME 320

#define CROWD     4u
#define CROWD_BIG (64 * MIB)

/* Blocks of one sender at one target lie one behind the other, with a gap. */
static const uint64_t crowd_sizes[] = {1, 7, 4099, 65536, 300001, MIB + 5, 17, 2, 8 * MIB + 3};
#define CROWD_BLOCKS (sizeof(crowd_sizes) / sizeof(crowd_sizes[0]))

struct crowd_board {
    const struct daemon *daemon[CROWD];
    struct {
        char name[SEGMENT_NAME];
        tesup_region_t region, big;
    } job[CROWD];
    _Atomic uint64_t step[CROWD]; /* each job's own progress */
};

struct crowd_job {
    struct crowd_board *board;
    uint32_t me;
    struct party party;
    struct party_region area, source, big; /* written by others; blocks to send; 64 MiB */
    tesup_remote_t remote[CROWD];
    uint32_t completions, notifications;
};

struct crowd_note {
    uint32_t from;
    uint32_t block; /* CROWD_BLOCKS: the big one */
};

static uint64_t crowd_offset(uint32_t from, uint64_t block)
{
    uint64_t at = 1, each = 1;

    for (uint64_t i = 0; i < CROWD_BLOCKS; i++) {
        at += i < block ? crowd_sizes[i] + 1 : 0;
        each += crowd_sizes[i] + 1;
    }
    return from * each + at;
}

static uint64_t crowd_seed(uint32_t from, uint64_t block)
{
    return 1000 + from * 100 + block;
}

static void crowd_meet(struct crowd_job *job, uint64_t step)
{
    atomic_publish(&job->board->step[job->me], step);
    for (uint32_t i = 0; i < CROWD; i++)
        wait_word(&job->board->step[i], step, "the other jobs");
}

/* Half of the jobs have private memory, half shared. */
static void crowd_begin(struct crowd_job *job)
{
    enum party_memory kind = job->me % 2 ? PARTY_MEMORY_PRIVATE : PARTY_MEMORY_ALLOC;
    uint64_t size = crowd_offset(CROWD, 0);

    party_attach(&job->party, job->board->daemon[job->me], NULL);
    party_region_create(&job->party, kind, size, READ_WRITE, &job->area);
    party_region_create(&job->party, kind, crowd_offset(1, 0), TESUP_ACCESS_LOCAL, &job->source);
    party_region_create(&job->party, kind, CROWD_BIG, READ_WRITE, &job->big);
    memset(job->area.bytes, 0, size);
    memset(job->big.bytes, 0, CROWD_BIG);
    snprintf(job->board->job[job->me].name, SEGMENT_NAME, "%s",
             tesup_segment_name(job->party.session));
    job->board->job[job->me].region = job->area.handle;
    job->board->job[job->me].big = job->big.handle;
    for (uint64_t i = 0; i < CROWD_BLOCKS; i++)
        party_fill(job->source.bytes + crowd_offset(0, i), crowd_sizes[i], crowd_seed(job->me, i));
    crowd_meet(job, 1);
    for (uint32_t i = 0; i < CROWD; i++)
        job->remote[i] = party_open(&job->party, job->board->job[i].name);
}

static void crowd_hear(struct crowd_job *job)
{
    struct tesup_notification next;
    struct crowd_note note;

    while (tesup_notify_peek(job->party.channel, &next) == TESUP_OK) {
        assert_int_equal(next.msg_len, sizeof(note));
        memcpy(&note, next.msg, sizeof(note));
        assert_int_equal(next.from_len, strlen(job->board->job[note.from].name));
        assert_memory_equal(next.from, job->board->job[note.from].name, next.from_len);
        party_check(next.status, "bound transfer");
        assert_int_equal(next.bytes, crowd_sizes[note.block]);
        party_verify(job->area.bytes + crowd_offset(note.from, note.block), crowd_sizes[note.block],
                     crowd_seed(note.from, note.block), "a block");
        party_check(tesup_notify_release(job->party.channel), "release");
        job->notifications++;
    }
}

static void crowd_reap(struct crowd_job *job)
{
    struct tesup_completion done[16];
    int count = tesup_poll(job->party.channel, done, 16);

    assert_true(count >= 0);
    for (int i = 0; i < count; i++) {
        party_check(done[i].status, "a transfer");
        job->completions++;
    }
}

/* One batch to each of the others, then everything that comes of all batches. */
static void crowd_write(struct crowd_job *job)
{
    struct tesup_request batch[CROWD_BLOCKS];
    struct crowd_note notes[CROWD_BLOCKS];
    const uint32_t expected = (CROWD - 1) * CROWD_BLOCKS;
    uint32_t accepted;
    struct wait wait;

    for (uint32_t to = 0; to < CROWD; to++) {
        if (to == job->me)
            continue;
        for (uint32_t i = 0; i < CROWD_BLOCKS; i++) {
            notes[i] = (struct crowd_note){.from = job->me, .block = i};
            batch[i] = (struct tesup_request){.op = TESUP_OP_WRITE,
                                              .cookie = i,
                                              .remote = job->remote[to],
                                              .local_region = job->source.handle,
                                              .local_offset = crowd_offset(0, i),
                                              .remote_region = job->board->job[to].region,
                                              .remote_offset = crowd_offset(job->me, i),
                                              .length = crowd_sizes[i],
                                              .msg = &notes[i],
                                              .msg_len = sizeof(notes[i])};
        }
        party_check(tesup_submit(job->party.channel, batch, CROWD_BLOCKS, NULL, &accepted),
                    "a batch");
        assert_int_equal(accepted, CROWD_BLOCKS);
    }
    wait = wait_begin("all blocks of all jobs", WAIT_MS);
    while (job->completions < expected || job->notifications < expected) {
        crowd_reap(job);
        crowd_hear(job);
        wait_step(&wait);
    }
}

static void crowd_read_back(struct crowd_job *job)
{
    for (uint32_t i = 0; i < CROWD * CROWD_BLOCKS; i++) {
        uint32_t from = i / CROWD_BLOCKS, block = i % CROWD_BLOCKS;
        struct tesup_request request = {.op = TESUP_OP_READ,
                                        .remote = job->remote[from],
                                        .local_region = job->source.handle,
                                        .local_offset = crowd_offset(0, block),
                                        .remote_region = job->board->job[from].region,
                                        .remote_offset = crowd_offset(job->me, block),
                                        .length = crowd_sizes[block]};

        if (from == job->me)
            continue;
        memset(job->source.bytes, 0, job->source.size);
        party_check(party_do(job->party.channel, &request).status, "READ");
        party_verify(job->source.bytes + request.local_offset, request.length,
                     crowd_seed(job->me, block), "what was read back");
    }
}

/* 64 MiB to the next job on the other side, and 64 MiB back from it; both pairs at once. */
static void crowd_big(struct crowd_job *job)
{
    uint32_t partner = (job->me + CROWD / 2) % CROWD;
    bool first = job->me < partner;
    struct tesup_request request = {.op = TESUP_OP_WRITE,
                                    .remote = job->remote[partner],
                                    .local_region = job->big.handle,
                                    .remote_region = job->board->job[partner].big,
                                    .length = CROWD_BIG};

    if (first) {
        party_fill(job->big.bytes, CROWD_BIG, 7 + job->me);
        party_check(party_do(job->party.channel, &request).status, "WRITE of 64 MiB");
        memset(job->big.bytes, 0, CROWD_BIG);
    }
    crowd_meet(job, 3);
    if (first) {
        request.op = TESUP_OP_READ;
        party_check(party_do(job->party.channel, &request).status, "READ of 64 MiB");
    }
    party_verify(job->big.bytes, CROWD_BIG, 7 + (first ? job->me : partner), "64 MiB");
    crowd_meet(job, 4);
}

static void crowd_job(void *argument)
{
    struct crowd_job *job = argument;

    crowd_begin(job);
    crowd_write(job);
    crowd_meet(job, 2);
    crowd_read_back(job);
    crowd_big(job);
    party_region_free(&job->party, &job->area);
    party_region_free(&job->party, &job->source);
    party_region_free(&job->party, &job->big);
    party_detach(&job->party);
}

static void crowd_run(const struct site *site)
{
    static const char *const labels[CROWD] = {"left 0", "left 1", "right 0", "right 1"};
    struct crowd_board *board = job_board_create(sizeof(*board));
    struct crowd_job jobs[CROWD] = {{.board = board}};
    struct job process[CROWD];

    for (uint32_t i = 0; i < CROWD; i++) {
        board->daemon[i] = i < CROWD / 2 ? site->left : site->right;
        jobs[i].board = board;
        jobs[i].me = i;
        job_start(&process[i], labels[i], crowd_job, &jobs[i]);
    }
    for (uint32_t i = 0; i < CROWD; i++)
        job_expect_success(&process[i], 2 * WAIT_MS);
    job_board_free(board, sizeof(*board));
}

static void four_jobs_over_tcp(void **state)
{
    (void)state;
    crowd_run(&sites[SITE_TCP]);
}

static void four_jobs_over_local(void **state)
{
    (void)state;
    crowd_run(&sites[SITE_LOCAL]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(four_jobs_over_tcp, job_test_teardown),
        cmocka_unit_test_teardown(four_jobs_over_local, job_test_teardown),
    };

    return cmocka_run_group_tests(tests, site_group_setup, site_group_teardown);
}
