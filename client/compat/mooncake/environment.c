#include "client/compat/mooncake/environment.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "client/compat/mooncake/say.h"

#define TIMEOUT_MS    60000u /* like that of the supervisor */
#define TIMEOUT_S_MAX 86400ul

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* True when it is set to 0, 1, true or false; else *value stays. */
static bool boolean_read(const char *name, bool *value)
{
    const char *text = variable(name);

    if (text == NULL)
        return false;
    if (strcmp(text, "1") == 0 || strcasecmp(text, "true") == 0) {
        *value = true;
        return true;
    }
    if (strcmp(text, "0") == 0 || strcasecmp(text, "false") == 0) {
        *value = false;
        return true;
    }
    say(LOG_LEVEL_WARNING, name, "'%.40s' is ignored; 0, 1, true and false are possible", text);
    return false;
}

/* Elsewhere these are on as soon as they are set, also to 0. */
static bool presence_read(const char *name)
{
    bool value = false;

    if (boolean_read(name, &value) && !value)
        say(LOG_LEVEL_WARNING, name, "0 turns it off here; elsewhere any value turns it on");
    return value;
}

static uint32_t timeout_read(void)
{
    const char *text = variable("MC_TRANSFER_TIMEOUT");
    unsigned long seconds;
    char *end;

    if (text == NULL)
        return 0;
    seconds = strtoul(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && seconds >= 1 &&
        seconds <= TIMEOUT_S_MAX)
        return (uint32_t)seconds * 1000;
    say(LOG_LEVEL_WARNING, "MC_TRANSFER_TIMEOUT",
        "'%.40s' is ignored; 1 to %lu seconds are possible", text, TIMEOUT_S_MAX);
    return 0;
}

void environment_read(struct environment *environment)
{
    bool autostart = true;

    boolean_read("TESUP_AUTOSTART", &autostart);
    *environment = (struct environment){.deadline_ms = timeout_read(),
                                        .ipv6 = presence_read("MC_USE_IPV6"),
                                        .fixed_port = presence_read("MC_LEGACY_RPC_PORT_BINDING"),
                                        .force_tcp = presence_read("MC_FORCE_TCP"),
                                        .autostart = autostart};
    environment->timeout_ms = environment->deadline_ms != 0 ? environment->deadline_ms : TIMEOUT_MS;
    if (variable("MC_CUSTOM_TOPO_JSON") != NULL)
        say_once(
            LOG_LEVEL_WARNING, "MC_CUSTOM_TOPO_JSON",
            "it is not read: which NIC serves whom is the supervisor's plan (`tesup topology`, "
            "[pair] in its config file, TESUP_PAIR)");
}

void environment_compare(bool oob_fallback)
{
    static const char *const theirs[] = {"MC_RDMA_NOTIFY_ENABLED", "MC_FORCE_TCP", "MC_GID_INDEX",
                                         "MC_MTU"};
    bool value;

    for (size_t i = 0; i < sizeof(theirs) / sizeof(theirs[0]); i++)
        if (variable(theirs[i]) != NULL)
            say(LOG_LEVEL_WARNING, theirs[i],
                "it is for the supervisor, which runs already with settings of its own (`tesup "
                "status`); what is set here has no effect");
    if (boolean_read("MC_RDMA_NOTIFY_OOB_FALLBACK", &value) && value != oob_fallback)
        say(LOG_LEVEL_WARNING, "MC_RDMA_NOTIFY_OOB_FALLBACK",
            "it is %d here and %d at the supervisor, which runs already; the supervisor's counts",
            value, oob_fallback);
}
