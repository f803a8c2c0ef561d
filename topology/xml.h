/* An hwloc XML file, read and tried before the process trusts hwloc with it. */
#ifndef TESUP_TOPOLOGY_XML_H
#define TESUP_TOPOLOGY_XML_H

#include <stddef.h>

#define XML_FILE_MAX   (64u * 1024 * 1024)
#define XML_TRIAL_SECS 10u

struct xml_file {
    char *bytes; /* ends with a NUL */
    int size;    /* with the NUL, as hwloc wants it */
};

/* 0, or -1 with a sentence in text that names the file. Free with xml_file_free(). */
int xml_file_load(const char *path, struct xml_file *file, char *text, size_t text_size);
void xml_file_free(struct xml_file *file);

#endif
