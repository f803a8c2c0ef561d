/* The receiving job: offers memory, checks what is written there, fills in what is read. */
#include "job.h"

/* Opens the sender's segment, so that it can be answered, and watches it. */
static tesup_remote_t sender_open(struct tesup_session *session,
                                  const struct tesup_notification *hello)
{
    tesup_remote_t remote;
    char name[512];

    snprintf(name, sizeof(name), "%.*s", (int)hello->from_len, hello->from);
    job_check(tesup_segment_open(session, name, &remote), name);
    job_check(tesup_segment_watch(session, remote), name);
    return remote;
}

int main(int argc, char **argv)
{
    const struct tesup_options options = {.segment = argc > 1 ? argv[1] : "receiver"};
    uint64_t length = job_size(argc > 2 ? argv[2] : "64M");
    struct tesup_session *session;
    struct tesup_request answer = {.op = TESUP_OP_NOTIFY};
    struct note offer = {.length = length};
    void *memory;

    job_check(tesup_attach(&options, &session), "attach");
    struct tesup_channel *channel = tesup_channel_main(session);
    job_check(tesup_mem_alloc(session, length, TESUP_ACCESS_REMOTE_READ | TESUP_ACCESS_REMOTE_WRITE,
                              &memory, &offer.region),
              "memory");
    printf("receiver %s\n", tesup_segment_name(session));
    fflush(stdout);
    for (;;) {
        /* The sender may come as late as it likes; once it is here, its end is an event. */
        struct tesup_notification next = job_next(channel, -1);
        struct note note = {.length = 0};
        if (next.msg_len == sizeof(note))
            memcpy(&note, next.msg, sizeof(note));
        if (note.length > length)
            job_check(TESUP_ERR_INVALID, "the sender's block is larger than this memory");
        if (job_is(&next, "hello")) {
            answer.remote = sender_open(session, &next);
            job_do(channel, answer, "memory", &offer);
        } else if (job_is(&next, "written")) { /* bound to a WRITE: the block is in place */
            note.verified = job_verify(memory, note.length, note.seed);
            job_do(channel, answer, "checked", &note);
        } else if (job_is(&next, "fill")) {
            job_fill(memory, note.length, note.seed);
            job_do(channel, answer, "filled", &note);
        } else if (job_is(&next, "read")) { /* bound to a READ: the block may be reused */
            memset(memory, 0, note.length);
            job_do(channel, answer, "reusable", &note);
        } else if (job_is(&next, "bye")) {
            break;
        }
        job_check(tesup_notify_release(channel), "release");
    }
    tesup_detach(session);
    return 0;
}
