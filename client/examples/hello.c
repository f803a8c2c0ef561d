/* The smallest job: a WRITE with a notification, here to its own segment. */
#include <stdio.h>
#include <string.h>
#include <tesup.h>

int main(void)
{
    struct tesup_request work = {.op = TESUP_OP_WRITE, .length = 4096, .remote_offset = 4096};
    struct tesup_session *session;
    struct tesup_notification note;
    uint32_t accepted;
    void *memory;

    if (tesup_attach(NULL, &session) ||
        tesup_mem_alloc(session, 8192, TESUP_ACCESS_REMOTE_WRITE, &memory, &work.local_region) ||
        tesup_segment_open(session, tesup_segment_name(session), &work.remote))
        return fprintf(stderr, "%s\n", tesup_last_error()), 1;
    memcpy(memory, "block 17 is there", 18);
    work.remote_region = work.local_region;
    work.name = "hello", work.name_len = 5;
    int code = tesup_submit(tesup_channel_main(session), &work, 1, NULL, &accepted);
    while (!code && (code = tesup_notify_peek(tesup_channel_main(session), &note)) == TESUP_AGAIN)
        code = tesup_wait(tesup_channel_main(session), 5000);
    printf("%s\n", code ? tesup_last_error() : (char *)memory + 4096);
    tesup_detach(session);
    return code != 0;
}
