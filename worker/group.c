#include "worker/group.h"

#include "shm/err.h"
#include "worker/channel.h"

void group_init(struct group *group)
{
    *group = (struct group){.status = TS_OK};
    list_init(&group->members);
}

static void group_lead(struct request *request, struct group *collected)
{
    struct group *group = &request->group;

    group->bytes = collected->bytes;
    group->status = collected->status;
    list_each (node, following, &collected->members) {
        list_remove(node);
        list_append(&group->members, node);
        list_entry(node, struct request, member)->leader = request;
    }
    group_init(collected);
}

void group_enter(struct request *request)
{
    struct group *collected = &request->channel->group;

    if ((request->flags & SQE_FLAG_MORE) != 0) {
        collected->open = true;
        list_append(&collected->members, &request->member);
    } else if (collected->open) {
        group_lead(request, collected);
    }
}

void group_leave(struct request *request, int status, uint64_t bytes)
{
    struct request *leader = request->leader;
    struct group *group = leader != NULL ? &leader->group : &request->channel->group;

    if (list_empty(&request->member))
        return;
    list_remove(&request->member);
    request->leader = NULL;
    group->bytes += bytes;
    if (status != TS_OK && group->status == TS_OK)
        group->status = (int16_t)status;
    if (leader != NULL && list_empty(&group->members))
        request_try_notify(leader);
}

void group_forget(struct request *request)
{
    list_remove(&request->member);
    request->leader = NULL;
    list_each (node, following, &request->group.members) {
        list_remove(node);
        list_entry(node, struct request, member)->leader = NULL;
    }
}

void group_adopt(struct group *group)
{
    group->open = true;
    group->status = TS_ERR_UNCERTAIN;
}
