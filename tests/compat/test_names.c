/* Names of engines: each form, each refusal, and peers that do not answer as they should. */
#include "tests/compat/agent.h"
#include "tests/compat/stderr_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <tesup.h>
#include <unistd.h>

#include "tests/harness/party.h"
#include "tests/harness/wait.h"

static struct daemon host;
static struct agent left, right;

static uint16_t port_of(const struct agent *agent)
{
    return (uint16_t)strtoul(strrchr(agent->name, ':') + 1, NULL, 10);
}

static void expect_transfer(const char *name)
{
    int target = agent_open(&left, name);

    party_fill(left.bytes, 4096, strlen(name));
    assert_int_equal(
        agent_do(&left, OPCODE_WRITE, target, (uint64_t)(uintptr_t)right.bytes, 4096, 1, name),
        STATUS_COMPLETED);
    party_verify(right.bytes, 4096, strlen(name), name);
    agent_expect_note(&right, left.name, name);
}

/* 127.0.0.1:PORT, localhost:PORT and the segment of tesup.h are one engine. */
static void test_forms(void **state)
{
    char name[AGENT_NAME], links[4096];
    const char *segment;

    (void)state;
    expect_transfer(right.name);
    snprintf(name, sizeof(name), "localhost%s", strrchr(right.name, ':'));
    expect_transfer(name);
    assert_int_equal(showLinks(right.engine, links, sizeof(links), 0), 0);
    segment = strstr(links, " is ") + 4;
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(segment, "\n"), segment);
    expect_transfer(name);
}

static transfer_engine_t create(const char *server, const char *other, uint64_t port)
{
    return createTransferEngine("P2PHANDSHAKE", server, other, port, 0);
}

static void expect_label(transfer_engine_t engine, const char *begin)
{
    char name[AGENT_NAME];

    assert_non_null(engine);
    assert_int_equal(getLocalIpAndPort(engine, name, sizeof(name)), 0);
    if (strncmp(name, begin, strlen(begin)) != 0)
        fail_msg("the engine is %s, not %s...", name, begin);
    destroyTransferEngine(engine);
}

static void test_labels(void **state)
{
    uint16_t port = port_of(&left);
    char taken[AGENT_NAME];

    (void)state;
    snprintf(taken, sizeof(taken), "127.0.0.1:%u", port);
    expect_label(create("", "127.0.0.1", 0), "127.0.0.1:");
    expect_label(create(NULL, "localhost", 0), "");
    expect_label(create("::1", "", 0), "[::1]:");
    expect_label(create("[::1]:0", "", 0), "[::1]:");
    expect_label(create("0.0.0.0", "", 0), ""); /* an address of this host, whatever it is */
    expect_label(create("127.0.0.1", "", port), "127.0.0.1:"); /* taken: another port */
    expect_label(create(taken, "", 0), "127.0.0.1:");
    setenv("MC_LEGACY_RPC_PORT_BINDING", "1", 1);
    assert_null(create("127.0.0.1", "", port));
    unsetenv("MC_LEGACY_RPC_PORT_BINDING");
}

/* ---- who answers is no engine ---- */

struct impostor {
    int listener;
    uint16_t port;
    const void *answer;
    size_t size;
    pthread_t thread;
};

static void *impostor_run(void *argument)
{
    const struct impostor *impostor = argument;
    int fd = accept(impostor->listener, NULL, NULL);
    char question[64];

    if (recv(fd, question, 16, MSG_WAITALL) == 16 && impostor->size > 0)
        (void)!send(fd, impostor->answer, impostor->size, MSG_NOSIGNAL);
    if (impostor->answer == NULL) /* silent until the other side gives up */
        (void)!recv(fd, question, 1, 0);
    close(fd);
    return NULL;
}

static void impostor_begin(struct impostor *impostor, const void *answer, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);

    *impostor = (struct impostor){.answer = answer, .size = size};
    impostor->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(impostor->listener, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(impostor->listener, 1), 0);
    assert_int_equal(getsockname(impostor->listener, (struct sockaddr *)&address, &length), 0);
    impostor->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&impostor->thread, NULL, impostor_run, impostor), 0);
}

static void expect_refused(const void *answer, size_t size, const char *sentence)
{
    struct impostor impostor;
    struct stderr_catch caught;
    char name[AGENT_NAME];
    int target;

    impostor_begin(&impostor, answer, size);
    snprintf(name, sizeof(name), "127.0.0.1:%u", impostor.port);
    stderr_catch_begin(&caught);
    target = openSegment(left.engine, name);
    stderr_catch_end(&caught);
    pthread_join(impostor.thread, NULL);
    close(impostor.listener);
    assert_int_equal(target, -1);
    if (strstr(caught.text, sentence) == NULL)
        fail_msg("no '%s' in '%s'", sentence, caught.text);
}

#define HEADER(version, name, count) "tesupcrd" version name count "\0\0\0\0"

static void test_impostors(void **state)
{
    static const char web[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    static const char old[] = HEADER("\2\0\0\0", "\1\0\0\0", "\0\0\0\0") "x";
    static const char endless[] = HEADER("\1\0\0\0", "\377\377\377\377", "\0\0\0\0");
    static const char many[] = HEADER("\1\0\0\0", "\1\0\0\0", "\377\377\377\377");
    static const char cut[] = HEADER("\1\0\0\0", "\10\0\0\0", "\0\0\0\0") "abc";
    static const char nameless[] = HEADER("\1\0\0\0", "\3\0\0\0", "\0\0\0\0") "abc";
    static const char withdrawn[] = HEADER("\1\0\0\0", "\0\0\0\0", "\0\0\0\0");

    (void)state;
    expect_refused(web, sizeof(web) - 1, "no libtransfer_engine of tesup");
    expect_refused(old, sizeof(old) - 1, "another version");
    expect_refused(endless, sizeof(endless) - 1, "longer than any");
    expect_refused(many, sizeof(many) - 1, "longer than any");
    expect_refused(cut, sizeof(cut) - 1, "or it ended");
    expect_refused(nameless, sizeof(nameless) - 1, "names no segment");
    expect_refused(withdrawn, sizeof(withdrawn) - 1, "removeLocalSegment");
    expect_refused("", 0, "or it ended");
    expect_refused(NULL, 0, "no answer within 3000 ms");
}

/* ---- and who asks is no engine ---- */

static int ask(const char *question, size_t size)
{
    uint16_t port = port_of(&right);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(send(fd, question, size, MSG_NOSIGNAL), size);
    return fd;
}

/* Strangers who say nonsense, nothing, or come in crowds: the engine answers whoever asks well. */
static void test_strangers(void **state)
{
    static const char good[] = "tesupask\1\0\0\0\0\0\0";
    int silent[100];
    char answer[8];
    int fd;

    (void)state;
    for (unsigned i = 0; i < 100; i++)
        silent[i] = ask("", 0);
    fd = ask("GET / HTTP/1.1\r\n", 16);
    assert_true(recv(fd, answer, 1, MSG_WAITALL) <= 0);
    close(fd);
    fd = ask(good, 16);
    assert_int_equal(recv(fd, answer, 8, MSG_WAITALL), 8);
    assert_memory_equal(answer, "tesupcrd", 8);
    close(fd);
    assert_int_equal(openSegmentNoCache(left.engine, right.name) > 0, 1);
    for (unsigned i = 0; i < 100; i++)
        close(silent[i]);
}

/* removeLocalSegment: nobody opens it any more. */
static void test_withdrawn(void **state)
{
    struct agent shy;

    (void)state;
    agent_begin(&shy, &host, 4096);
    assert_int_equal(removeLocalSegment(shy.engine, shy.name), 0);
    assert_int_equal(openSegment(left.engine, shy.name), -1);
    agent_end(&shy);
}

/* A process that has gone and one that takes its address: the cache is not believed for ever. */
static void test_successor(void **state)
{
    struct agent old;
    struct agent next = {0};
    uint16_t port;
    int target;

    (void)state;
    agent_begin(&old, &host, 4096);
    port = port_of(&old);
    target = agent_open(&left, old.name);
    assert_int_equal(
        agent_do(&left, OPCODE_WRITE, target, (uint64_t)(uintptr_t)old.bytes, 4096, 1, NULL),
        STATUS_COMPLETED);
    agent_end(&old);
    next.engine = create("127.0.0.1", "", port);
    assert_non_null(next.engine);
    assert_int_equal(registerLocalMemory(next.engine, right.bytes + 4096, 4096, "*", 1), 0);
    memset(right.bytes + 4096, 0, 4096);
    memset(left.bytes, 0x66, 4096);
    (void)agent_do(&left, OPCODE_WRITE, target, (uint64_t)(uintptr_t)right.bytes + 4096, 4096, 1,
                   NULL);
    assert_int_equal(agent_do(&left, OPCODE_WRITE, target, (uint64_t)(uintptr_t)right.bytes + 4096,
                              4096, 1, NULL),
                     STATUS_COMPLETED);
    party_verify_byte(right.bytes + 4096, 4096, 0x66, "memory of the successor");
    destroyTransferEngine(next.engine);
}

static int group_setup(void **state)
{
    if (daemon_group_setup(state) != 0)
        return -1;
    daemon_start(&host, "host", "");
    agent_begin(&left, &host, 8192);
    agent_begin(&right, &host, 8192);
    return 0;
}

static int group_teardown(void **state)
{
    agent_end(&left);
    agent_end(&right);
    daemon_stop(&host);
    return daemon_group_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),     cmocka_unit_test(test_labels),
        cmocka_unit_test(test_impostors), cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_withdrawn), cmocka_unit_test(test_successor),
    };

    return cmocka_run_group_tests_name("names", tests, group_setup, group_teardown);
}
