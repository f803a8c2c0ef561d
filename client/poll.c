/* Completions: taking them, and sleeping until there are some. */
#include <errno.h>
#include <poll.h>

#include "client/internal.h"

#define WAIT_NAP_MS 20 /* while channel_tend says that others are at work */

static void completion_fill(struct tesup_completion *completion, const struct slot_note *note,
                            int status, uint64_t bytes)
{
    *completion = (struct tesup_completion){.cookie = note->cookie,
                                            .ticket = note->ticket,
                                            .bytes = bytes,
                                            .status = status,
                                            .op = note->op};
}

/* A completion is believed only about a request that is in flight. */
static bool cqe_take(struct tesup_channel *channel, struct tesup_completion *completion)
{
    const struct slot_note *note;
    struct cqe cqe;

    ring_slot_read(&channel->cq, &cqe, sizeof(cqe));
    if (cqe.slot >= channel->slots)
        return false;
    note = &channel->notes[cqe.slot];
    if (!note->used || note->ticket != cqe.ticket || cqe.status > TS_AGAIN ||
        cqe.status < TS_ERR_LAST)
        return false;
    completion_fill(completion, note, cqe.status, cqe.bytes);
    channel_slot_release(channel, cqe.slot);
    channel->cq.head++;
    return true;
}

static int poll_ring(struct tesup_channel *channel, struct tesup_completion *completions,
                     uint32_t max)
{
    uint32_t count = 0;

    while (count < max) {
        uint64_t ready;

        if (ring_consumer_ready(&channel->cq, &ready) != TS_OK)
            goto err_break;
        if (ready == 0) {
            ring_slot_prefetch(&channel->cq, sizeof(struct cqe));
            break;
        }
        for (; ready > 0 && count < max; ready--, count++)
            if (!cqe_take(channel, &completions[count]))
                goto err_break;
    }
    ring_consumer_publish(&channel->cq);
    return (int)count;

err_break:
    channel_break(channel, "the completion ring is impossible");
    return (int)count;
}

/* What the worker cannot answer any more. */
static int poll_settle(struct tesup_channel *channel, struct tesup_completion *completions,
                       uint32_t max)
{
    uint32_t count = 0;

    for (uint32_t slot = 0; slot < channel->slots && count < max; slot++) {
        if (!channel->notes[slot].used)
            continue;
        completion_fill(&completions[count++], &channel->notes[slot], TS_ERR_UNCERTAIN, 0);
        channel_slot_release(channel, slot);
    }
    return (int)count;
}

/* Nothing was in the ring, and it is not served any more. */
static int poll_left(struct tesup_channel *channel, struct tesup_completion *completions,
                     uint32_t max)
{
    int rc = channel_tend(channel);

    if (channel->settling && channel->in_flight > 0)
        return poll_settle(channel, completions, max);
    if (rc == TS_ERR_NO_DAEMON)
        return TS_ERR_GONE; /* the sentence is there */
    return rc < TS_OK ? rc : 0;
}

int tesup_poll(struct tesup_channel *channel, struct tesup_completion *completions, uint32_t max)
{
    int rc = channel_guard(channel);

    if (rc == TS_OK && (completions == NULL && max > 0))
        rc = error_set(TS_ERR_INVALID, "tesup_poll needs a place for %u completions", max);
    if (rc != TS_OK)
        return rc;
    if (!channel->broken && !channel->settling)
        rc = poll_ring(channel, completions, max);
    if (rc > 0)
        return rc;
    if (!channel_live(channel))
        return poll_left(channel, completions, max);
    channel_idle(channel);
    return 0;
}

/* Sleeping costs more than the worker usually needs. */
static bool wait_spin(struct tesup_channel *channel, uint64_t until)
{
    uint64_t since = clock_now(), now = since;

    if (since + channel->session->spin_ns < until)
        until = since + channel->session->spin_ns;
    while (now < until && spin_is_alone(&channel->spin, now)) {
        for (int i = 0; i < 16; i++) {
            if (channel_has_work(channel))
                return true;
            cpu_relax();
        }
        spin_pause(&channel->spin, since, now);
        now = clock_now();
    }
    return false;
}

/* Sleeps on the bell; with `live` also on the supervisor.  True when something happened that the
 * application may want to retry for. */
static bool wait_sleep(struct tesup_channel *channel, bool live, uint64_t until)
{
    struct tesup_session *session = channel->session;
    uint64_t opening = atomic_peek(&session->opening);
    struct pollfd wait[2] = {
        {.fd = channel->job_bell.fd, .events = POLLIN},
        {.fd = session->socket, .events = opening > 0 ? POLLIN : 0},
    };
    int ms = until == UINT64_MAX ? -1 : clock_ms_until(until, clock_now());

    if (!live && (ms < 0 || ms > WAIT_NAP_MS))
        ms = WAIT_NAP_MS;
    if (poll(wait, live ? 2 : 1, ms) <= 0)
        return false;
    channel->rung = (wait[0].revents & POLLIN) != 0;
    if (!live)
        return false;
    if ((wait[1].revents & POLLIN) != 0)
        control_collect(session);
    if ((wait[1].revents & (POLLHUP | POLLERR)) != 0)
        session_lose(session, channel->attachment);
    return atomic_peek(&session->opening) < opening;
}

/* A bell that rang is read before the next sleep, not on the way of what it announced. */
static void wait_arm(struct tesup_channel *channel)
{
    if (channel->rung)
        doorbell_drain(channel->job_bell.fd);
    channel->rung = false;
    doorbell_arm(&channel->job_bell);
}

/* One round of waiting. TS_OK when there is something, TS_AGAIN when not. */
static int wait_round(struct tesup_channel *channel, bool spin, uint64_t until)
{
    int rc = channel_tend(channel);
    bool live = rc == TS_OK;

    if (rc == TS_ERR_NO_DAEMON)
        return TS_ERR_GONE; /* the sentence is there */
    if (rc < TS_OK)
        return rc;
    if (live)
        session_grant_again(channel);
    if (channel_has_work(channel))
        return TS_OK;
    if (live && spin && channel->session->spin_ns > 0 && wait_spin(channel, until))
        return TS_OK;
    wait_arm(channel);
    if (!channel_has_work(channel) && wait_sleep(channel, live, until))
        rc = TS_OK;
    else
        rc = TS_AGAIN;
    doorbell_disarm(&channel->job_bell);
    return channel_has_work(channel) ? TS_OK : rc;
}

int tesup_wait(struct tesup_channel *channel, int timeout_ms)
{
    uint64_t until = UINT64_MAX;
    bool spin = true;
    int rc = channel_guard(channel);

    if (rc != TS_OK)
        return rc;
    if (channel_has_work(channel))
        return TS_OK;
    if (timeout_ms >= 0)
        until = clock_now() + (uint64_t)timeout_ms * CLOCK_NS_PER_MS;
    for (;;) {
        rc = wait_round(channel, spin, until);
        if (rc != TS_AGAIN)
            return rc;
        if (until != UINT64_MAX && clock_now() >= until)
            return error_set(TS_ERR_TIMEOUT, "nothing arrived within %d ms", timeout_ms);
        spin = false;
    }
}

int tesup_fd(const struct tesup_channel *channel)
{
    int rc = channel_guard(channel);

    return rc != TS_OK ? rc : channel->epoll;
}

int tesup_arm(struct tesup_channel *channel)
{
    int rc = channel_guard(channel);

    if (rc != TS_OK)
        return rc;
    /* What rang before, and answers that nobody waits for, would keep the descriptor readable. */
    doorbell_drain(channel->job_bell.fd);
    control_collect(channel->session);
    rc = channel_tend(channel);
    if (rc < TS_OK)
        return rc == TS_ERR_NO_DAEMON ? TS_ERR_GONE : rc;
    doorbell_arm(&channel->job_bell);
    if (!channel_has_work(channel))
        return TS_OK;
    doorbell_disarm(&channel->job_bell);
    return TS_AGAIN;
}
