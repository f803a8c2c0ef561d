/* Every kind of memory with every other, over every fabric; and memory that vanishes on either side
 * is an error of the one transfer. */
#include "tests/harness/test.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/err.h"
#include "shm/segment.h"
#include "tests/harness/worker/pair.h"

#define SIZE (64u * 1024u + 5u)

enum kind { KIND_SEALED, KIND_FILE, KIND_PRIVATE, KIND_COUNT };

struct side {
    uint8_t *bytes; /* one mapping for each kind */
    int file;
};

static struct pair pair;
static struct side here[KIND_COUNT], there[KIND_COUNT];

static void side_make(struct side *side, enum kind kind, struct job *job)
{
    struct proto_region ask = {
        .kind = REGION_KIND_SHARED, .access = REGION_ACCESS_MASK, .length = SIZE};

    side->file = -1;
    if (kind == KIND_SEALED)
        side->file = segment_create("sealed", SIZE);
    else if (kind == KIND_FILE)
        side->file = memfd_create("file", MFD_CLOEXEC);
    if (kind == KIND_FILE)
        assert_int_equal(ftruncate(side->file, SIZE), 0);
    side->bytes =
        mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
             kind == KIND_PRIVATE ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, side->file, 0);
    assert_ptr_not_equal(side->bytes, MAP_FAILED);
    if (kind == KIND_PRIVATE) {
        ask.kind = REGION_KIND_PRIVATE;
        ask.base = (uintptr_t)side->bytes;
    }
    job_region(job, 1 + kind, &ask,
               side->file >= 0 ? fcntl(side->file, F_DUPFD_CLOEXEC, 0) : side->file);
}

static int setup(enum pair_fabric fabric)
{
    pair_begin(&pair, fabric);
    for (enum kind kind = KIND_SEALED; kind < KIND_COUNT; kind++) {
        side_make(&here[kind], kind, &pair.user);
        side_make(&there[kind], kind, &pair.owner);
    }
    return 0;
}

static int setup_tcp(void **state)
{
    (void)state;
    return setup(PAIR_TCP);
}

static int setup_local(void **state)
{
    (void)state;
    return setup(PAIR_LOCAL);
}

static int setup_self(void **state)
{
    (void)state;
    return setup(PAIR_SELF);
}

static int teardown(void **state)
{
    (void)state;
    pair_end(&pair);
    for (enum kind kind = KIND_SEALED; kind < KIND_COUNT; kind++) {
        munmap(here[kind].bytes, SIZE);
        munmap(there[kind].bytes, SIZE);
        if (here[kind].file >= 0)
            close(here[kind].file);
        if (there[kind].file >= 0)
            close(there[kind].file);
    }
    return 0;
}

static struct cqe move(enum sqe_op op, enum kind local, enum kind remote, uint64_t offset,
                       uint64_t length, const struct job_note *note)
{
    struct sqe sqe = pair_move(op, offset, length);

    sqe.local_region = JOB_HANDLE(1 + local);
    sqe.remote_region = JOB_HANDLE(1 + remote);
    return job_completion(&pair.user.main, job_submit(&pair.user.main, &sqe, note));
}

static void test_each_with_each(void **state)
{
    (void)state;
    for (enum kind local = KIND_SEALED; local < KIND_COUNT; local++)
        for (enum kind remote = KIND_SEALED; remote < KIND_COUNT; remote++)
            for (enum sqe_op op = SQE_READ; op <= SQE_WRITE; op++) {
                uint8_t *from = op == SQE_WRITE ? here[local].bytes : there[remote].bytes;
                uint8_t *to = op == SQE_WRITE ? there[remote].bytes : here[local].bytes;

                pair_fill(from, SIZE, (uint8_t)(local * 3 + remote));
                memset(to, 0xee, SIZE);
                assert_int_equal(move(op, local, remote, 3, SIZE - 6, NULL).status, TS_OK);
                assert_memory_equal(to + 3, from + 3, SIZE - 6);
                assert_int_equal(to[2], 0xee);
                assert_int_equal(to[SIZE - 3], 0xee);
            }
}

/* By address: private memory is where it is, without more words. */
static void test_by_address(void **state)
{
    struct sqe sqe = pair_move(SQE_WRITE, 0, 100);
    uint64_t ticket;

    (void)state;
    memset(here[KIND_SEALED].bytes, 'a', 100);
    sqe.local_region = JOB_HANDLE(1 + KIND_SEALED);
    sqe.flags = SQE_FLAG_REMOTE_ADDR;
    sqe.remote_region = 0;
    sqe.remote_offset = (uintptr_t)there[KIND_PRIVATE].bytes + 50;
    ticket = job_submit(&pair.user.main, &sqe, NULL);
    assert_int_equal(job_completion(&pair.user.main, ticket).status, TS_OK);
    assert_memory_equal(there[KIND_PRIVATE].bytes + 50, here[KIND_SEALED].bytes, 100);
    assert_int_equal(there[KIND_PRIVATE].bytes[49], 0);
}

/* Pages that nobody can reach: behind the end of a file. In place, so that nothing else comes
 * there. */
static void vanish(const struct side *side, enum kind kind)
{
    int empty = -1;

    if (kind == KIND_FILE) {
        assert_int_equal(ftruncate(side->file, 4096), 0);
        return;
    }
    empty = memfd_create("empty", MFD_CLOEXEC);
    assert_ptr_not_equal(mmap(side->bytes + 4096, SIZE - 4096, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_FIXED, empty, 0),
                         MAP_FAILED);
    close(empty);
}

/* The owner's or the user's memory is gone from its second page on: that is said, nothing is
 * announced, and the link goes on. */
static void vanish_try(bool local, enum kind kind)
{
    const struct job_note note = {.msg = "a lie", .msg_len = 5};
    enum kind mine = local ? kind : KIND_SEALED, theirs = local ? KIND_SEALED : kind;
    struct job_mail mail;

    assert_int_equal(move(SQE_READ, mine, theirs, 0, SIZE, NULL).status, TS_OK);
    vanish(local ? &here[kind] : &there[kind], kind);
    for (enum sqe_op op = SQE_READ; op <= SQE_WRITE; op++) {
        assert_int_equal(move(op, mine, theirs, 0, 100, NULL).status, TS_OK);
        assert_int_equal(move(op, mine, theirs, 0, SIZE, &note).status, TS_ERR_FAULT);
        assert_int_equal(move(op, mine, theirs, SIZE - 10, 10, &note).status, TS_ERR_FAULT);
        assert_int_equal(move(op, mine, theirs, 4000, 200, &note).status, TS_ERR_FAULT);
    }
    host_turns(10);
    assert_false(job_mail(&pair.owner, &mail));
    assert_int_equal(pair.remote->state, REMOTE_OPEN);
    assert_int_equal(move(SQE_WRITE, KIND_SEALED, KIND_SEALED, 0, SIZE, NULL).status, TS_OK);
}

static void test_users_file_vanishes(void **state)
{
    (void)state;
    vanish_try(true, KIND_FILE);
}

static void test_owners_file_vanishes(void **state)
{
    (void)state;
    vanish_try(false, KIND_FILE);
}

static void test_users_private_memory_vanishes(void **state)
{
    (void)state;
    vanish_try(true, KIND_PRIVATE);
}

static void test_owners_private_memory_vanishes(void **state)
{
    (void)state;
    vanish_try(false, KIND_PRIVATE);
}

/* Gone before anybody used it: the local fabric finds out when it maps it. */
static void test_vanished_before_its_first_use(void **state)
{
    (void)state;
    vanish(&there[KIND_FILE], KIND_FILE);
    vanish(&there[KIND_PRIVATE], KIND_PRIVATE);
    for (enum sqe_op op = SQE_READ; op <= SQE_WRITE; op++) {
        assert_int_equal(move(op, KIND_SEALED, KIND_FILE, 0, SIZE, NULL).status, TS_ERR_FAULT);
        assert_int_equal(move(op, KIND_SEALED, KIND_PRIVATE, 0, SIZE, NULL).status, TS_ERR_FAULT);
    }
}

#define ON(fabric, test)                                             \
    {                                                                \
#test " over " #fabric, test, setup_##fabric, teardown, NULL \
    }
#define ON_ALL(test) ON(tcp, test), ON(local, test), ON(self, test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_ALL(test_each_with_each),
        ON_ALL(test_by_address),
        ON_ALL(test_users_file_vanishes),
        ON_ALL(test_owners_file_vanishes),
        ON_ALL(test_users_private_memory_vanishes),
        ON_ALL(test_owners_private_memory_vanishes),
        ON_ALL(test_vanished_before_its_first_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
