#include "worker/fabric/fabric.h"

#include "shm/err.h"
#include "worker/endpoint.h"

void link_init(struct link *link, const struct link_ops *ops, struct endpoint *endpoint)
{
    link->ops = ops;
    link->endpoint = endpoint;
    link->notify_text = ops->notify;
    link->notify_status = TS_OK;
    list_init(&link->busy);
    list_init(&link->polled);
    if (ops->poll != NULL)
        list_append(&endpoint->worker->polled_links, &link->polled);
}

void link_wake(struct link *link)
{
    if (list_empty(&link->busy))
        list_append(&link->endpoint->worker->busy_links, &link->busy);
}

void link_flush_once(struct link *link)
{
    link->ops->do_work(link);
}
