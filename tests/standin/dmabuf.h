/* What the stand-in's dmabuf descriptors are: a memfd as long as the range, that begins with this.
 * Whoever wraps ibv_reg_dmabuf_mr() reads it to check offset and length. */
#ifndef TESUP_TESTS_STANDIN_DMABUF_H
#define TESUP_TESTS_STANDIN_DMABUF_H

#include <stdint.h>

#define STANDIN_DMABUF_MAGIC "cudadma"

struct standin_dmabuf {
    char magic[8];
    uint64_t address, size; /* in the exporter */
    int32_t process;
    uint32_t pieces; /* of a reservation */
    uint32_t pcie;   /* asked for with the PCIe mapping type */
};

#endif
