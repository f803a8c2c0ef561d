/* READ and WRITE between every memory kind and every other: over tcp, over local and within one
 * worker, by region and by address. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

#include "shm/atomics.h"
#include "tests/harness/job.h"
#include "tests/harness/party.h"
#include "tests/harness/site.h"
#include "tests/harness/wait.h"

#define MIB          (UINT64_C(1) << 20)
#define SEGMENT_NAME 320

#define MATRIX_SIZE   (MIB + 8192)
#define MATRIX_SOURCE 1u /* seed of what is there to be read */

struct matrix_note {
    uint32_t kind;
    uint32_t seed;
    uint64_t offset, length;
};

struct matrix_board {
    const struct daemon *daemon;
    char name[SEGMENT_NAME];
    struct {
        uint64_t address;
        tesup_region_t source, target;
        uint32_t present;
        uint64_t source_address;
    } region[PARTY_MEMORY_COUNT];
    _Atomic uint64_t ready, verified, end;
};

static void matrix_offer(struct matrix_board *board, const struct party *party,
                         struct party_region *source, struct party_region *target)
{
    for (enum party_memory kind = 0; kind < PARTY_MEMORY_COUNT; kind++) {
        if (!party_region_create(party, kind, MATRIX_SIZE, TESUP_ACCESS_REMOTE_READ, &source[kind]))
            continue;
        assert_true(party_region_create(party, kind, MATRIX_SIZE, TESUP_ACCESS_REMOTE_WRITE,
                                        &target[kind]));
        party_fill(source[kind].bytes, MATRIX_SIZE, MATRIX_SOURCE + kind);
        memset(target[kind].bytes, 0, MATRIX_SIZE);
        board->region[kind].present = 1;
        board->region[kind].source = source[kind].handle;
        board->region[kind].target = target[kind].handle;
        board->region[kind].address = (uint64_t)(uintptr_t)target[kind].bytes;
        board->region[kind].source_address = (uint64_t)(uintptr_t)source[kind].bytes;
    }
}

/* Checks each WRITE the moment its notification is seen, then clears the bytes again. */
static void matrix_target(void *argument)
{
    struct matrix_board *board = argument;
    struct party_region source[PARTY_MEMORY_COUNT], target[PARTY_MEMORY_COUNT];
    struct party party;

    party_attach(&party, board->daemon, NULL);
    matrix_offer(board, &party, source, target);
    snprintf(board->name, sizeof(board->name), "%s", tesup_segment_name(party.session));
    atomic_publish(&board->ready, 1);
    for (;;) {
        struct tesup_notification next = party_next(party.channel);
        struct matrix_note note;

        if (next.msg_len != sizeof(note))
            break;
        memcpy(&note, next.msg, sizeof(note));
        party_check(tesup_notify_release(party.channel), "release");
        uint8_t *bytes = target[note.kind].bytes;
        party_verify_byte(bytes, note.offset, 0, "before the block");
        party_verify(bytes + note.offset, note.length, note.seed, party_memory_names[note.kind]);
        party_verify_byte(bytes + note.offset + note.length,
                          MATRIX_SIZE - note.offset - note.length, 0, "behind the block");
        memset(bytes + note.offset, 0, note.length);
        atomic_publish(&board->verified, note.seed);
    }
    party_check(tesup_notify_release(party.channel), "release");
    for (enum party_memory kind = 0; kind < PARTY_MEMORY_COUNT; kind++) {
        if (!board->region[kind].present)
            continue;
        party_region_free(&party, &source[kind]);
        party_region_free(&party, &target[kind]);
    }
    party_detach(&party);
}

static void matrix_expect_done(const struct party *party, const struct tesup_request *request,
                               const char *what)
{
    struct tesup_completion done = party_do(party->channel, request);

    party_check(done.status, what);
    assert_int_equal(done.bytes, request->length);
    assert_int_equal(done.op, request->op);
    assert_int_equal(done.cookie, request->cookie);
}

static void matrix_write(struct matrix_board *board, const struct party *party,
                         const struct party_region *local, struct tesup_request request,
                         uint32_t kind)
{
    static uint32_t seed = 100;
    struct matrix_note note = {
        .kind = kind, .seed = ++seed, .offset = request.remote_offset, .length = request.length};

    party_fill(local->bytes + request.local_offset, request.length, seed);
    request.op = TESUP_OP_WRITE;
    request.cookie = seed;
    request.msg = &note;
    request.msg_len = sizeof(note);
    if ((request.flags & TESUP_REMOTE_ADDR) != 0)
        request.remote_offset += board->region[kind].address;
    else
        request.remote_region = board->region[kind].target;
    matrix_expect_done(party, &request, "WRITE");
    wait_word(&board->verified, seed, "the target's word that the block is right");
}

static void matrix_read(const struct matrix_board *board, const struct party *party,
                        const struct party_region *local, struct tesup_request request,
                        uint32_t kind)
{
    static uint8_t expected[MATRIX_SIZE];

    memset(local->bytes, 0xee, MATRIX_SIZE);
    party_fill(expected, MATRIX_SIZE, MATRIX_SOURCE + kind);
    const uint8_t *wanted = expected + request.remote_offset;
    request.op = TESUP_OP_READ;
    if ((request.flags & TESUP_REMOTE_ADDR) != 0)
        request.remote_offset += board->region[kind].source_address;
    else
        request.remote_region = board->region[kind].source;
    matrix_expect_done(party, &request, "READ");
    party_verify_byte(local->bytes, request.local_offset, 0xee, "before the block");
    assert_memory_equal(local->bytes + request.local_offset, wanted, request.length);
    party_verify_byte(local->bytes + request.local_offset + request.length,
                      MATRIX_SIZE - request.local_offset - request.length, 0xee,
                      "behind the block");
}

static void matrix_pair(struct matrix_board *board, const struct party *party,
                        const struct party_region *local, tesup_remote_t remote, uint32_t kind)
{
    static const uint64_t sizes[] = {1, 4095, MIB + 1};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct tesup_request request = {.remote = remote,
                                        .local_region = local->handle,
                                        .local_offset = 3 + i,
                                        .remote_offset = 4097 - 2 * i,
                                        .length = sizes[i]};

        request.flags = i % 2 ? TESUP_REMOTE_ADDR : 0;
        matrix_write(board, party, local, request, kind);
        request.flags ^= TESUP_REMOTE_ADDR;
        matrix_read(board, party, local, request, kind);
    }
}

static void matrix_run(const struct site *site)
{
    struct matrix_board *board = job_board_create(sizeof(*board));
    struct tesup_request bye = {.op = TESUP_OP_NOTIFY, .name = "bye", .name_len = 3};
    struct party_region local;
    struct party party;
    struct job target;

    board->daemon = site->right;
    job_start(&target, "target", matrix_target, board);
    wait_word(&board->ready, 1, "the target's memory");
    party_attach(&party, site->left, NULL);
    bye.remote = party_open(&party, board->name);
    for (enum party_memory kind = 0; kind < PARTY_MEMORY_COUNT; kind++) {
        if (!party_region_create(&party, kind, MATRIX_SIZE, TESUP_ACCESS_LOCAL, &local))
            continue;
        for (uint32_t remote = 0; remote < PARTY_MEMORY_COUNT; remote++)
            if (board->region[remote].present)
                matrix_pair(board, &party, &local, bye.remote, remote);
        party_region_free(&party, &local);
    }
    party_check(party_do(party.channel, &bye).status, "bye");
    job_expect_success(&target, WAIT_MS);
    party_detach(&party);
    job_board_free(board, sizeof(*board));
}

static void memory_kinds_over_tcp(void **state)
{
    (void)state;
    matrix_run(&sites[SITE_TCP]);
}

static void memory_kinds_over_local(void **state)
{
    (void)state;
    matrix_run(&sites[SITE_LOCAL]);
}

static void memory_kinds_within_worker(void **state)
{
    (void)state;
    matrix_run(&sites[SITE_WORKER]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(memory_kinds_over_tcp, job_test_teardown),
        cmocka_unit_test_teardown(memory_kinds_over_local, job_test_teardown),
        cmocka_unit_test_teardown(memory_kinds_within_worker, job_test_teardown),
    };

    return cmocka_run_group_tests(tests, site_group_setup, site_group_teardown);
}
