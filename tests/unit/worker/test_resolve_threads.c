/* Names are looked up beside the loop: a name server that does not answer stops nobody. */
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shm/clock.h"
#include "shm/list.h"
#include "tests/harness/test.h"
#include "worker/resolve.h"

#define DEADLINE_MS 5000

/* The name server of this test: each name waits until it is let through. */
static sem_t server_lets, server_asked;
static atomic_int server_answer;

/* Takes the place of the C library's in this program; digits are still its own affair. */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **found)
{
    static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    int answer;

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if ((hints->ai_flags & AI_NUMERICHOST) != 0)
        return real(host, port, hints, found);
    sem_post(&server_asked);
    while (sem_wait(&server_lets) < 0 && errno == EINTR)
        ;
    answer = atomic_load(&server_answer);
    return answer != 0 ? answer : real("127.0.0.7", port, hints, found);
}

struct asker {
    struct resolve resolve;
    int answers;
    int error;
    char address[64];
};

static struct reactor reactor;

static void on_done(struct resolve *resolve, int error, struct addrinfo *found)
{
    struct asker *asker = list_entry(resolve, struct asker, resolve);

    asker->answers++;
    asker->error = error;
    if (error != 0)
        return;
    getnameinfo(found->ai_addr, found->ai_addrlen, asker->address, sizeof(asker->address), NULL, 0,
                NI_NUMERICHOST);
    freeaddrinfo(found);
}

static void asker_start(struct asker *asker, const char *host)
{
    *asker = (struct asker){0};
    resolve_init(&asker->resolve, &reactor, on_done);
    resolve_start(&asker->resolve, host, "7400");
}

static void asker_await(struct asker *asker)
{
    uint64_t deadline = clock_now() + DEADLINE_MS * CLOCK_NS_PER_MS;

    while (asker->answers == 0 && clock_now() < deadline)
        reactor_wait(&reactor, 10);
    assert_int_equal(asker->answers, 1);
}

static void server_await_question(void)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += DEADLINE_MS / 1000;
    assert_int_equal(sem_timedwait(&server_asked, &until), 0);
}

static void digits_are_answered_at_once(void **state)
{
    struct asker asker;

    (void)state;
    asker_start(&asker, "127.0.0.1");
    assert_int_equal(asker.answers, 1);
    assert_string_equal(asker.address, "127.0.0.1");
    asker_start(&asker, "::1");
    assert_int_equal(asker.answers, 1);
    assert_string_equal(asker.address, "::1");
}

static void a_name_is_answered_later_and_once(void **state)
{
    struct asker asker;

    (void)state;
    atomic_store(&server_answer, 0);
    asker_start(&asker, "host.test");
    server_await_question(); /* in its own thread: resolve_start has returned */
    assert_int_equal(asker.answers, 0);
    assert_int_equal(reactor_wait(&reactor, 0), 0);
    sem_post(&server_lets);
    asker_await(&asker);
    assert_int_equal(asker.error, 0);
    assert_string_equal(asker.address, "127.0.0.7");
}

static void an_error_of_the_name_server_is_told(void **state)
{
    struct asker asker;

    (void)state;
    atomic_store(&server_answer, EAI_NONAME);
    asker_start(&asker, "nobody.test");
    server_await_question();
    sem_post(&server_lets);
    asker_await(&asker);
    assert_int_equal(asker.error, EAI_NONAME);
    atomic_store(&server_answer, 0);
}

/* Whoever asked is gone before the answer: nothing may be called, used after free, or leaked. */
static void a_stopped_lookup_answers_nobody(void **state)
{
    struct asker other;
    struct asker *asker = test_calloc(1, sizeof(*asker));

    (void)state;
    asker_start(asker, "slow.test");
    server_await_question();
    resolve_stop(&asker->resolve);
    assert_int_equal(asker->answers, 0);
    test_free(asker);

    asker_start(&other, "fast.test");
    server_await_question();
    sem_post(&server_lets);
    sem_post(&server_lets);
    asker_await(&other);
    assert_int_equal(other.error, 0);
}

/* Threads are bounded, and the bound is felt as a temporary failure, not as a hang. */
static void too_many_names_at_once_are_refused_for_now(void **state)
{
    static struct asker askers[200];
    size_t waiting = 0, refused = 0;

    (void)state;
    for (size_t i = 0; i < 200; i++) {
        asker_start(&askers[i], "slow.test");
        waiting += askers[i].answers == 0;
        if (askers[i].answers == 1) {
            assert_int_equal(askers[i].error, EAI_AGAIN);
            refused++;
        }
    }
    assert_true(waiting > 0 && refused > 0);
    for (size_t i = 0; i < waiting; i++) {
        server_await_question();
        sem_post(&server_lets);
    }
    for (size_t i = 0; i < 200; i++)
        asker_await(&askers[i]);
}

static int set_up(void **state)
{
    (void)state;
    return sem_init(&server_lets, 0, 0) < 0 || sem_init(&server_asked, 0, 0) < 0 ||
           reactor_init(&reactor) < 0;
}

static int tear_down(void **state)
{
    (void)state;
    reactor_fini(&reactor);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digits_are_answered_at_once),
        cmocka_unit_test(a_name_is_answered_later_and_once),
        cmocka_unit_test(an_error_of_the_name_server_is_told),
        cmocka_unit_test(a_stopped_lookup_answers_nobody),
        cmocka_unit_test(too_many_names_at_once_are_refused_for_now),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
