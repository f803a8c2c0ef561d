#include "tests/harness/worker/pair.h"

#include <string.h>

#include "shm/err.h"

struct host *pair_owner_host(struct pair *pair)
{
    return pair->fabric == PAIR_SELF ? &pair->a : &pair->b;
}

static struct endpoint *pair_link(struct pair *pair)
{
    switch (pair->fabric) {
    case PAIR_SELF:
        return pair->a.worker.self;
    case PAIR_TCP:
        pair->link = host_link_tcp(&pair->a, &pair->b);
        break;
    case PAIR_LOCAL:
        pair->link = host_link_local(&pair->a, &pair->b);
        break;
    case PAIR_VERBS:
        pair->link = host_link_verbs(&pair->a, &pair->b);
        break;
    }
    return pair->link.a;
}

void pair_prepare(struct pair *pair, enum pair_fabric fabric)
{
    memset(pair, 0, sizeof(*pair));
    pair->fabric = fabric;
    pair->config_a = host_config("a");
    pair->config_b = host_config("b");
    if (fabric != PAIR_VERBS)
        return;
    fake_reset();
    pair->device_a = fake_device_add("fake0");
    pair->device_b = fake_device_add("fake1");
    pair->config_a = host_config_verbs("a", "fake0");
    pair->config_b = host_config_verbs("b", "fake1");
}

void pair_start(struct pair *pair)
{
    const struct job_shape user = {
        .handle = 1, .segment = "user", .notify_max = pair->config_a.notify_max};
    const struct job_shape owner = {
        .handle = 2, .segment = "owner", .notify_max = pair->config_b.notify_max};

    host_start(&pair->a, &pair->config_a);
    if (pair->fabric != PAIR_SELF)
        host_start(&pair->b, &pair->config_b);
    job_attach(&pair->user, &pair->a, &user);
    job_attach(&pair->owner, pair_owner_host(pair), &owner);
    pair->here = job_memory(&pair->user, 0, PAIR_MEMORY, REGION_ACCESS_MASK);
    pair->there = job_memory(&pair->owner, 0, PAIR_MEMORY, REGION_ACCESS_MASK);
    pair->remote = job_open(&pair->user, 0, pair_link(pair), "owner", 100);
    host_until(pair->remote->state == REMOTE_OPEN);
}

void pair_begin(struct pair *pair, enum pair_fabric fabric)
{
    pair_prepare(pair, fabric);
    pair_start(pair);
}

void pair_end(struct pair *pair)
{
    job_detach(&pair->user);
    job_detach(&pair->owner);
    host_turns(2);
    host_end_endpoints(&pair->a);
    if (pair->fabric != PAIR_SELF) {
        host_end_endpoints(&pair->b);
        host_stop(&pair->b);
    }
    host_stop(&pair->a);
}

struct sqe pair_move(enum sqe_op op, uint64_t offset, uint64_t length)
{
    return (struct sqe){.op = (uint8_t)op,
                        .length = length,
                        .local_region = JOB_HANDLE(0),
                        .local_offset = offset,
                        .remote_region = JOB_HANDLE(0),
                        .remote_offset = offset,
                        .remote = JOB_HANDLE(0)};
}

void pair_fill(uint8_t *bytes, size_t size, uint8_t seed)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(seed + i + (i >> 8) + (i >> 16));
}
