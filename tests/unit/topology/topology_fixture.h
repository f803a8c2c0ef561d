/* What both topology tests need: fixtures by name, and files made on the spot. */
#ifndef TESUP_TESTS_UNIT_TOPOLOGY_FIXTURE_H
#define TESUP_TESTS_UNIT_TOPOLOGY_FIXTURE_H

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <hwloc.h>

#include "topology/topology.h"

#define FIXTURE(name) TESUP_FIXTURES "/topology/" name

static inline struct topology *fixture_load(const char *path)
{
    struct topology *topology = NULL;
    char text[PATH_MAX + 512] = "";

    if (topology_load(path, &topology, text, sizeof(text)) < 0)
        fail_msg("%s", text);
    return topology;
}

/* Writes the XML of a made-up machine, for shapes that would be long files. */
static inline void fixture_synthetic(const char *shape, char *path, size_t path_size)
{
    hwloc_topology_t hwloc;

    snprintf(path, path_size, "/tmp/tesup-topology-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(hwloc_topology_init(&hwloc), 0);
    assert_int_equal(hwloc_topology_set_synthetic(hwloc, shape), 0);
    assert_int_equal(hwloc_topology_load(hwloc), 0);
    assert_int_equal(hwloc_topology_export_xml(hwloc, path, 0), 0);
    hwloc_topology_destroy(hwloc);
}

#endif
