/* What `tesup status` shows of jobs and peers that work, and how it shows it: on a terminal,
 * watched, into a pipe. */
#include "tests/harness/test.h"

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/harness/command.h"
#include "tests/harness/daemon.h"
#include "tests/harness/party.h"
#include "tests/harness/status.h"
#include "tests/harness/wait.h"

#define LENGTH       (256u * 1024u)
#define FOUND_MS     60000
#define SCREEN_MAX   (256u * 1024u)
#define SCREEN_LEAVE "\033[?7h\033[?25h\033[?1049l"

static struct command command; /* large */

static void status_line(char *line, size_t size, const struct daemon *daemon, const char *words)
{
    snprintf(line, size, TESUP_BIN_DIR "/tesup status --name %s --runtime-dir %s %s", daemon->name,
             daemon_directory(), words);
}

/* ---- what carries ---- */

/* Two supervisors, a job at each, one WRITE with a notification and one READ between them. */
struct scene {
    struct daemon left, right;
    struct party a, b;
    struct party_region here, there;
};

static void scene_start(struct scene *scene, const char *options)
{
    const uint32_t access = TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE;
    struct tesup_request request = {
        .op = TESUP_OP_WRITE, .length = LENGTH, .name = "done", .name_len = 4};

    daemon_start(&scene->left, "left", options);
    daemon_start(&scene->right, "right", options);
    party_attach(&scene->a, &scene->left, "a");
    party_attach(&scene->b, &scene->right, "b");
    assert_true(party_region_create(&scene->a, PARTY_MEMORY_ALLOC, LENGTH, access, &scene->here));
    assert_true(party_region_create(&scene->b, PARTY_MEMORY_ALLOC, LENGTH, access, &scene->there));
    request.remote = party_open(&scene->a, tesup_segment_name(scene->b.session));
    request.local_region = scene->here.handle;
    request.remote_region = scene->there.handle;
    party_check(party_do(scene->a.channel, &request).status, "WRITE");
    assert_true(party_next(scene->b.channel).name_len == 4);
    tesup_notify_release(scene->b.channel);
    request.op = TESUP_OP_READ;
    request.name = NULL;
    request.name_len = 0;
    party_check(party_do(scene->a.channel, &request).status, "READ");
}

static void scene_end(struct scene *scene)
{
    party_region_free(&scene->a, &scene->here);
    party_region_free(&scene->b, &scene->there);
    party_detach(&scene->a);
    party_detach(&scene->b);
    daemon_stop(&scene->left);
    daemon_stop(&scene->right);
}

/* Of the endpoint that leads to another worker. */
static json_t *endpoint_of(json_t *document)
{
    json_t *endpoints =
        json_object_get(json_array_get(json_object_get(document, "pairs"), 0), "endpoints");
    json_t *endpoint;
    size_t i;

    json_array_foreach(endpoints, i,
                       endpoint) if (strcmp(json_string_value(json_object_get(endpoint, "fabric")),
                                            "self") != 0) return endpoint;
    fail_msg("there is no endpoint to another worker");
    return NULL;
}

static int64_t number_of(json_t *object, const char *key)
{
    if (!json_is_integer(json_object_get(object, key)))
        fail_msg("no number %s", key);
    return json_integer_value(json_object_get(object, key));
}

static void expect_carried(const struct daemon *daemon, const char *fabric)
{
    json_t *document = status_document(daemon);
    json_t *pair = json_array_get(json_object_get(document, "pairs"), 0);
    json_t *notify = json_object_get(json_object_get(document, "supervisor"), "notify");
    json_t *endpoint = endpoint_of(document);

    assert_string_equal(json_string_value(json_object_get(notify, "carried_by")), fabric);
    assert_string_equal(json_string_value(json_object_get(pair, "fabric")), fabric);
    assert_string_equal(json_string_value(json_object_get(pair, "fabric_in_use")), fabric);
    assert_string_equal(json_string_value(json_object_get(endpoint, "fabric")), fabric);
    assert_string_equal(json_string_value(json_object_get(endpoint, "notify")), fabric);
    json_decref(document);
}

static void expect_moved(const struct daemon *daemon, int64_t least_out, int64_t least_in)
{
    json_t *document = status_document(daemon);
    json_t *endpoint = endpoint_of(document);
    int64_t out = number_of(endpoint, "bytes_out"), in = number_of(endpoint, "bytes_in");

    if (out < least_out || in < least_in)
        fail_msg("%s: %ld bytes out, %ld in", daemon->name, (long)out, (long)in);
    assert_true(number_of(endpoint, "state_age_ms") >= 0);
    json_decref(document);
}

static void fabric_local_is_said(void **state)
{
    struct scene scene;
    char line[300];

    (void)state;
    scene_start(&scene, "--fabric local");
    expect_carried(&scene.left, "local");
    expect_carried(&scene.right, "local");
    expect_moved(&scene.left, LENGTH, LENGTH); /* who copies counts */
    status_line(line, sizeof(line), &scene.left, "");
    command_run(&command, line);
    command_expect_text(command.out, "carried by local\n");
    command_expect_text(command.out, "over local, notifications by local");
    assert_null(strstr(command.out, " over tcp"));
    scene_end(&scene);
}

static void fabric_tcp_is_said(void **state)
{
    struct scene scene;
    char line[300];

    (void)state;
    scene_start(&scene, "--fabric tcp");
    expect_carried(&scene.left, "tcp");
    expect_carried(&scene.right, "tcp");
    expect_moved(&scene.left, LENGTH, LENGTH);
    expect_moved(&scene.right, LENGTH, LENGTH);
    assert_int_equal(status_worker_count(&scene.right, "served_reads"), 1);
    assert_int_equal(status_worker_count(&scene.right, "served_writes"), 1);
    assert_int_equal(status_worker_count(&scene.right, "bytes_served_read"), LENGTH);
    status_line(line, sizeof(line), &scene.left, "");
    command_run(&command, line);
    command_expect_text(command.out, "carried by tcp\n");
    command_expect_text(command.out, ": ready for ");
    scene_end(&scene);
}

/* ---- watched, into a pipe ---- */

static void watch_prints_blocks(void **state)
{
    char line[300], rest[300];
    struct daemon daemon;

    (void)state;
    daemon_start(&daemon, "cli", "");
    status_line(line, sizeof(line), &daemon, "--watch 1");
    command_start(&command, line);
    for (int block = 0; block < 3; block++) {
        command_line_wait(&command, "tesup cli: ", rest, sizeof(rest));
        command_line_wait(&command, "QUEUES", rest, sizeof(rest));
        command_line_wait(&command, "tcp@node", rest, sizeof(rest));
        assert_null(strchr(rest, '\033'));
    }
    kill(command.pid, SIGINT);
    command_end(&command);
    command_expect_code(&command, 128 + SIGINT);
    daemon_stop(&daemon);
}

static void watch_prints_documents(void **state)
{
    char line[300], document[512];
    struct daemon daemon;

    (void)state;
    daemon_start(&daemon, "cli", "");
    status_line(line, sizeof(line), &daemon, "--json --watch=1");
    command_start(&command, line);
    FILE *out = fdopen(dup(command.out_fd), "r");
    assert_non_null(out);
    for (int i = 0; i < 2; i++) {
        json_error_t error;
        json_t *json = json_loadf(out, JSON_DISABLE_EOF_CHECK, &error);

        if (!json)
            fail_msg("document %d: %s", i, error.text);
        assert_int_equal(json_object_get(json, "rates") != NULL, i > 0);
        json_decref(json);
    }
    fclose(out);
    kill(command.pid, SIGTERM);
    command_end(&command);
    command_expect_code(&command, 128 + SIGTERM);
    /* More than one number, or one that is none, is wrong usage. */
    for (size_t i = 0; i < 3; i++) {
        static const char *const wrong[] = {"--watch 1 2", "--watch 0", "--watch=x"};
        snprintf(document, sizeof(document), "%s %s", line, wrong[i]);
        command_run(&command, document);
        command_expect_code(&command, 2);
    }
    daemon_stop(&daemon);
}

/* ---- on a terminal ---- */

struct terminal {
    pid_t pid;
    int fd;
    size_t size;
    char text[SCREEN_MAX]; /* all that was written so far */
};

static void terminal_start(struct terminal *terminal, const char *words)
{
    struct winsize size = {.ws_row = 40, .ws_col = 100};
    char copy[400];
    char *argv[16] = {NULL};
    char *rest = NULL;
    size_t count = 0;

    snprintf(copy, sizeof(copy), "%s", words);
    for (char *word = strtok_r(copy, " ", &rest); word && count < 15;
         word = strtok_r(NULL, " ", &rest))
        argv[count++] = word;
    terminal->size = 0;
    terminal->text[0] = '\0';
    terminal->pid = forkpty(&terminal->fd, NULL, NULL, &size);
    assert_true(terminal->pid >= 0);
    if (terminal->pid == 0) {
        setenv("TERM", "xterm", 1);
        execv(argv[0], argv);
        _exit(127);
    }
}

/* Takes what comes; false at the end. */
static bool terminal_read(struct terminal *terminal)
{
    struct pollfd fd = {.fd = terminal->fd, .events = POLLIN};
    ssize_t got;

    if (poll(&fd, 1, FOUND_MS) != 1)
        fail_msg("nothing came for %d ms; so far: %s", FOUND_MS, terminal->text);
    assert_true(terminal->size < SCREEN_MAX - 1);
    got = read(terminal->fd, terminal->text + terminal->size, SCREEN_MAX - 1 - terminal->size);
    if (got <= 0)
        return false; /* EIO: nobody has the other end any more */
    terminal->size += (size_t)got;
    terminal->text[terminal->size] = '\0';
    return true;
}

static void terminal_wait(struct terminal *terminal, const char *what, unsigned times)
{
    for (;;) {
        const char *at = terminal->text;
        unsigned found = 0;

        while ((at = strstr(at, what))) {
            found++;
            at++;
        }
        if (found >= times)
            return;
        if (!terminal_read(terminal))
            fail_msg("it ended before it wrote '%s' %u times: %s", what, times, terminal->text);
    }
}

static int terminal_end(struct terminal *terminal)
{
    int code;

    while (terminal_read(terminal))
        ;
    code = wait_child(terminal->pid, FOUND_MS, "tesup status on a terminal");
    close(terminal->fd);
    return code;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);

    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

static void watch_leaves_a_clean_terminal(void **state)
{
    static const char keys[] = {'\x03', '\x1a'}; /* Ctrl-C, Ctrl-Z */
    static struct terminal terminal;             /* large */
    char line[300];
    struct daemon daemon;
    int status;

    (void)state;
    daemon_start(&daemon, "cli", "");
    status_line(line, sizeof(line), &daemon, "--watch 1");
    terminal_start(&terminal, line);
    terminal_wait(&terminal, "\033[?1049h\033[?25l", 1);
    terminal_wait(&terminal, "QUEUES", 3);
    assert_null(strstr(terminal.text, "\033[2J")); /* a cleared screen flickers */
    command_expect_text(terminal.text, "\033[32mready");

    /* Stopped, the terminal is the shell's; and then it goes on. */
    assert_int_equal(write(terminal.fd, &keys[1], 1), 1);
    assert_int_equal(waitpid(terminal.pid, &status, WUNTRACED), terminal.pid);
    assert_true(WIFSTOPPED(status));
    terminal_wait(&terminal, SCREEN_LEAVE, 1);
    kill(terminal.pid, SIGCONT);
    terminal_wait(&terminal, "\033[?1049h\033[?25l", 2);

    assert_int_equal(write(terminal.fd, &keys[0], 1), 1);
    assert_int_equal(terminal_end(&terminal), 0);
    assert_true(ends_with(terminal.text, SCREEN_LEAVE));
    daemon_stop(&daemon);
}

static void colours_can_be_refused(void **state)
{
    static struct terminal terminal; /* large */
    char line[300];
    struct daemon daemon;

    (void)state;
    daemon_start(&daemon, "cli", "");
    status_worker_ready(&daemon, 0);
    status_line(line, sizeof(line), &daemon, "");
    terminal_start(&terminal, line);
    terminal_end(&terminal);
    command_expect_text(terminal.text, "\033[32mready");
    setenv("NO_COLOR", "1", 1);
    terminal_start(&terminal, line);
    unsetenv("NO_COLOR");
    terminal_end(&terminal);
    assert_null(strchr(terminal.text, '\033'));
    command_expect_text(terminal.text, "ready");
    command_run(&command, line); /* a pipe */
    assert_null(strchr(command.out, '\033'));
    daemon_stop(&daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(fabric_local_is_said, daemon_test_teardown),
        cmocka_unit_test_teardown(fabric_tcp_is_said, daemon_test_teardown),
        cmocka_unit_test_teardown(watch_prints_blocks, daemon_test_teardown),
        cmocka_unit_test_teardown(watch_prints_documents, daemon_test_teardown),
        cmocka_unit_test_teardown(watch_leaves_a_clean_terminal, daemon_test_teardown),
        cmocka_unit_test_teardown(colours_can_be_refused, daemon_test_teardown),
    };

    unsetenv("NO_COLOR");
    setenv("COLUMNS", "200", 1); /* what goes into a pipe is not wrapped */
    return cmocka_run_group_tests(tests, daemon_group_setup, daemon_group_teardown);
}
