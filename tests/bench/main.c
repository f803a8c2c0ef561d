/* bench-figures: measures what docs/performance.md shows.  scripts/bench builds and starts it. */
#include "tests/bench/bench.h"

#include <argp.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/report.h"

#define GROUP_LIMIT_S 120u

bool bench_quick;

static struct {
    const char *only, *json, *commit;
    bool markdown;
} options = {.only = ".", .commit = "unknown"};

static const struct {
    const char *name;
    CMUnitTestFunction function;
} groups[] = {
    {"echo-spin", echo_spin},
    {"echo-sleep", echo_sleep},
    {"rate-nop", rate_nop},
    {"rate-notify", rate_notify},
    {"write-small", write_small},
    {"write-tcp", write_bulk_tcp},
    {"write-host", write_bulk_host},
    {"mixed", mixed_latency},
    {"idle", idle_cost},
    {"attach", attach_time},
    {"growth-jobs", growth_jobs},
    {"growth-endpoints", growth_endpoints},
    {"calls", calls_per_operation},
};
#define GROUP_COUNT (sizeof(groups) / sizeof(groups[0]))

static const char *running = "nothing";

unsigned bench_reps(void)
{
    return bench_quick ? 1 : 7;
}

uint64_t bench_sample_ns(void)
{
    return (bench_quick ? 5 : 100) * CLOCK_NS_PER_MS;
}

static error_t option_take(int key, char *argument, struct argp_state *state)
{
    (void)state;
    switch (key) {
    case 'q':
        bench_quick = true;
        return 0;
    case 'o':
        options.only = argument;
        return 0;
    case 'j':
        options.json = argument;
        return 0;
    case 'm':
        options.markdown = true;
        return 0;
    case 'c':
        options.commit = argument;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option option_list[] = {
    {"quick", 'q', NULL, 0, "a smoke run of some seconds", 0},
    {"only", 'o', "REGEX", 0, "only groups of figures whose name matches", 0},
    {"json", 'j', "FILE", 0, "also write everything there", 0},
    {"markdown", 'm', NULL, 0, "print the tables as Markdown", 0},
    {"commit", 'c', "TEXT", 0, "what is measured, for the report", 0},
    {0},
};

/* Every wait of a figure has a deadline of its own; this one is for those of the kernel's. */
static void watchdog_bark(int signal)
{
    static const char text[] = "\nbench: this group of figures takes too long: ";

    (void)signal;
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    (void)!write(STDERR_FILENO, running, strlen(running));
    (void)!write(STDERR_FILENO, "\n", 1);
    _exit(EXIT_FAILURE);
}

static int group_begin(void **state)
{
    running = *state;
    bench_job_spin_us(20);
    alarm(GROUP_LIMIT_S);
    return 0;
}

static int group_end(void **state)
{
    alarm(0);
    job_kill_all();
    return daemon_test_teardown(state);
}

static size_t groups_choose(struct CMUnitTest tests[GROUP_COUNT])
{
    size_t count = 0;
    regex_t only;

    if (regcomp(&only, options.only, REG_EXTENDED | REG_NOSUB) != 0) {
        fprintf(stderr, "bench: '%s' is no regular expression\n", options.only);
        exit(2);
    }
    for (size_t i = 0; i < GROUP_COUNT; i++)
        if (regexec(&only, groups[i].name, 0, NULL, 0) == 0)
            tests[count++] = (struct CMUnitTest){.name = groups[i].name,
                                                 .test_func = groups[i].function,
                                                 .setup_func = group_begin,
                                                 .teardown_func = group_end,
                                                 .initial_state = (void *)groups[i].name};
    regfree(&only);
    if (count == 0) {
        fprintf(stderr, "bench: no group matches '%s'; there are:", options.only);
        for (size_t i = 0; i < GROUP_COUNT; i++)
            fprintf(stderr, " %s", groups[i].name);
        fprintf(stderr, "\n");
        exit(2);
    }
    return count;
}

/* cmocka reports progress on standard output, which is to carry the tables alone. */
static FILE *output_set_aside(void)
{
    FILE *output = fdopen(dup(STDOUT_FILENO), "w");

    if (output == NULL || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        perror("bench: standard output");
        exit(1);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    return output;
}

int main(int argc, char **argv)
{
    const struct argp parser = {.options = option_list, .parser = option_take};
    struct CMUnitTest tests[GROUP_COUNT];
    struct machine machine;
    FILE *output;
    int failed;

    if (argp_parse(&parser, argc, argv, 0, NULL, NULL) != 0)
        return 2;
    size_t count = groups_choose(tests);
    output = output_set_aside();
    place_init();
    machine_read(&machine, options.commit);
    signal(SIGALRM, watchdog_bark);
    failed =
        _cmocka_run_group_tests("bench", tests, count, daemon_group_setup, daemon_group_teardown);
    if (options.markdown)
        report_markdown(output, &machine);
    else
        report_text(output, &machine);
    if (options.json && report_json(options.json, &machine) != 0) {
        fprintf(stderr, "bench: cannot write %s\n", options.json);
        failed++;
    }
    fclose(output);
    return failed > 0;
}
