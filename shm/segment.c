#include "shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PAGE 4096u

int segment_create(const char *name, uint64_t size)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int saved;

    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)size) < 0)
        goto err_close;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        goto err_close;
    return fd;

err_close:
    saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

int segment_inspect(int fd, struct segment_facts *facts)
{
    struct stat st;
    struct statfs fs;
    int seals, mode;

    if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
        return -1;
    mode = fcntl(fd, F_GETFL);
    if (mode < 0)
        return -1;
    if (!S_ISREG(st.st_mode)) {
        errno = EINVAL;
        return -1;
    }
    seals = fcntl(fd, F_GET_SEALS); /* EINVAL on files that know no seals */
    facts->size = (uint64_t)st.st_size;
    facts->page = (unsigned long)fs.f_type == HUGETLBFS_MAGIC ? (uint64_t)fs.f_bsize : PAGE;
    facts->writable = (mode & O_ACCMODE) == O_RDWR;
    facts->huge = (unsigned long)fs.f_type == HUGETLBFS_MAGIC ? (uint64_t)fs.f_bsize : 0;
    /* hugetlb can run out of pages at first touch, so it counts as unsealed: st_nlink is 0 for a
     * memfd, which lives on the kernel's own tmpfs without a size limit; files of /dev/shm have a
     * limit and cannot be relied on. */
    facts->sealed = seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && st.st_nlink == 0 &&
                    (unsigned long)fs.f_type == TMPFS_MAGIC;
    return 0;
}

int segment_bind(void *address, uint64_t size, int node)
{
    unsigned long mask[16] = {0};
    const unsigned bits = 8 * sizeof(mask[0]);

    if (node < 0)
        return 0;
    if ((unsigned)node >= bits * 16) {
        errno = EINVAL;
        return -1;
    }
    mask[(unsigned)node / bits] = 1ul << ((unsigned)node % bits);
    return (int)syscall(SYS_mbind, address, size, MPOL_PREFERRED, mask, (unsigned long)bits * 16,
                        MPOL_MF_MOVE);
}

int segment_node(const void *address)
{
    int node = -1;

    if (syscall(SYS_get_mempolicy, &node, NULL, 0ul, address, MPOL_F_NODE | MPOL_F_ADDR) < 0)
        return -1;
    return node;
}
