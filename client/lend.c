/* A channel that a kernel uses instead of this library: lent, woken for, and taken back. */
#include "client/internal.h"

int tesup_channel_lend(struct tesup_channel *channel, struct tesup_lent *lent)
{
    int rc = channel_guard(channel);

    if (rc == TS_OK && lent == NULL)
        rc = error_set(TS_ERR_INVALID, "tesup_channel_lend needs a place for what is lent");
    if (rc != TS_OK)
        return rc;
    if (channel->in_flight > 0)
        return error_set(TS_ERR_INVALID, "%u requests are in flight: take their completions first",
                         channel->in_flight);
    rc = channel_tend(channel);
    if (rc != TS_OK)
        return rc;
    /* A kernel cannot translate handles, as the library does when a new supervisor gave new ones.
     */
    if (atomic_peek(&channel->session->moved) != 0)
        return error_set(TS_ERR_UNSUPPORTED,
                         "this session outlived a supervisor, and a kernel would use its old "
                         "handles: attach again");
    channel->lent = true;
    *lent = (struct tesup_lent){.base = channel->map.header, .size = channel->map.size};
    return TS_OK;
}

int tesup_channel_wake(struct tesup_channel *channel)
{
    int rc = session_guard(channel != NULL ? channel->session : NULL);

    if (rc != TS_OK || channel == NULL)
        return rc;
    if (!channel->lent)
        return error_set(TS_ERR_INVALID, "the channel is not lent");
    doorbell_ring(&channel->worker_bell);
    doorbell_ring(&channel->nrx_bell);
    return TS_OK;
}

/* What the kernel published is where the library goes on. */
int tesup_channel_reclaim(struct tesup_channel *channel)
{
    struct channel_header *header;
    uint64_t posted, taken;
    int rc = session_guard(channel != NULL ? channel->session : NULL);

    if (rc != TS_OK || channel == NULL)
        return rc;
    if (!channel->lent)
        return error_set(TS_ERR_INVALID, "the channel is not lent");
    header = channel->map.header;
    posted = atomic_observe(&header->sq_words.tail) - channel->sq.tail;
    taken = atomic_observe(&header->cq_words.head) - channel->cq.head;
    if (posted != taken && channel_live(channel))
        return error_set(TS_ERR_INVALID,
                         "the kernel posted %llu requests and took %llu completions: let it take "
                         "the others first",
                         (unsigned long long)posted, (unsigned long long)taken);
    channel->sq.tail = channel->sq.published = channel->sq.tail + posted;
    channel->sq.head = atomic_observe(&header->sq_words.head);
    channel->cq.head = channel->cq.published = channel->cq.tail = channel->cq.head + taken;
    channel->ntx.tail = channel->ntx.published = atomic_observe(&header->ntx_words.tail);
    channel->ntx.head = atomic_observe(&header->ntx_words.head);
    channel->nrx.head = channel->nrx.published = atomic_observe(&header->nrx_words.head);
    channel->nrx.tail = channel->nrx.head;
    channel->lent = false;
    return TS_OK;
}
