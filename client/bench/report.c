#include "client/bench/report.h"

#include <errno.h>
#include <jansson.h>
#include <libsmartcols.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *const column_names[] = {"op",     "block",  "fabric", "notify", "iters",
                                           "avg us", "p50 us", "p99 us", "GB/s",   "verified"};
#define COLUMN_COUNT (sizeof(column_names) / sizeof(column_names[0]))

static int row_fill(struct libscols_line *line, const struct result *result)
{
    char text[COLUMN_COUNT][32];
    int failed = 0;

    snprintf(text[0], sizeof(text[0]), "%s", options_op_name(result->op));
    sizes_format(result->block_bytes, text[1], sizeof(text[1]));
    snprintf(text[2], sizeof(text[2]), "%s", result->fabric);
    snprintf(text[3], sizeof(text[3]), "%s", options_notify_name(result->notify));
    snprintf(text[4], sizeof(text[4]), "%u", result->iters);
    snprintf(text[5], sizeof(text[5]), "%.1f", result->avg_us);
    snprintf(text[6], sizeof(text[6]), "%.1f", result->p50_us);
    snprintf(text[7], sizeof(text[7]), "%.1f", result->p99_us);
    snprintf(text[8], sizeof(text[8]), "%.3f", result->gb_per_s);
    snprintf(text[9], sizeof(text[9]), "%s", result->verified ? "yes" : "NO");
    for (size_t i = 0; i < COLUMN_COUNT; i++)
        failed |= scols_line_set_data(line, i, text[i]);
    return failed;
}

static const char *timed_text(const struct result *results, uint32_t count, bool one_clock)
{
    if (count > 0 && results[0].notify == BENCH_NOTIFY_NONE)
        return "Time: from the submit to the completion at the initiator.";
    if (one_clock)
        return "Time: from the submit until the target holds the bound notification (one clock).";
    return "Time: from the submit until the target's acknowledgement is back (two clocks).";
}

static int table_print(const struct result *results, uint32_t count, bool one_clock)
{
    struct libscols_table *table = scols_new_table();
    int failed = !table;

    for (size_t i = 0; !failed && i < COLUMN_COUNT; i++) {
        bool text = i == 0 || i == 2 || i == 3 || i == COLUMN_COUNT - 1;
        failed = !scols_table_new_column(table, column_names[i], 0, text ? 0 : SCOLS_FL_RIGHT);
    }
    for (uint32_t i = 0; !failed && i < count; i++) {
        struct libscols_line *line = scols_table_new_line(table, NULL);
        failed = !line || row_fill(line, &results[i]);
    }
    if (!failed && count > 0) {
        failed = scols_print_table(table);
        printf("%s\n", timed_text(results, count, one_clock));
    }
    scols_unref_table(table);
    return failed ? -1 : 0;
}

/* What was measured are nanoseconds: more digits would be noise. */
static double to_nanos(double us)
{
    return (double)(long long)(us * 1e3 + 0.5) / 1e3;
}

static json_t *row_json(const struct result *result)
{
    return json_pack("{s:s, s:I, s:I, s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:b, s:I}", /* */
                     "op", options_op_name(result->op),                              /* */
                     "block_bytes", (json_int_t)result->block_bytes,                 /* */
                     "batch", (json_int_t)result->batch,                             /* */
                     "notify", options_notify_name(result->notify),                  /* */
                     "fabric", result->fabric,                                       /* */
                     "iters", (json_int_t)result->iters,                             /* */
                     "avg_us", to_nanos(result->avg_us),                             /* */
                     "p50_us", to_nanos(result->p50_us),                             /* */
                     "p99_us", to_nanos(result->p99_us),                             /* */
                     "gb_per_s", result->gb_per_s,                                   /* */
                     "verified", result->verified ? 1 : 0,                           /* */
                     "verified_on_gpu", (json_int_t)result->verified_on_gpu);
}

static int json_print(const struct result *results, uint32_t count)
{
    json_t *rows = json_array();
    json_t *root = json_pack("{s:o}", "results", rows);
    int failed = !root;

    for (uint32_t i = 0; !failed && i < count; i++)
        failed = json_array_append_new(rows, row_json(&results[i]));
    if (!failed)
        failed = json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(root);
    return failed ? -1 : 0;
}

static int csv_print(const struct result *results, uint32_t count)
{
    puts("op,block_bytes,batch,notify,fabric,iters,avg_us,p50_us,p99_us,gb_per_s,verified");
    for (uint32_t i = 0; i < count; i++)
        printf("%s,%llu,%u,%s,%s,%u,%.3f,%.3f,%.3f,%.6f,%s\n", options_op_name(results[i].op),
               (unsigned long long)results[i].block_bytes, results[i].batch,
               options_notify_name(results[i].notify), results[i].fabric, results[i].iters,
               results[i].avg_us, results[i].p50_us, results[i].p99_us, results[i].gb_per_s,
               results[i].verified ? "true" : "false");
    return 0;
}

int report_print(enum bench_format format, const struct result *results, uint32_t count,
                 bool one_clock)
{
    int failed = format == BENCH_FORMAT_JSON  ? json_print(results, count)
                 : format == BENCH_FORMAT_CSV ? csv_print(results, count)
                                              : table_print(results, count, one_clock);

    if (failed)
        fprintf(stderr, "tesup bench: out of memory for the report\n");
    if (fflush(stdout) == EOF || ferror(stdout)) {
        fprintf(stderr, "tesup bench: cannot write the report: %s\n", strerror(errno));
        failed = -1;
    }
    return failed;
}
