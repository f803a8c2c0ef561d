/* Rows as they come, and all of them as JSON. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "client/compat/bench/bench.h"

static const char *op_name(enum bench_op op)
{
    return op == BENCH_READ ? "READ" : "WRITE";
}

static void length_name(uint64_t length, char text[24])
{
    if (length >> 20 != 0 && length % (1 << 20) == 0)
        snprintf(text, 24, "%lluM", (unsigned long long)(length >> 20));
    else if (length >> 10 != 0 && length % (1 << 10) == 0)
        snprintf(text, 24, "%lluK", (unsigned long long)(length >> 10));
    else
        snprintf(text, 24, "%llu", (unsigned long long)length);
}

static double gigabytes(uint64_t length, double us)
{
    return us > 0 ? (double)length / us / 1e3 : 0;
}

void report_header(const struct bench_options *options)
{
    printf("%-6s %6s %10s %10s %10s %8s %7s %8s", "op", "block", "avg us", "p50 us", "p99 us",
           "GB/s", "x TCP", "x memcpy");
    if (options->direct)
        printf(" %12s %8s", "libtesup p50", "extra");
    putchar('\n');
}

/* Medians: one preemption in a thousand moves an average by more than the layer costs. */
static double extra_percent(const struct bench_row *row)
{
    return (row->abi.p50_us / row->direct.p50_us - 1) * 100;
}

void report_row(const struct bench_options *options, const struct bench_row *row)
{
    char block[24];

    length_name(row->length, block);
    printf("%-6s %6s %10.1f %10.1f %10.1f %8.3f %7.2f %8.2f", op_name(row->op), block,
           row->abi.avg_us, row->abi.p50_us, row->abi.p99_us,
           gigabytes(row->length, row->abi.avg_us), row->abi.p50_us / row->tcp.p50_us,
           row->abi.p50_us / row->copy_us);
    if (options->direct)
        printf(" %12.1f %7.1f%%", row->direct.p50_us, extra_percent(row));
    putchar('\n');
}

static json_t *times_json(const struct bench_times *times)
{
    return json_pack("{s:f, s:f, s:f}", "avg_us", times->avg_us, "p50_us", times->p50_us, "p99_us",
                     times->p99_us);
}

static json_t *row_json(const struct bench_options *options, const struct bench_row *row)
{
    json_t *object = json_pack("{s:s, s:I, s:o, s:o, s:f, s:f}", "op", op_name(row->op),
                               "block_bytes", (json_int_t)row->length, "times",
                               times_json(&row->abi), "tcp", times_json(&row->tcp), "memcpy_us",
                               row->copy_us, "gb_per_s", gigabytes(row->length, row->abi.avg_us));

    if (object != NULL && options->direct) {
        json_object_set_new(object, "libtesup", times_json(&row->direct));
        json_object_set_new(object, "extra_percent", json_real(extra_percent(row)));
    }
    return object;
}

int report_json(const struct bench_options *options, const struct bench_row *rows, unsigned count)
{
    json_t *list = json_array();
    json_t *root =
        json_pack("{s:s, s:i, s:i, s:o}", "version", TESUP_VERSION, "warmup", (int)options->warmup,
                  "iterations", (int)options->iterations, "rows", list);
    bool failed = root == NULL;

    for (unsigned i = 0; i < count; i++)
        failed |= json_array_append_new(list, row_json(options, &rows[i])) < 0;
    if (!failed && strcmp(options->json, "-") == 0)
        failed = json_dumpf(root, stdout, JSON_INDENT(2)) < 0 || putchar('\n') == EOF;
    else if (!failed)
        failed = json_dump_file(root, options->json, JSON_INDENT(2)) < 0;
    json_decref(root);
    return failed ? bench_fail("%s cannot be written", options->json) : 0;
}
