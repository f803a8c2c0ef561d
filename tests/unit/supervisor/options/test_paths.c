/* Where files are when nobody says it: for root and for others. */
#include "tests/unit/supervisor/options/options_fixture.h"

#include <sys/wait.h>

static void test_paths(void **state)
{
    struct options_paths paths;
    char text[512];
    char longer[200];

    (void)state;
    assert_int_equal(options_paths_default("n", "/r", &paths, text, sizeof(text)), 0);
    assert_string_equal(paths.socket, "/r/n.sock");
    assert_string_equal(paths.lock, "/r/n.lock");
    assert_int_equal(options_paths_default(NULL, NULL, &paths, text, sizeof(text)), 0);
    assert_string_equal(paths.socket, geteuid() == 0 ? "/run/tesup/default.sock"
                                                     : "/run/user/7/tesup/default.sock");
    assert_int_equal(options_paths_default("../x", "/r", &paths, text, sizeof(text)), -1);
    memset(longer, 'r', sizeof(longer));
    longer[0] = '/';
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(options_paths_default("n", longer, &paths, text, sizeof(text)), -1);
    assert_non_null(strstr(text, "--runtime-dir"));
}

/* Runs `check` as a user who is not root; its failures are seen by the exit code. */
static void as_plain_user(int (*check)(void))
{
    int wait_status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        if (geteuid() == 0 && setresuid(65534, 65534, 65534))
            _exit(100);
        _exit(check());
    }
    assert_int_equal(waitpid(pid, &wait_status, 0), pid);
    assert_true(WIFEXITED(wait_status));
    assert_int_equal(WEXITSTATUS(wait_status), 0);
}

static int check_plain_user(void)
{
    struct serve_options o;

    if (PARSE(&o) != 0 || strcmp(o.runtime_dir, "/run/user/7/tesup") != 0)
        return 1;
    if (strcmp(o.peer_key, "/home/x/.config/tesup/peer.key") != 0)
        return 2;
    if (o.allow_uids.count != 2 || o.allow_uids.uid[1] != 0)
        return 3;
    unsetenv("XDG_CONFIG_HOME");
    setenv("HOME", "/home/y", 1);
    if (PARSE(&o) != 0 || strcmp(o.peer_key, "/home/y/.config/tesup/peer.key") != 0)
        return 4;
    unsetenv("HOME");
    if (PARSE(&o) != 2 || !strstr(printed, "--peer-key"))
        return 5;
    unsetenv("XDG_RUNTIME_DIR");
    if (PARSE(&o, "--peer-key=/k") != 2 || !strstr(printed, "XDG_RUNTIME_DIR is not set"))
        return 6;
    if (PARSE(&o, "--peer-key=/k", "--runtime-dir=/r") != 0)
        return 7;
    free(printed);
    return 0;
}

static void test_plain_user(void **state)
{
    (void)state;
    as_plain_user(check_plain_user);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OPTION_TEST(test_paths),
        OPTION_TEST(test_plain_user),
    };

    return cmocka_run_group_tests(tests, NULL, printed_free);
}
