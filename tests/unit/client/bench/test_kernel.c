/* The kernels of `tesup bench --memory gpu`, launched as the benchmark launches them: what they
 * fill is the pattern, and what was spoiled is found, at every kind of length and address. */
#include "client/bench/kernel.h"
#include "client/bench/pattern.h"

#include <signal.h>
#include <string.h>

#include "tests/unit/standin/cuda_fixture.h"

#define BYTES_MOST ((1u << 20) + 3)
#define GUARD      16u /* bytes before and behind a block that must stay as they are */

static const uint64_t lengths[] = {1, 7, 8, 9, 4096, BYTES_MOST};
static const uint64_t shifts[] = {0, 1, 4}; /* of the block's address */
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct kernel kernel;
static cuda_pointer memory;
static uint8_t host[BYTES_MOST + 3 * GUARD], pattern[BYTES_MOST];

static void kernel_begin(void)
{
    cuda_begin();
    EXPECT(!kernel_lacks(&cuda));
    OK(kernel_open(&kernel, &cuda));
    OK(cuda.cuMemAlloc(&memory, sizeof(host)));
}

static void kernel_end(void)
{
    OK(cuda.cuMemFree(memory));
    OK(kernel_close(&kernel));
    cuda_end();
}

static struct kernel_block block_at(uint64_t shift, uint64_t length)
{
    return (struct kernel_block){
        .at = memory + GUARD + shift, .length = length, .start = pattern_start(17, 3)};
}

static void one_block_is_filled(uint64_t shift, uint64_t length)
{
    const struct kernel_block block = block_at(shift, length);

    memset(host, 0xa5, sizeof(host));
    OK(cuda.cuMemcpyHtoD(memory, host, sizeof(host)));
    OK(kernel_fill(&kernel, &block));
    OK(cuda.cuMemcpyDtoH(host, memory, sizeof(host)));
    pattern_fill(pattern, length, 17, 3);
    EXPECT(memcmp(host + GUARD + shift, pattern, length) == 0);
    for (size_t i = 0; i < GUARD + shift; i++)
        EXPECT(host[i] == 0xa5);
    for (size_t i = GUARD + shift + length; i < sizeof(host); i++)
        EXPECT(host[i] == 0xa5);
}

static void blocks_are_filled(void *unused)
{
    (void)unused;
    kernel_begin();
    for (size_t i = 0; i < COUNT(lengths); i++)
        for (size_t j = 0; j < COUNT(shifts); j++)
            one_block_is_filled(shifts[j], lengths[i]);
    kernel_end();
}

static void a_kernel_fills_the_block_and_nothing_else(void **state)
{
    (void)state;
    assert_int_equal(standin_child(blocks_are_filled, NULL, NULL), 0);
}

static void expect_verdict(const struct kernel_block *block, uint64_t wrong, uint64_t first)
{
    struct kernel_verdict verdict;

    OK(kernel_check(&kernel, block, &verdict));
    EXPECT(verdict.seen == block->length);
    EXPECT(verdict.wrong == wrong);
    EXPECT(verdict.first == first);
}

static void byte_flip(const struct kernel_block *block, uint64_t offset)
{
    uint8_t byte;

    OK(cuda.cuMemcpyDtoH(&byte, block->at + offset, 1));
    EXPECT(byte == pattern_byte(block->start, offset));
    byte ^= 0x80;
    OK(cuda.cuMemcpyHtoD(block->at + offset, &byte, 1));
}

static void one_block_is_spoiled(uint64_t shift, uint64_t length)
{
    const struct kernel_block block = block_at(shift, length);
    struct kernel_block other = block;
    uint64_t wrong = 0;

    OK(cuda.cuMemsetD8Async(memory, 0, sizeof(host), NULL));
    OK(kernel_fill(&kernel, &block));
    expect_verdict(&block, 0, UINT64_MAX);
    byte_flip(&block, length - 1);
    expect_verdict(&block, 1, length - 1);
    if (length > 1) {
        byte_flip(&block, length / 2);
        expect_verdict(&block, 2, length / 2);
    }
    other.start = ~block.start; /* of which no byte is the same in the first word */
    OK(kernel_fill(&kernel, &other));
    OK(cuda.cuMemcpyDtoH(host, other.at, length));
    pattern_fill(pattern, length, 17, 3);
    for (size_t i = 0; i < length; i++)
        wrong += host[i] != pattern[i];
    expect_verdict(&block, wrong, 0);
}

static void spoiled_blocks_are_found(void *unused)
{
    (void)unused;
    kernel_begin();
    for (size_t i = 0; i < COUNT(lengths); i++)
        for (size_t j = 0; j < COUNT(shifts); j++)
            one_block_is_spoiled(shifts[j], lengths[i]);
    kernel_end();
}

static void a_kernel_finds_each_wrong_byte(void **state)
{
    (void)state;
    assert_int_equal(standin_child(spoiled_blocks_are_found, NULL, NULL), 0);
}

/* The parameters between the parentheses behind the entry are these, in this order. */
static void expect_entry(const char *entry, const char *const *names)
{
    const char *at = strstr(kernel_text, entry), *end;
    char parameter[64];

    assert_non_null(at);
    end = strchr(at, ')');
    assert_non_null(end);
    for (; *names; names++) {
        snprintf(parameter, sizeof(parameter), ".param .u64 %s%s", *names, names[1] ? "," : "\n");
        at = strstr(at, ".param");
        assert_true(at != NULL && at < end);
        assert_memory_equal(at, parameter, strlen(parameter));
        at++;
    }
    at = strstr(at, ".param");
    assert_true(at == NULL || at > end);
}

static void the_text_has_what_is_launched(void **state)
{
    (void)state;
    expect_entry(".visible .entry pattern_fill(",
                 (const char *const[]){"block", "length", "start", "step", NULL});
    expect_entry(".visible .entry pattern_check(",
                 (const char *const[]){"block", "length", "start", "step", "verdict", NULL});
}

/* ---- errors ---- */

static void opening_fails(void *call)
{
    cuda_begin();
    EXPECT(kernel_open(&kernel, &cuda) == CUDA_NOT_SUPPORTED);
    EXPECT(strcmp(kernel.call, call) == 0);
    cuda_end(); /* and nothing is left */
}

static void a_failure_names_its_call(void **state)
{
    char load[] = "cuModuleLoadData", get[] = "cuModuleGetFunction", make[] = "cuMemAlloc";
    const char *const load_fails[] = {"STANDIN_CUDA_FAIL=cuModuleLoadData:1:801", NULL};
    const char *const get_fails[] = {"STANDIN_CUDA_FAIL=cuModuleGetFunction:2:801", NULL};
    const char *const make_fails[] = {"STANDIN_CUDA_FAIL=cuMemAlloc:1:801", NULL};

    (void)state;
    assert_int_equal(standin_child(opening_fails, load, load_fails), 0);
    assert_int_equal(standin_child(opening_fails, get, get_fails), 0);
    assert_int_equal(standin_child(opening_fails, make, make_fails), 0);
}

static void the_kernel_fails(void *unused)
{
    struct kernel_verdict verdict = {.seen = 1};
    struct kernel_block block;

    (void)unused;
    kernel_begin();
    block = block_at(0, 8);
    EXPECT(kernel_check(&kernel, &block, &verdict) == CUDA_ILLEGAL_ADDRESS);
    EXPECT(strcmp(kernel.call, "cuStreamSynchronize") == 0);
    EXPECT(verdict.seen == 1);
}

static void a_kernel_that_fails_is_told_at_its_end(void **state)
{
    const char *const fails[] = {"STANDIN_CUDA_FAIL=cuLaunchKernel@1:700", NULL};

    (void)state;
    assert_int_equal(standin_child(the_kernel_fails, NULL, fails), 0);
}

static void check_behind_the_end(void)
{
    struct kernel_block block = block_at(sizeof(host) - GUARD - 7, 8);
    struct kernel_verdict verdict;

    kernel_check(&kernel, &block, &verdict);
}

static void fill_host_memory(void)
{
    struct kernel_block block = {.at = (cuda_pointer)(uintptr_t)host, .length = 8};

    kernel_fill(&kernel, &block);
}

static void tell_nobody(void)
{
    struct kernel_block block = block_at(0, 8);
    struct kernel_verdict verdict;

    kernel.verdict += 8; /* its end is behind the allocation's */
    kernel_check(&kernel, &block, &verdict);
}

static void break_rule(void *rule)
{
    kernel_begin();
    (*(void (**)(void))rule)();
    _exit(0);
}

static void a_launch_with_foreign_memory_is_stopped(void **state)
{
    static void (*const rules[])(void) = {check_behind_the_end, fill_host_memory, tell_nobody};

    (void)state;
    for (size_t i = 0; i < COUNT(rules); i++) {
        void (*rule)(void) = rules[i];

        if (standin_child(break_rule, &rule, NULL) != ABORTED)
            fail_msg("rule %zu of the list was broken, and nothing happened", i);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_fills_the_block_and_nothing_else),
        cmocka_unit_test(a_kernel_finds_each_wrong_byte),
        cmocka_unit_test(the_text_has_what_is_launched),
        cmocka_unit_test(a_failure_names_its_call),
        cmocka_unit_test(a_kernel_that_fails_is_told_at_its_end),
        cmocka_unit_test(a_launch_with_foreign_memory_is_stopped),
    };

    (void)argc;
    standin_use(argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
