/* Damaged files: whatever is wrong in them, there is an error or a plan, and never a crash. */
#include "topology_fixture.h"

#include "tests/harness/test.h"

#include <inttypes.h>

enum { MUTANTS = TEST_SANITIZED ? 40 : 150 }; /* each costs a fork(2), which sanitizers slow down */

static const uint64_t seed = 0x6d7574616e747321;

static uint32_t random_next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (uint32_t)((*state * UINT64_C(0x2545f4914f6cdd1d)) >> 32);
}

static char *fixture_read(size_t *size)
{
    FILE *file = fopen(FIXTURE("nps4.xml"), "re");

    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *size = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*size);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

/* Digits and letters become others, so that most mutants are still XML; some lines go. */
static void mutate(char *bytes, size_t size, uint64_t *random)
{
    static const char letters[] = "0123456789abcdef-:.,";
    uint32_t changes = 1 + random_next(random) % 6;

    for (uint32_t i = 0; i < changes; i++) {
        size_t at = random_next(random) % size;
        if (random_next(random) % 8 == 0) {
            while (at < size && bytes[at] != '\n')
                bytes[at++] = ' ';
            continue;
        }
        while (at + 1 < size && !strchr(letters, bytes[at]))
            at++;
        bytes[at] = letters[random_next(random) % (sizeof(letters) - 1)];
    }
}

/* Every pair has a CPU of its node; the text of a refusal names the file. */
static bool mutant_check(const char *path)
{
    struct topology *topology = NULL;
    struct topology_plan plan;
    char text[PATH_MAX + 512] = "";

    if (topology_load(path, &topology, text, sizeof(text)) < 0) {
        assert_null(topology);
        assert_non_null(strstr(text, path));
        return false;
    }
    if (topology_plan_make(topology, NULL, 0, &plan, text, sizeof(text)) == 0) {
        assert_in_range(plan.count, 1, TOPOLOGY_PAIRS_MAX);
        for (size_t i = 0; i < plan.count; i++) {
            assert_true(plan.pair[i].cpu >= 0);
            assert_true(plan.pair[i].name[0] != '\0' && plan.pair[i].reason[0] != '\0');
        }
    } else {
        assert_true(text[0] != '\0');
    }
    topology_free(topology);
    return true;
}

static void mutants_do_no_harm(void **state)
{
    uint64_t random = seed;
    char path[] = "/tmp/tesup-topology-XXXXXX";
    size_t size, loaded = 0;
    char *bytes = fixture_read(&size), *mutant = malloc(size);
    int fd = mkstemp(path);

    (void)state;
    print_message("seed 0x%" PRIx64 ", %d mutants\n", seed, MUTANTS);
    assert_true(fd >= 0);
    assert_non_null(mutant);
    for (int i = 0; i < MUTANTS; i++) {
        memcpy(mutant, bytes, size);
        mutate(mutant, size, &random);
        assert_int_equal(pwrite(fd, mutant, size, 0), size);
        loaded += mutant_check(path);
    }
    print_message("%zu of them were still topologies\n", loaded);
    /* Both ways were gone. */
    assert_in_range(loaded, MUTANTS / 20, MUTANTS - MUTANTS / 20);
    close(fd);
    unlink(path);
    free(bytes);
    free(mutant);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mutants_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
