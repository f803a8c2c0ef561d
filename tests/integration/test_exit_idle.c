/* `tesup serve --exit-when-idle`: stays while a job is attached, goes when the last one is gone. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <unistd.h>

#include "tests/harness/command.h"
#include "tests/harness/party.h"

#define STAY_MS 2500u

static void serve_start(struct command *command, char *socket, size_t size)
{
    char words[512], address[64];

    snprintf(words, sizeof(words),
             TESUP_BIN_DIR "/tesup serve --foreground --listen 127.0.0.1:0 --workers 1 "
                           "--exit-when-idle 1s --runtime-dir %s/run --peer-key %s/key",
             command_scratch(), command_scratch());
    command_start(command, words);
    command_line_wait(command, "listening on ", address, sizeof(address));
    snprintf(socket, size, "%s/run/default.sock", command_scratch());
}

static void expect_end(struct command *command)
{
    char key[128];

    command_end(command);
    command_expect_code(command, 0);
    command_expect_text(command->err, "no job is attached");
    snprintf(key, sizeof(key), "%s/key", command_scratch());
    assert_int_equal(unlink(key), 0);
    command_expect_nothing_left();
}

static void goes_with_the_last_job(void **state)
{
    static struct command command;
    struct tesup_options options = {0};
    struct party party;
    char socket[128];

    (void)state;
    serve_start(&command, socket, sizeof(socket));
    options.socket = socket;
    party_check(tesup_attach(&options, &party.session), "attach");
    party.channel = tesup_channel_main(party.session);
    party_expect_silence(party.channel, STAY_MS);
    assert_int_equal(access(socket, F_OK), 0);
    party_detach(&party);
    expect_end(&command);
}

static void goes_when_nobody_comes(void **state)
{
    static struct command command;
    char socket[128];

    (void)state;
    serve_start(&command, socket, sizeof(socket));
    expect_end(&command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_with_the_last_job),
        cmocka_unit_test(goes_when_nobody_comes),
    };

    return cmocka_run_group_tests_name("exit when idle", tests, command_scratch_create,
                                       command_scratch_remove);
}
