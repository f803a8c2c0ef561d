/* tesup-worker NAME: started by the supervisor, never by hand. Descriptor 3 is the way to it. */
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>

#include "worker/worker.h"

#define CONTROL_FD 3

int main(int argc, char **argv)
{
    int type = 0;
    socklen_t size = sizeof(type);

    if (argc != 2 || getsockopt(CONTROL_FD, SOL_SOCKET, SO_TYPE, &type, &size) < 0 ||
        type != SOCK_SEQPACKET) {
        fprintf(stderr, "tesup-worker is started by `tesup serve`; it does nothing by hand.\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN); /* the terminal's Ctrl-C is the supervisor's to handle */
    signal(SIGXFSZ, SIG_IGN);
    return worker_run(CONTROL_FD, argv[1]);
}
