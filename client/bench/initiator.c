#include "client/bench/initiator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/bench/case.h"
#include "client/bench/clock.h"
#include "client/bench/fabric.h"
#include "client/bench/gpu.h"
#include "client/bench/party.h"
#include "client/bench/progress.h"
#include "client/bench/report.h"

struct initiator {
    struct party party;
    const struct bench_options *options;
    bool one_clock;
    char fabric[RESULT_FABRIC_MAX];
    uint32_t result_count;
    struct result results[BENCH_OP_COUNT * SIZES_MAX];
};

static int greet(struct initiator *initiator)
{
    struct party *party = &initiator->party;
    struct message_clock clock;
    struct party_event event;

    clock_identify(&clock);
    if (party_message_send(party, &clock.head, sizeof(clock), MESSAGE_HELLO) ||
        party_message_wait(party, MESSAGE_WELCOME, clock_now_ns() + PARTY_REPLY_NS, &event))
        return -1;
    initiator->one_clock = clock_is_same(&clock, (const struct message_clock *)event.message);
    return 0;
}

static int notify_check(struct initiator *initiator)
{
    struct party *party = &initiator->party;

    if (initiator->options->notify == BENCH_NOTIFY_OOB &&
        tesup_notify_max(party->session) <= TESUP_NOTIFY_MAX)
        return party_fail(party, "--notify oob: this supervisor does not fall back; start both "
                                 "with MC_RDMA_NOTIFY_OOB_FALLBACK=1");
    return 0;
}

/* The fabric that the supervisors chose; where that cannot be told, the one that was asked for. */
static int fabric_check(struct initiator *initiator)
{
    const struct bench_options *options = initiator->options;
    const char *asked = options_fabric_name(options->fabric);
    char *fabric = initiator->fabric;

    if (fabric_find(options->socket, options->peer, fabric, sizeof(initiator->fabric)))
        snprintf(fabric, sizeof(initiator->fabric), "%s", asked);
    if (options->fabric != BENCH_FABRIC_AUTO && strcmp(fabric, asked) != 0)
        return party_fail(&initiator->party,
                          "--fabric %s: the supervisors connected over %s; start them with "
                          "`tesup serve --fabric %s`",
                          asked, fabric, asked);
    return 0;
}

static void progress_forward(void *context, uint64_t done, uint64_t total)
{
    progress_update(context, done, total);
}

static int row_run(struct initiator *initiator, struct progress *progress, enum bench_op op,
                   uint64_t block_bytes)
{
    struct result *result = &initiator->results[initiator->result_count];
    char size[24], label[48];

    sizes_format(block_bytes, size, sizeof(size));
    snprintf(label, sizeof(label), "%s %s", options_op_name(op), size);
    progress_row_start(progress, label);
    int failed = case_run(&initiator->party, initiator->options, op, block_bytes,
                          !initiator->one_clock, progress_forward, progress, result);
    if (failed >= 0) {
        memcpy(result->fabric, initiator->fabric, sizeof(result->fabric));
        initiator->result_count++;
    }
    progress_row_end(progress);
    return failed;
}

/* 0, 1 for a wrong byte, -1 for a failure; the sweep ends at the first of either. */
static int sweep(struct initiator *initiator)
{
    const struct bench_options *options = initiator->options;
    struct progress progress;
    int failed = 0;

    progress_start(&progress, options->op_count * options->sizes.count);
    for (uint32_t op = 0; op < options->op_count && !failed; op++)
        for (uint32_t i = 0; i < options->sizes.count && !failed; i++)
            failed = row_run(initiator, &progress, options->op[op], options->sizes.size[i]);
    progress_clear(&progress);
    return failed;
}

static int initiator_talk(struct initiator *initiator)
{
    struct party *party = &initiator->party;
    struct message_head bye;

    if (party_peer_open(party, initiator->options->peer) || notify_check(initiator) ||
        greet(initiator) || fabric_check(initiator))
        return -1;
    int failed = sweep(initiator);
    if (failed)
        return failed;
    return party_message_send(party, &bye, sizeof(bye), MESSAGE_BYE);
}

int initiator_run(const struct bench_options *options)
{
    struct initiator *initiator = calloc(1, sizeof(*initiator));

    if (!initiator) {
        fprintf(stderr, "tesup bench: out of memory\n");
        return EXIT_FAILURE;
    }
    initiator->options = options;
    int failed = party_open(&initiator->party, options->socket, NULL, options->idle);
    if (!failed)
        failed = initiator_talk(initiator);
    if (failed)
        party_failure_send(&initiator->party);
    if (report_print(options->format, initiator->results, initiator->result_count,
                     initiator->one_clock))
        failed = -1;
    if (failed && initiator->party.error[0])
        fprintf(stderr, "tesup bench: %s\n", initiator->party.error);
    party_close(&initiator->party);
    gpu_close();
    free(initiator);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
