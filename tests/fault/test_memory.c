/* Memory that vanishes while bytes move: the transfer fails, its notification does not arrive, no
 * worker dies, and others on the same connection get every byte. */
#include "tests/harness/test.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/atomics.h"
#include "tests/harness/job.h"
#include "tests/harness/load.h"
#include "tests/harness/party.h"
#include "tests/harness/site.h"
#include "tests/harness/status.h"
#include "tests/harness/wait.h"

#define MIB      (UINT64_C(1) << 20)
#define BLOCKS   4u
#define BLOCK    (16 * MIB)
#define WHOLE    (BLOCKS * BLOCK)
#define ROUNDS   64u /* at most, until the memory is gone */
#define SOURCE   0x5a
#define IMAGE_AT ((uint8_t *)UINT64_C(0x300000000000)) /* free in this program and in the next */

enum way { WAY_UNMAP, WAY_TRUNCATE, WAY_SHRINK, WAYS };
static const char *const way_names[WAYS] = {"munmap", "ftruncate 0", "ftruncate half"};

struct scene {
    const struct site *site;
    uint32_t op;
    bool at_target;
    enum way way;
};

struct board {
    struct scene scene;
    char name[LAYOUT_NAME_MAX];
    tesup_region_t region;
    _Atomic uint64_t ready, go, gone, end;
    _Atomic uint64_t delivered[ROUNDS * BLOCKS + 1]; /* by cookie */
};

static const char *self_path; /* of this program: it is also the image that a job becomes */

static int group_setup(void **state)
{
    return site_group_setup(state);
}

/* ---- memory that can vanish ---- */

struct memory {
    uint8_t *bytes;
    int fd;
    tesup_region_t region;
};

static void memory_create(struct memory *memory, const struct party *party, enum way way)
{
    const uint32_t access = TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE;

    memory->fd = way == WAY_UNMAP ? -1 : memfd_create("vanishing", MFD_CLOEXEC);
    if (memory->fd >= 0)
        assert_int_equal(ftruncate(memory->fd, (off_t)WHOLE), 0);
    memory->bytes = mmap(NULL, WHOLE, PROT_READ | PROT_WRITE,
                         memory->fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, memory->fd, 0);
    assert_ptr_not_equal(memory->bytes, MAP_FAILED);
    memset(memory->bytes, SOURCE, WHOLE);
    party_check(memory->fd >= 0 ? tesup_mem_register_fd(party->session, memory->fd, 0, WHOLE, NULL,
                                                        access, &memory->region)
                                : tesup_mem_register(party->session, memory->bytes, WHOLE, access,
                                                     &memory->region),
                "register");
}

static void memory_vanish(struct memory *memory, enum way way)
{
    if (way == WAY_UNMAP)
        assert_int_equal(munmap(memory->bytes, WHOLE), 0);
    else
        assert_int_equal(ftruncate(memory->fd, way == WAY_TRUNCATE ? 0 : (off_t)(WHOLE / 2)), 0);
}

static void memory_free(struct memory *memory, enum way way)
{
    if (way != WAY_UNMAP)
        munmap(memory->bytes, WHOLE);
    if (memory->fd >= 0)
        close(memory->fd);
}

/* ---- the target ---- */

static void notes_take(struct board *board, struct tesup_channel *channel)
{
    struct tesup_notification note;
    uint64_t cookie;

    while (tesup_notify_peek(channel, &note) == TESUP_OK) {
        assert_int_equal(note.msg_len, sizeof(cookie));
        memcpy(&cookie, note.msg, sizeof(cookie));
        assert_true(cookie <= (uint64_t)ROUNDS * BLOCKS);
        atomic_count(&board->delivered[cookie], 1);
        party_check(tesup_notify_release(channel), "release");
    }
}

static void target_run(void *argument)
{
    struct board *board = argument;
    struct memory memory;
    struct party party;

    party_attach(&party, board->scene.site->right, NULL);
    memory_create(&memory, &party, board->scene.way);
    snprintf(board->name, sizeof(board->name), "%s", tesup_segment_name(party.session));
    board->region = memory.region;
    atomic_publish(&board->ready, 1);
    while (atomic_observe(&board->end) == 0) {
        notes_take(board, party.channel);
        if (board->scene.at_target && atomic_observe(&board->go) > atomic_peek(&board->gone)) {
            memory_vanish(&memory, board->scene.way);
            atomic_publish(&board->gone, 1);
        }
    }
    notes_take(board, party.channel);
    party_detach(&party);
}

/* ---- the initiator ---- */

struct initiator {
    struct board *board;
    struct party party;
    struct memory memory;
    tesup_remote_t remote;
    int32_t status[ROUNDS * BLOCKS + 1]; /* by cookie */
    uint64_t cookie;
};

static void block_submit(struct initiator *initiator, unsigned block)
{
    uint64_t cookie = ++initiator->cookie;
    const struct tesup_request request = {.op = initiator->board->scene.op,
                                          .cookie = cookie,
                                          .remote = initiator->remote,
                                          .local_region = initiator->memory.region,
                                          .local_offset = block * BLOCK,
                                          .remote_region = initiator->board->region,
                                          .remote_offset = block * BLOCK,
                                          .length = BLOCK,
                                          .name = "bound",
                                          .name_len = 5,
                                          .msg = &cookie,
                                          .msg_len = sizeof(cookie)};

    party_submit(initiator->party.channel, &request);
}

static void status_expect_possible(const struct initiator *initiator,
                                   const struct tesup_completion *done)
{
    const struct scene *scene = &initiator->board->scene;

    if (done->status != TESUP_OK && done->status != TESUP_ERR_FAULT &&
        done->status != TESUP_ERR_GONE)
        fail_msg("%s, %s, %s: '%s'", scene->site->label,
                 scene->op == TESUP_OP_READ ? "READ" : "WRITE", way_names[scene->way],
                 tesup_strerror(done->status));
}

/* A READ that succeeded has all its bytes, though their source went away a moment later. */
static void block_verify(const struct initiator *initiator, unsigned block)
{
    party_verify_byte(initiator->memory.bytes + block * BLOCK, BLOCK, SOURCE,
                      "a READ that succeeded");
}

/* One request for each block; returns how many failed. */
static unsigned round_run(struct initiator *initiator, bool vanish)
{
    struct board *board = initiator->board;
    uint64_t first = initiator->cookie + 1;
    unsigned failed = 0;

    if (board->scene.op == TESUP_OP_READ && board->scene.at_target)
        memset(initiator->memory.bytes, 0, WHOLE);
    for (unsigned block = 0; block < BLOCKS; block++)
        block_submit(initiator, block);
    if (vanish && board->scene.at_target) {
        atomic_publish(&board->go, 1);
    } else if (vanish) {
        memory_vanish(&initiator->memory, board->scene.way);
        atomic_publish(&board->gone, 1);
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        struct tesup_completion done = party_complete(initiator->party.channel);

        status_expect_possible(initiator, &done);
        initiator->status[done.cookie] = done.status;
        failed += done.status != TESUP_OK;
        if (done.status == TESUP_OK && board->scene.op == TESUP_OP_READ && board->scene.at_target)
            block_verify(initiator, (unsigned)(done.cookie - first));
    }
    return failed;
}

static void notes_expect_honest(const struct initiator *initiator)
{
    const struct board *board = initiator->board;

    for (uint64_t cookie = 1; cookie <= initiator->cookie; cookie++) {
        uint64_t delivered = atomic_observe(&board->delivered[cookie]);
        uint64_t expected = initiator->status[cookie] == TESUP_OK ? 1 : 0;

        if (delivered != expected)
            fail_msg("%s: %" PRIu64 " notifications for a transfer with '%s'",
                     board->scene.site->label, delivered,
                     tesup_strerror(initiator->status[cookie]));
    }
}

static void scene_run(const struct scene *scene)
{
    struct board *board = job_board_create(sizeof(*board));
    struct initiator initiator = {.board = board};
    const unsigned lost = scene->way == WAY_SHRINK ? BLOCKS / 2 : BLOCKS;
    unsigned round = 0;
    struct job target;

    board->scene = *scene;
    job_start(&target, "target", target_run, board);
    wait_word(&board->ready, 1, "the target");
    party_attach(&initiator.party, scene->site->left, NULL);
    memory_create(&initiator.memory, &initiator.party, scene->way);
    initiator.remote = party_open(&initiator.party, board->name);
    assert_int_equal(round_run(&initiator, false), 0);
    round_run(&initiator, true);
    while (atomic_observe(&board->gone) == 0 && ++round < ROUNDS - 3)
        round_run(&initiator, false);
    assert_int_equal(round_run(&initiator, false), lost);
    wait_sleep_ms(50); /* a notification that must not come would come now */
    atomic_publish(&board->end, 1);
    job_expect_success(&target, WAIT_MS);
    notes_expect_honest(&initiator);
    party_detach(&initiator.party);
    memory_free(&initiator.memory, scene->at_target ? WAY_TRUNCATE : scene->way);
    job_board_free(board, sizeof(*board));
}

/* ---- the tests: every way, both directions, both ends ---- */

static void site_run(const struct site *site)
{
    struct load *load = load_start(site->left, site->right, 1, PARTY_MEMORY_ALLOC);
    pid_t worker_left = status_worker_ready(site->left, 0);
    pid_t worker_right = status_worker_ready(site->right, 0);
    struct scene scene = {.site = site};

    for (scene.way = 0; scene.way < WAYS; scene.way++) {
        for (scene.op = TESUP_OP_READ; scene.op <= TESUP_OP_WRITE; scene.op++) {
            scene.at_target = true;
            scene_run(&scene);
            scene.at_target = false;
            scene_run(&scene);
        }
    }
    load_expect_progress(load);
    assert_int_equal(status_worker_ready(site->left, 0), worker_left);
    assert_int_equal(status_worker_ready(site->right, 0), worker_right);
    load_stop_clean(load);
}

static void test_tcp(void **state)
{
    (void)state;
    site_run(&sites[SITE_TCP]);
}

static void test_local(void **state)
{
    (void)state;
    site_run(&sites[SITE_LOCAL]);
}

static void test_one_worker(void **state)
{
    (void)state;
    site_run(&sites[SITE_WORKER]);
}

/* ---- a job that becomes another program ---- */

struct exec_board {
    const struct site *site;
    char name[LAYOUT_NAME_MAX];
    tesup_region_t region;
    _Atomic uint64_t ready, go;
};

/* The job's memory lies where the next image has its own. */
static void exec_run(void *argument)
{
    struct exec_board *board = argument;
    struct party party;

    party_attach(&party, board->site->right, NULL);
    assert_ptr_equal(mmap(IMAGE_AT, WHOLE, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
                     IMAGE_AT);
    memset(IMAGE_AT, SOURCE, WHOLE);
    party_check(tesup_mem_register(party.session, IMAGE_AT, WHOLE, TESUP_ACCESS_REMOTE_WRITE,
                                   &board->region),
                "register");
    snprintf(board->name, sizeof(board->name), "%s", tesup_segment_name(party.session));
    atomic_publish(&board->ready, 1);
    wait_word(&board->go, 1, "the order to exec");
    execl(self_path, self_path, "image", (char *)NULL);
    _exit(126);
}

/* The new image: its memory stays what it made of it. */
static int image_main(void)
{
    uint8_t *bytes = mmap(IMAGE_AT, WHOLE, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_POPULATE, -1, 0);
    uint64_t until = wait_now_ms() + 700;

    if (bytes != IMAGE_AT)
        return 2;
    while (wait_now_ms() < until)
        if (bytes[0] != 0 || memcmp(bytes, bytes + 1, WHOLE - 1) != 0)
            return 3;
    return 0;
}

static void blocks_keep_writing(struct party *party, tesup_remote_t remote, tesup_region_t local,
                                struct exec_board *board)
{
    struct tesup_request request = {.op = TESUP_OP_WRITE,
                                    .remote = remote,
                                    .local_region = local,
                                    .remote_region = board->region,
                                    .length = BLOCK};
    unsigned in_flight = 0;
    int32_t status = TESUP_OK;
    uint32_t accepted;
    uint64_t moved = 0;

    while (status == TESUP_OK || in_flight > 0) {
        struct tesup_completion done;

        while (status == TESUP_OK && in_flight < BLOCKS) {
            request.remote_offset = in_flight * BLOCK;
            if (tesup_submit(party->channel, &request, 1, NULL, &accepted) != TESUP_OK)
                break;
            in_flight++;
        }
        done = party_complete(party->channel);
        in_flight--;
        if (++moved == 2 * BLOCKS)
            atomic_publish(&board->go, 1);
        if (done.status != TESUP_OK)
            status = done.status;
    }
    if (status != TESUP_ERR_GONE && status != TESUP_ERR_FAULT)
        fail_msg("%s: '%s'", board->site->label, tesup_strerror(status));
}

static void exec_try(const struct site *site)
{
    struct exec_board *board = job_board_create(sizeof(*board));
    pid_t worker = status_worker_ready(site->right, 0);
    struct party_region local;
    struct party party;
    struct job job;

    board->site = site;
    job_start(&job, "job that execs", exec_run, board);
    wait_word(&board->ready, 1, "the job that execs");
    party_attach(&party, site->left, NULL);
    party_region_create(&party, PARTY_MEMORY_ALLOC, BLOCK, TESUP_ACCESS_LOCAL, &local);
    memset(local.bytes, 0xee, BLOCK);
    blocks_keep_writing(&party, party_open(&party, board->name), local.handle, board);
    job_expect_success(&job, WAIT_MS);
    party_detach(&party);
    assert_int_equal(status_worker_ready(site->right, 0), worker);
    job_board_free(board, sizeof(*board));
}

static void test_exec(void **state)
{
    (void)state;
    for (int site = 0; site < SITE_COUNT; site++)
        for (int i = 0; i < 3; i++)
            exec_try(&sites[site]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_tcp, job_test_teardown),
        cmocka_unit_test_teardown(test_local, job_test_teardown),
        cmocka_unit_test_teardown(test_one_worker, job_test_teardown),
        cmocka_unit_test_teardown(test_exec, job_test_teardown),
    };

    if (argc == 2 && strcmp(argv[1], "image") == 0)
        return image_main();
    self_path = argv[0];
    return cmocka_run_group_tests_name("memory that vanishes", tests, group_setup,
                                       site_group_teardown);
}
