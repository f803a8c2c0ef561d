/* Groups: several transfers and one notification for all of them.
 *
 * A channel collects the requests that say MORE; the next one that does not becomes their leader.
 * The leader's notification waits until none of them moves any more, and is sent only if all of
 * them are done.  A request leaves its group when its bytes have moved or never will.
 *
 *   [MORE] [MORE] [leader + notification]        in the order of the submission ring
 */
#ifndef TESUP_WORKER_GROUP_H
#define TESUP_WORKER_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/list.h"

struct request;

struct group {
    struct list members; /* struct request.member: still moving */
    uint64_t bytes;      /* moved by those that left */
    int16_t status;      /* of the first that failed; TS_OK: none has */
    bool open;           /* in a channel: its leader is still to come */
};

void group_init(struct group *group);
/* A new request of the channel: one more of the group that it collects, or its leader. */
void group_enter(struct request *request);
/* Its transfer has ended so. The last one to leave lets the leader's notification go. */
void group_leave(struct request *request, int status, uint64_t bytes);
/* Takes a request out that tells nobody any more, and those that it led. */
void group_forget(struct request *request);
/* The channel's last worker died while this group was collected: nobody knows how its members
 * ended. */
void group_adopt(struct group *group);

#endif
