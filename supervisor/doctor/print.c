#include <jansson.h>
#include <string.h>

#include "supervisor/doctor/doctor.h"

static const char *const words[] = {
    [DOCTOR_OK] = "ok", [DOCTOR_NOTE] = "note", [DOCTOR_BAD] = "bad"};

int doctor_print_text(const struct doctor *doctor, FILE *out)
{
    size_t width = 0;

    for (size_t i = 0; i < doctor->count; i++)
        if (strlen(doctor->findings[i].what) > width)
            width = strlen(doctor->findings[i].what);
    for (size_t i = 0; i < doctor->count; i++) {
        const struct doctor_finding *finding = &doctor->findings[i];

        fprintf(out, "%-4s  %-*s  %s\n", words[finding->verdict], (int)width, finding->what,
                finding->text);
        if (finding->remedy[0] != '\0')
            fprintf(out, "      %-*s  -> %s\n", (int)width, "", finding->remedy);
    }
    return ferror(out) ? -1 : 0;
}

int doctor_print_json(const struct doctor *doctor, FILE *out)
{
    json_t *list = json_array();
    json_t *whole =
        json_pack("{s:s, s:o*}", "verdict", words[doctor_worst(doctor)], "findings", list);
    int rc;

    for (size_t i = 0; i < doctor->count; i++) {
        const struct doctor_finding *finding = &doctor->findings[i];

        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s, s:s*}", "verdict", words[finding->verdict],
                                        "what", finding->what, "text", finding->text, "remedy",
                                        finding->remedy[0] != '\0' ? finding->remedy : NULL));
    }
    rc = whole != NULL ? json_dumpf(whole, out, JSON_INDENT(2)) : -1;
    json_decref(whole);
    fputc('\n', out);
    return rc;
}
