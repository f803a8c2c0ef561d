/* Which supervisor serves the engine: the one of the environment, else a private one. */
#include <stdio.h>
#include <time.h>

#include "client/compat/mooncake/engine.h"
#include "client/compat/mooncake/environment.h"
#include "client/compat/mooncake/private.h"

#define ATTACH_MS                                                                   \
    20000u /* until a private supervisor serves us, other processes' tries included \
            */
#define PAUSE_NS   20000000l
#define TEXT_BYTES 1024u

static int attach_at(struct engine *engine, const char *socket)
{
    const struct tesup_options options = {.socket = socket};

    return tesup_attach(&options, &engine->session);
}

/* Many processes may start at once: the supervisor's own lock lets one of them win, and the others
 * find it in the next round.  One that is just leaving makes room for the next. */
static int private_attach(struct engine *engine, const char *call, char *text)
{
    uint64_t deadline = clock_now() + ATTACH_MS * CLOCK_NS_PER_MS;
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    char directory[PRIVATE_PATH_MAX], socket[PRIVATE_PATH_MAX];
    bool started = false;
    int rc;

    if (private_place(directory, socket, text, TEXT_BYTES) < 0)
        return TESUP_ERR_SYSTEM;
    for (;;) {
        if (!private_is_ours(directory, text, TEXT_BYTES))
            return TESUP_ERR_DENIED;
        rc = attach_at(engine, socket);
        if (rc != TESUP_ERR_NO_DAEMON || clock_now() >= deadline)
            break;
        if (private_start(directory, engine->host, engine->force_tcp, text, TEXT_BYTES) == 0)
            started = true;
        else
            nanosleep(&pause, NULL);
    }
    if (rc == TESUP_OK && started)
        say(LOG_LEVEL_WARNING, call,
            "no supervisor ran, so a private one was started (%s); TESUP_AUTOSTART=0 forbids that",
            socket);
    else if (rc != TESUP_OK && text[0] == '\0')
        snprintf(text, TEXT_BYTES, "%s", tesup_last_error());
    return rc;
}

int daemon_attach(struct engine *engine, const struct environment *environment, const char *call)
{
    char text[TEXT_BYTES] = "";
    int rc = attach_at(engine, NULL);

    if (rc == TESUP_OK) {
        environment_compare(tesup_notify_max(engine->session) > TESUP_NOTIFY_MAX);
        return 0;
    }
    snprintf(text, sizeof(text), "%s", tesup_last_error());
    if (rc == TESUP_ERR_NO_DAEMON && environment->autostart) {
        engine->private_daemon = true;
        engine->force_tcp = environment->force_tcp;
        text[0] = '\0';
        rc = private_attach(engine, call, text);
    }
    return rc == TESUP_OK ? 0 : refuse(code_of_tesup(rc), call, "%s", text);
}

/* The library attaches to the successor by itself, as it has the same socket. */
int daemon_restart(struct engine *engine, const char *call)
{
    char directory[PRIVATE_PATH_MAX], socket[PRIVATE_PATH_MAX], text[TEXT_BYTES];
    uint64_t now = clock_now();

    if (!engine->private_daemon || now < engine->restart_at)
        return TESUP_ERR_NO_DAEMON;
    engine->restart_at = now + CLOCK_NS_PER_S;
    slot_release(engine);
    if (private_place(directory, socket, text, sizeof(text)) == 0 &&
        private_is_ours(directory, text, sizeof(text)) &&
        private_start(directory, engine->host, engine->force_tcp, text, sizeof(text)) == 0)
        say(LOG_LEVEL_WARNING, call, "the private supervisor had ended; it was started again");
    slot_retake(engine);
    return TESUP_OK;
}
