#include "worker/fabric/fabric.h"

#include "worker/endpoint.h"

void link_init(struct link *link, const struct link_ops *ops, struct endpoint *endpoint)
{
    link->ops = ops;
    link->endpoint = endpoint;
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
