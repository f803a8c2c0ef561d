#include "tests/bench/bench.h"

#include <jansson.h>

#include "tests/bench/report.h"

static json_t *spread_json(const struct spread *spread)
{
    return json_pack("{s:f,s:f,s:f}", "median", spread->median, "min", spread->least, "max",
                     spread->most);
}

static json_t *row_json(const struct row *row)
{
    json_t *object = json_pack("{s:s,s:s,s:s,s:o,s:s}", "id", row->id, "what", row->what, "unit",
                               row->unit, "value", spread_json(&row->value), "place", row->place);

    if (row->limit_what[0] != '\0') {
        json_object_set_new(object, "limit_what", json_string(row->limit_what));
        json_object_set_new(object, "limit", spread_json(&row->limit));
        json_object_set_new(object, "ratio", spread_json(&row->ratio));
    }
    if (row->must_text[0] != '\0') {
        json_object_set_new(object, "must", json_real(row->must));
        json_object_set_new(object, "must_text", json_string(row->must_text));
        json_object_set_new(object, "aim", json_real(row->aim));
        json_object_set_new(object, "aim_text", json_string(row->aim_text));
        json_object_set_new(object, "reached", json_string(row_verdict_text(row)));
    }
    return object;
}

static json_t *grid_json(const struct grid *grid)
{
    json_t *lines = json_array();

    for (size_t line = 0; line < grid->rows; line++) {
        json_t *object = json_pack("{s:s}", grid->columns[0], grid->label[line]);

        for (size_t column = 1; grid->columns[column] != NULL; column++) {
            double cell = grid->cell[line][column];

            json_object_set_new(object, grid->columns[column],
                                cell < 0 ? json_null() : json_real(cell));
        }
        json_array_append_new(lines, object);
    }
    return json_pack("{s:s,s:s,s:o,s:s}", "id", grid->id, "title", grid->title, "rows", lines,
                     "note", grid->note);
}

int report_json(const char *path, const struct machine *machine)
{
    json_t *rows = json_array(), *grids = json_array(), *all;
    int failed;

    for (size_t i = 0; i < row_count(); i++)
        json_array_append_new(rows, row_json(row_at(i)));
    for (size_t i = 0; i < grid_count(); i++)
        json_array_append_new(grids, grid_json(grid_at(i)));
    all = json_pack("{s:{s:s,s:i,s:s,s:s,s:f},s:s,s:b,s:o,s:o}", "machine", "cpu", machine->cpu,
                    "cpus", (int)machine->cpus, "kernel", machine->kernel, "when", machine->when,
                    "load", machine->load, "commit", machine->commit, "quick", bench_quick,
                    "figures", rows, "tables", grids);
    failed = json_dump_file(all, path, JSON_INDENT(2));
    json_decref(all);
    return failed;
}
