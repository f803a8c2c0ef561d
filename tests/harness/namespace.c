#include "tests/harness/test.h"

#include "tests/harness/namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static bool file_write(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return written;
}

void namespace_enter(int flags)
{
    unsigned uid = geteuid(), gid = getegid();
    char users[32], groups[32];

    if (unshare(flags) == 0)
        return;
    if (unshare(CLONE_NEWUSER | flags) < 0)
        fail_msg("no namespace of its own: %s; run the tests as root (CAP_SYS_ADMIN), or allow "
                 "user namespaces: sysctl user.max_user_namespaces",
                 strerror(errno));
    snprintf(users, sizeof(users), "%u %u 1", uid, uid);
    snprintf(groups, sizeof(groups), "%u %u 1", gid, gid);
    assert_true(file_write("/proc/self/setgroups", "deny"));
    assert_true(file_write("/proc/self/uid_map", users));
    assert_true(file_write("/proc/self/gid_map", groups));
}

void namespace_enter_loopback(void)
{
    struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int fd;

    namespace_enter(CLONE_NEWNET);
    /* Where it cannot be written, a new namespace has what the kernel began with: enabled. */
    (void)file_write("/proc/sys/net/ipv6/conf/lo/disable_ipv6", "0");
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &loopback), 0);
    close(fd);
}
