/* `tesup serve`: the daemon's command line, readiness and exit code. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/command/cmd.h"
#include "supervisor/daemonize.h"
#include "supervisor/supervisor.h"

static int serve_starter = -1; /* pipe to the process that started us; -1 in the foreground */

static void serve_ready(struct supervisor *supervisor)
{
    char line[LAYOUT_NAME_MAX + 32];

    snprintf(line, sizeof(line), "listening on %s\n", supervisor->listener.address);
    if (serve_starter < 0) {
        fputs(line, stdout);
        fflush(stdout);
        return;
    }
    daemonize_done(serve_starter, line);
    serve_starter = -1;
}

static int serve_run(const struct serve_options *options)
{
    char text[OPTIONS_TEXT_MAX];
    struct supervisor *supervisor = calloc(1, sizeof(*supervisor));
    int code = EXIT_FAILURE;

    if (supervisor == NULL) {
        fprintf(stderr, "tesup serve: no memory\n");
        return EXIT_FAILURE;
    }
    supervisor->on_ready = serve_ready;
    if (supervisor_init(supervisor, options, text, sizeof(text)) < 0)
        fprintf(stderr, "tesup serve: %s\n", text);
    else if (supervisor_run(supervisor) < 0)
        fprintf(stderr, "tesup serve: the loop ended: %s\n", strerror(errno));
    else
        code = EXIT_SUCCESS;
    supervisor_fini(supervisor);
    free(supervisor);
    return code;
}

int cmd_serve(int argc, char **argv)
{
    static struct serve_options options;
    char who[sizeof(options.name) + 8];
    int rc = options_parse(argc, argv, &options);

    if (rc != 0)
        return rc;
    snprintf(who, sizeof(who), "tesup %s", options.name);
    log_init(who);
    daemonize_streams();
    if (!options.foreground) {
        serve_starter = daemonize_begin();
        if (serve_starter < 0) {
            fprintf(stderr, "tesup serve: cannot go to the background: %s\n", strerror(errno));
            return EXIT_FAILURE;
        }
    }
    return serve_run(&options);
}
