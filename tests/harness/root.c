#include "tests/harness/test.h"

#include "tests/harness/root.h"

#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define WORDS_MAX 16

void root_need(char **argv)
{
    char sudo[] = "sudo", quiet[] = "-n", keep[] = "-E";
    char *words[WORDS_MAX] = {sudo, quiet, keep};

    if (geteuid() == 0)
        return;
    for (int i = 0; argv[i] && i < WORDS_MAX - 4; i++)
        words[i + 3] = argv[i];
    execvp(sudo, words);
    fprintf(stderr, "this test needs a second user, so run it as root, or install sudo: %s\n",
            strerror(errno));
    exit(EXIT_FAILURE);
}

void root_leave(void)
{
    assert_int_equal(setgroups(0, NULL), 0);
    assert_int_equal(setgid(ROOT_STRANGER), 0);
    assert_int_equal(setuid(ROOT_STRANGER), 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the change of uid took it away */
    prctl(PR_SET_DUMPABLE, 1);        /* and this: the worker reads /proc of its jobs */
}
