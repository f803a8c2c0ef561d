#include "supervisor/status/words.h"

#include <stdio.h>
#include <string.h>

#define NAMES_MAX 8u /* ways there may be at most; more are not listed */
#define WAY_MAX   16

#define QUEUES_SHOWN 2u /* data queue pairs of an endpoint; the others are in --json */

/* Distinct short names in the order of their first appearance. */
struct names {
    size_t count;
    char name[NAMES_MAX][WAY_MAX];
};

/* Up to the first ':'; behind it stands a reason. */
static void names_add(struct names *names, const char *text)
{
    size_t length = strcspn(text, ":");

    if (length == 0 || length >= WAY_MAX || text[0] == '-')
        return;
    for (size_t i = 0; i < names->count; i++)
        if (strlen(names->name[i]) == length && memcmp(names->name[i], text, length) == 0)
            return;
    if (names->count == NAMES_MAX)
        return;
    memcpy(names->name[names->count], text, length);
    names->name[names->count++][length] = '\0';
}

static void names_join(const struct names *names, const char *joint, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < names->count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? joint : "", names->name[i]);
}

static bool leads_to_others(const struct counters_endpoint *endpoint)
{
    return atomic_peek(&endpoint->used) && strcmp(endpoint->fabric, "self") != 0;
}

void status_words_fabric(const struct counters_worker *worker, char *text, size_t size)
{
    struct names names = {0};

    for (size_t i = 0; i < COUNTERS_ENDPOINTS; i++)
        if (leads_to_others(&worker->endpoint[i]))
            names_add(&names, worker->endpoint[i].fabric);
    if (names.count == 0)
        snprintf(text, size, "%s", worker->life.fabric);
    else
        names_join(&names, "+", text, size);
}

/* Before anybody is connected. */
static void names_add_possible(struct names *names, const struct status *status)
{
    const struct counters_worker *worker = NULL;

    if (strcmp(status->seen->supervisor.fabric, "auto") == 0)
        names_add(names, "local"); /* which is taken where it can be */
    while ((worker = status_worker_next(status, worker)))
        names_add(names, worker->life.fabric);
}

void status_words_carried(const struct status *status, char *text, size_t size)
{
    const struct counters_worker *worker = NULL;
    struct names names = {0};

    while ((worker = status_worker_next(status, worker)))
        for (size_t i = 0; i < COUNTERS_ENDPOINTS; i++)
            if (leads_to_others(&worker->endpoint[i]))
                names_add(&names, worker->endpoint[i].notify);
    if (names.count == 0)
        names_add_possible(&names, status);
    names_join(&names, ", ", text, size);
}

void status_words_notify(const struct counters_supervisor *supervisor,
                         const struct counters_endpoint *endpoint, char *text, size_t size)
{
    const char *why = "";

    if (strcmp(endpoint->notify, "tcp") == 0)
        why = supervisor->notify_native[0] == '0' ? " (native is switched off)"
                                                  : " (this fabric has no native way)";
    snprintf(text, size, "%s%s", endpoint->notify, why);
}

void status_words_queues(const struct counters_endpoint *endpoint, char *text, size_t size)
{
    uint32_t count =
        endpoint->data_queues < COUNTERS_QUEUES ? endpoint->data_queues : COUNTERS_QUEUES;
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < count && i < QUEUES_SHOWN; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%u-%u", i > 0 ? ", " : "; QPs ",
                                 endpoint->data_queue[i].own, endpoint->data_queue[i].peer);
    if (count > QUEUES_SHOWN)
        used += (size_t)snprintf(text + used, size - used, " and %u more", count - QUEUES_SHOWN);
    if (endpoint->notify_queue.own != 0)
        snprintf(text + used, size - used, "%snotification QP %u-%u", count > 0 ? ", " : "; ",
                 endpoint->notify_queue.own, endpoint->notify_queue.peer);
}

enum status_colour status_worker_colour(const struct status *status,
                                        const struct counters_worker *worker)
{
    if (status_worker_halt(status, worker))
        return STATUS_COLOUR_BAD;
    switch (atomic_peek(&worker->life.state)) {
    case WORKER_STATE_READY:
        return STATUS_COLOUR_GOOD;
    case WORKER_STATE_STARTING:
    case WORKER_STATE_BACKOFF:
    case WORKER_STATE_DRAINING:
        return STATUS_COLOUR_CHANGING;
    default:
        return STATUS_COLOUR_BAD;
    }
}
