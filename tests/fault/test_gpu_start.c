/* CUDA is slow to start in a worker: in one that was started anew with GPU regions, and in one that
 * first hears of a GPU by a peer's memory.  Jobs that want nothing of a GPU do not notice; those
 * that do wait, and get what they asked for; and who ends meanwhile leaves nothing behind. */
#include "tests/harness/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shm/atomics.h"
#include "tests/harness/gpu.h"
#include "tests/harness/job.h"
#include "tests/harness/standin.h"
#include "tests/harness/status.h"
#include "tests/harness/wait.h"

#define SIZE       (UINT64_C(1) << 20)
#define READ_WRITE (TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE)
#define START_MS   "1200" /* twice: CUDA itself, and its context */
#define PACE_MS    600u   /* far below */

static struct daemon left, right;

static void begin(const char *fabric)
{
    char options[64];

    snprintf(options, sizeof(options), "--fabric %s", fabric);
    setenv("STANDIN_CUDA_START_MS", START_MS, 1);
    daemon_start(&left, "left", options);
    unsetenv("STANDIN_CUDA_START_MS");
    daemon_start(&right, "right", options);
}

static void end(void)
{
    daemon_stop(&left);
    daemon_stop(&right);
}

/* ---- a job of the left worker that has nothing to do with GPUs ---- */

struct bystander {
    struct party party;
    struct party_region from, to;
    tesup_remote_t remote; /* itself */
    uint64_t seed;
};

static void bystander_begin(struct bystander *bystander)
{
    *bystander = (struct bystander){0};
    party_attach(&bystander->party, &left, NULL);
    party_region_create(&bystander->party, PARTY_MEMORY_ALLOC, SIZE, READ_WRITE, &bystander->from);
    party_region_create(&bystander->party, PARTY_MEMORY_ALLOC, SIZE, READ_WRITE, &bystander->to);
    bystander->remote = party_open(&bystander->party, tesup_segment_name(bystander->party.session));
}

static void bystander_write(struct bystander *bystander)
{
    const struct tesup_request request = {.op = TESUP_OP_WRITE,
                                          .remote = bystander->remote,
                                          .local_region = bystander->from.handle,
                                          .remote_region = bystander->to.handle,
                                          .length = SIZE};
    uint64_t began = wait_now_ms();

    party_fill(bystander->from.bytes, SIZE, ++bystander->seed);
    party_check(party_do(bystander->party.channel, &request).status, "a bystander's WRITE");
    party_verify(bystander->to.bytes, SIZE, bystander->seed, "a bystander's bytes");
    if (wait_now_ms() - began > PACE_MS)
        fail_msg("a bystander's WRITE took %lu ms", (unsigned long)(wait_now_ms() - began));
}

/* At its pace until the other one's request has ended, which must take as long as the start. */
static struct tesup_completion bystander_pace(struct bystander *bystander,
                                              struct tesup_channel *waiting)
{
    struct wait wait = wait_begin("the end of the start", WAIT_MS);
    struct tesup_completion done;
    unsigned rounds = 0;

    while (tesup_poll(waiting, &done, 1) == 0) {
        bystander_write(bystander);
        rounds++;
        wait_step(&wait);
    }
    assert_true(rounds > 10);
    return done;
}

/* ---- a job with memory of a GPU ---- */

struct owner {
    struct party party;
    cuda_pointer at;
    tesup_region_t handle;
};

static void owner_begin(struct owner *owner, const struct daemon *daemon)
{
    gpu_begin();
    party_attach(&owner->party, daemon, NULL);
    owner->at = gpu_alloc(SIZE);
    owner->handle = gpu_register(&owner->party, owner->at, SIZE, READ_WRITE);
}

static void owner_end(struct owner *owner)
{
    party_check(tesup_mem_unregister(owner->party.session, owner->handle), "unregister");
    party_detach(&owner->party);
    gpu_free(owner->at);
    gpu_end();
}

/* A request between host memory of a party and the owner's. */
struct access {
    struct party *party;
    struct party_region host;
    struct tesup_request request;
};

static void access_begin(struct access *access, struct party *party, const struct owner *owner,
                         uint32_t op)
{
    access->party = party;
    party_region_create(party, PARTY_MEMORY_ALLOC, SIZE, READ_WRITE, &access->host);
    access->request = (struct tesup_request){
        .op = op,
        .remote = party_open(party, tesup_segment_name(owner->party.session)),
        .local_region = access->host.handle,
        .remote_region = owner->handle,
        .length = SIZE};
}

/* ---- a worker is started anew ---- */

static void worker_kill(const struct daemon *daemon)
{
    pid_t worker = status_worker_ready(daemon, 0);

    assert_int_equal(kill(worker, SIGKILL), 0);
    status_worker_ready(daemon, worker);
}

/* The job's own requests with its GPU region wait for it, and so do a peer's. */
static void anew_is_not_noticed(void **state)
{
    struct bystander bystander;
    struct tesup_completion done;
    struct access own, peers;
    struct party sender;
    struct owner owner;

    (void)state;
    begin("tcp");
    owner_begin(&owner, &left);
    party_attach(&sender, &right, NULL);
    access_begin(&own, &owner.party, &owner, TESUP_OP_READ);
    access_begin(&peers, &sender, &owner, TESUP_OP_WRITE);
    bystander_begin(&bystander);
    gpu_fill(owner.at, SIZE, 7);
    worker_kill(&left);
    party_submit(owner.party.channel, &own.request);
    done = bystander_pace(&bystander, owner.party.channel);
    party_check(done.status, "a READ of memory that was still to come");
    party_verify(own.host.bytes, SIZE, 7, "read");

    worker_kill(&left);
    party_fill(peers.host.bytes, SIZE, 8);
    party_submit(sender.channel, &peers.request);
    done = bystander_pace(&bystander, sender.channel);
    party_check(done.status, "a WRITE to memory that was still to come");
    gpu_verify(owner.at, SIZE, 8, "written");
    party_detach(&bystander.party);
    party_detach(&sender);
    owner_end(&owner);
    gpu_worker_opened_wait(&left, 0);
    end();
}

/* Memory that goes before its GPU is there. */
static void anew_and_unregistered(void **state)
{
    struct tesup_completion done;
    struct access own;
    struct owner owner;
    uint64_t began;

    (void)state;
    begin("tcp");
    owner_begin(&owner, &left);
    access_begin(&own, &owner.party, &owner, TESUP_OP_READ);
    worker_kill(&left);
    party_submit(owner.party.channel, &own.request);
    began = wait_now_ms();
    party_check(tesup_mem_unregister(owner.party.session, owner.handle), "unregister");
    assert_true(wait_now_ms() - began < PACE_MS);
    done = party_complete(owner.party.channel);
    assert_int_equal(done.status, TESUP_ERR_GONE);
    owner.handle = gpu_register(&owner.party, owner.at, SIZE, READ_WRITE);
    own.request.remote_region = owner.handle;
    gpu_fill(owner.at, SIZE, 9);
    party_check(party_do(owner.party.channel, &own.request).status, "READ");
    party_verify(own.host.bytes, SIZE, 9, "read");
    owner_end(&owner);
    gpu_worker_opened_wait(&left, 0);
    end();
}

struct board {
    _Atomic uint64_t ready, end;
};

static void owner_run(void *argument)
{
    struct board *board = argument;
    struct owner owner;

    atomic_publish(&board->ready, 1);
    owner_begin(&owner, &left);
    atomic_publish(&board->ready, 2);
    wait_word(&board->end, 1, "the end");
    owner_end(&owner);
}

/* The worker forgets the job at once, and what the next one registers is not mixed up with it. */
static void job_killed_meanwhile(void **state)
{
    struct board *board = job_board_create(sizeof(*board));
    uint64_t began;
    struct job job;

    (void)state;
    begin("tcp");
    for (unsigned anew = 0; anew < 2; anew++) {
        atomic_publish(&board->ready, 0);
        job_start(&job, "owner", owner_run, board);
        wait_word(&board->ready, anew + 1, "the job's memory");
        if (anew != 0)
            worker_kill(&left);
        wait_sleep_ms(300);
        job_kill(&job);
        began = wait_now_ms();
        status_worker_fall(&left, "sessions", 0);
        assert_true(wait_now_ms() - began < PACE_MS);
    }
    atomic_publish(&board->ready, 0);
    job_start(&job, "owner", owner_run, board);
    wait_word(&board->ready, 2, "the job's memory");
    gpu_worker_opened_wait(&left, 1);
    atomic_publish(&board->end, 1);
    job_expect_success(&job, WAIT_MS);
    gpu_worker_opened_wait(&left, 0);
    job_board_free(board, sizeof(*board));
    end();
}

/* ---- a peer's memory ---- */

/* The left worker hears of the right one's GPU by a WRITE that is under way; `cut`: the link ends
 * meanwhile, and the request goes on over the next one, whose peer's memory waits in turn. */
static void export_waits(bool cut)
{
    struct bystander bystander;
    struct tesup_completion done;
    struct party sender;
    struct access access;
    struct owner owner;

    begin("auto");
    owner_begin(&owner, &right);
    bystander_begin(&bystander);
    party_attach(&sender, &left, NULL);
    access_begin(&access, &sender, &owner, TESUP_OP_WRITE);
    party_fill(access.host.bytes, SIZE, 3);
    party_submit(sender.channel, &access.request);
    if (cut) {
        wait_sleep_ms(200); /* until the start is under way */
        worker_kill(&right);
    }
    done = bystander_pace(&bystander, sender.channel);
    party_check(done.status, "a WRITE");
    gpu_verify(owner.at, SIZE, 3, "written");
    party_detach(&bystander.party);
    party_detach(&sender);
    owner_end(&owner);
    gpu_worker_opened_wait(&left, 0);
    end();
}

static void export_is_not_noticed(void **state)
{
    (void)state;
    export_waits(false);
}

static void export_and_link_lost(void **state)
{
    (void)state;
    export_waits(true);
}

static int group_setup(void **state)
{
    gpu_counters_begin();
    return daemon_group_setup(state);
}

static int group_teardown(void **state)
{
    gpu_counters_end();
    return daemon_group_teardown(state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(anew_is_not_noticed, daemon_test_teardown),
        cmocka_unit_test_teardown(anew_and_unregistered, daemon_test_teardown),
        cmocka_unit_test_teardown(job_killed_meanwhile, daemon_test_teardown),
        cmocka_unit_test_teardown(export_is_not_noticed, daemon_test_teardown),
        cmocka_unit_test_teardown(export_and_link_lost, daemon_test_teardown),
    };

    (void)argc;
    standin_use(argv);
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
