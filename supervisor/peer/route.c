#include "supervisor/peer/route.h"

#include <stdio.h>
#include <string.h>

#include "shm/err.h"
#include "supervisor/job/job.h"
#include "supervisor/supervisor.h"

int peer_route(struct peer_gate *gate, const struct peer_guest *guest, char *text, size_t text_size)
{
    struct supervisor *supervisor = list_entry(gate, struct supervisor, gate);
    const char *segment = guest->hello.segment;
    const struct registry_entry *entry = registry_find(&supervisor->registry, segment);
    const struct job *job = entry != NULL ? list_entry(entry, struct job, segment) : NULL;
    struct wire_message message;

    if (job == NULL || job->state == JOB_ENDING) {
        snprintf(text, text_size, "no process offers segment %s", segment);
        return TS_ERR_NOT_FOUND;
    }
    if (job->state != JOB_OPEN || !job->served) {
        snprintf(text, text_size, "worker %s of segment %s is restarting", job->worker->pair->name,
                 segment);
        return TS_AGAIN;
    }
    wire_message_init(&message, WIRE_PEER_SOCKET);
    message.header.session = job->handle;
    memcpy(message.body.peer.challenge, guest->challenge, sizeof(message.body.peer.challenge));
    message.body.peer.hello_len = (uint32_t)guest->hello_size;
    memcpy(message.body.peer.hello, guest->hello_bytes, guest->hello_size);
    message.fds[0] = guest->fd;
    message.fd_count = 1;
    worker_link_send(&job->worker->link, &message);
    return TS_OK;
}
