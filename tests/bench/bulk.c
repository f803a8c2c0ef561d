#include "tests/bench/bench.h"

#include <string.h>
#include <sys/mman.h>

#include "tests/bench/bulk.h"

uint8_t *bulk_map(void)
{
    void *bytes = mmap(NULL, BENCH_BULK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(bytes, MAP_FAILED);
    memset(bytes, 1, BENCH_BULK);
    return bytes;
}

void bulk_unmap(uint8_t *bytes)
{
    munmap(bytes, BENCH_BULK);
}

unsigned bulk_rounds(void)
{
    return bench_quick ? 1 : 3;
}

double bulk_gbs(uint64_t ns)
{
    return (double)BENCH_BULK / (double)ns;
}
