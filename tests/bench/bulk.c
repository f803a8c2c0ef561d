#include "tests/bench/bench.h"

#include <string.h>
#include <sys/mman.h>

#include "tests/bench/bulk.h"

uint64_t bulk_bytes(void)
{
    return UINT64_C(1) << (bench_quick ? 22 : 26);
}

uint8_t *bulk_map(void)
{
    void *bytes =
        mmap(NULL, bulk_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(bytes, MAP_FAILED);
    memset(bytes, 1, bulk_bytes());
    return bytes;
}

void bulk_unmap(uint8_t *bytes)
{
    munmap(bytes, bulk_bytes());
}

unsigned bulk_rounds(void)
{
    return bench_quick ? 1 : 3;
}

double bulk_gbs(uint64_t ns)
{
    return (double)bulk_bytes() / (double)ns;
}
