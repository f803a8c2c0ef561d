#include "tests/harness/test.h"

#include "tests/harness/site.h"

static struct daemon tcp_left, tcp_right, auto_left, auto_right;

const struct site sites[SITE_COUNT] = {{"tcp", &tcp_left, &tcp_right},
                                       {"local", &auto_left, &auto_right},
                                       {"one worker", &auto_left, &auto_left}};

int site_group_setup(void **state)
{
    if (daemon_group_setup(state) < 0)
        return -1;
    daemon_start(&tcp_left, "tcp-left", "--fabric tcp");
    daemon_start(&tcp_right, "tcp-right", "--fabric tcp");
    daemon_start(&auto_left, "auto-left", "--fabric auto");
    daemon_start(&auto_right, "auto-right", "--fabric auto");
    return 0;
}

int site_group_teardown(void **state)
{
    daemon_stop(&tcp_left);
    daemon_stop(&tcp_right);
    daemon_stop(&auto_left);
    daemon_stop(&auto_right);
    return daemon_group_teardown(state);
}
