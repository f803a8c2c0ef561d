/* The picture: packages side by side, in them their NUMA nodes, in those cores, switches, devices.
 *
 * A worker has a colour, which marks its core, its GPU and its NIC; lines would cross each other.
 * Everything is drawn twice: first without a file, to learn how tall it gets.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/topology/show.h"
#include "supervisor/worker/cpu_list.h"

enum {
    MARGIN = 16,
    NODE_WIDTH = 520,
    NODE_INNER = NODE_WIDTH - 2 * MARGIN,
    CORE_SIZE = 24,
    CORES_MAX = 1024,
    CHIP_WIDTH = 146,
    CHIP_HEIGHT = 40,
    GAP = 10,
    LINE = 17,       /* of text */
    REASON_MAX = 78, /* characters that fit into a node's width */
};

static const char *const colours[] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                      "#56b4e9", "#d55e00", "#7f6fc9", "#8a8a00"};
#define COLOURS (sizeof(colours) / sizeof(colours[0]))

struct picture {
    FILE *out; /* NULL: only measured */
    const struct topology *topology;
    const struct topology_plan *plan;
    const struct topology_node *node;
    size_t node_count;
    const struct topology_device *device;
    size_t device_count;
    const struct topology_branch *branch;
    size_t branch_count;
};

__attribute__((format(printf, 2, 3))) static void draw(const struct picture *picture,
                                                       const char *format, ...)
{
    va_list args;

    if (!picture->out)
        return;
    va_start(args, format);
    vfprintf(picture->out, format, args);
    va_end(args);
}

/* Names come from files that anybody may have written. */
static void draw_escaped(const struct picture *picture, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<':
            draw(picture, "&lt;");
            break;
        case '>':
            draw(picture, "&gt;");
            break;
        case '&':
            draw(picture, "&amp;");
            break;
        default:
            draw(picture, "%c", *text);
        }
}

__attribute__((format(printf, 5, 6))) static void
draw_text(const struct picture *picture, int x, int y, const char *class, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    draw(picture, "<text x=\"%d\" y=\"%d\" class=\"%s\">", x, y, class);
    draw_escaped(picture, text);
    draw(picture, "</text>\n");
}

static void draw_box(const struct picture *picture, int x, int y, int width, int height,
                     const char *class)
{
    draw(picture, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" class=\"%s\"/>\n", x,
         y, width, height, class);
}

static const char *colour_of(size_t worker)
{
    return colours[worker % COLOURS];
}

/* ---- devices ---- */

/* "mlx4_0" is the NIC of a pair with "mlx4_0:2". */
static bool pair_uses(const struct topology_pair *pair, const struct topology_device *device)
{
    size_t length = strlen(device->name);

    if (device->kind == TOPOLOGY_KIND_GPU)
        return strcmp(pair->gpu_bus_id, device->bus_id) == 0;
    return device->kind == TOPOLOGY_KIND_RDMA && strncmp(pair->nic, device->name, length) == 0 &&
           (pair->nic[length] == '\0' || pair->nic[length] == ':');
}

static void gpu_words(const struct picture *picture, const struct topology_device *device,
                      char *text, size_t size)
{
    snprintf(text, size, "no worker");
    for (size_t i = 0; i < picture->plan->count; i++) {
        const struct topology_pair *pair = &picture->plan->pair[i];
        if (!pair_uses(pair, device))
            continue;
        if (pair->nic[0])
            snprintf(text, size, "%.14s %s", pair->nic, topology_distance_name(pair->distance));
        else
            snprintf(text, size, "tcp");
    }
}

static void chip_words(const struct picture *picture, const struct topology_device *device,
                       char *text, size_t size)
{
    if (device->left_out[0])
        snprintf(text, size, "%.20s", device->left_out);
    else if (device->kind == TOPOLOGY_KIND_GPU)
        gpu_words(picture, device, text, size);
    else if (device->kind == TOPOLOGY_KIND_RDMA)
        snprintf(text, size, "%.10s %s", device->port[0].link,
                 device->port[0].state == TOPOLOGY_PORT_UNKNOWN
                     ? ""
                     : topology_port_state_name(device->port[0].state));
    else
        snprintf(text, size, "interface");
}

static void chip_draw(const struct picture *picture, const struct topology_device *device, int x,
                      int y)
{
    static const char *const classes[] = {"gpu", "nic", "net"};
    char words[64];
    int dot = x + 12; /* on the lower edge, where there is room for all of them */

    chip_words(picture, device, words, sizeof(words));
    draw(picture, "<g><title>");
    draw_escaped(picture, device->name);
    draw(picture, " ");
    draw_escaped(picture, device->left_out[0] ? device->left_out : device->bus_id);
    draw(picture, "</title>\n");
    draw_box(picture, x, y, CHIP_WIDTH, CHIP_HEIGHT,
             device->left_out[0] ? "out" : classes[device->kind]);
    draw_text(picture, x + 8, y + 16, "name", "%s%.16s",
              device->kind == TOPOLOGY_KIND_GPU ? "GPU " : "",
              device->kind == TOPOLOGY_KIND_GPU && strncmp(device->name, "0000:", 5) == 0
                  ? device->name + 5
                  : device->name);
    draw_text(picture, x + 8, y + 32, "small", "%s", words);
    for (size_t i = 0; i < picture->plan->count; i++)
        if (pair_uses(&picture->plan->pair[i], device)) {
            draw(picture, "<circle cx=\"%d\" cy=\"%d\" r=\"5\" fill=\"%s\"/>\n", dot,
                 y + CHIP_HEIGHT, colour_of(i));
            dot += 12;
        }
    draw(picture, "</g>\n");
}

/* Chips from left to right, in as many rows as it takes. The height. */
static int chips_draw(const struct picture *picture, int own, int node, int x, int y, int width)
{
    int columns = (width + GAP) / (CHIP_WIDTH + GAP);
    int count = 0;

    for (size_t i = 0; i < picture->device_count; i++) {
        const struct topology_device *device = &picture->device[i];
        if (device->branch != own || device->node != node)
            continue;
        chip_draw(picture, device, x + count % columns * (CHIP_WIDTH + GAP),
                  y + count / columns * (CHIP_HEIGHT + GAP));
        count++;
    }
    return (count + columns - 1) / columns * (CHIP_HEIGHT + GAP);
}

/* What hangs below a branch (-1: below none) on one node. The height. */
static int branch_draw(const struct picture *picture, int own, int node, int x, int y, int width)
{
    int height = 0;

    for (size_t i = 0; i < picture->branch_count; i++) {
        const struct topology_branch *branch = &picture->branch[i];
        struct picture measure = *picture;

        if (branch->parent != own || branch->node != node)
            continue;
        measure.out = NULL;
        int inner = branch_draw(&measure, (int)i, node, x + GAP, y, width - 2 * GAP);
        draw_box(picture, x, y + height, width, inner + LINE + GAP, "branch");
        draw_text(picture, x + GAP, y + height + LINE, "small", "%s", branch->name);
        branch_draw(picture, (int)i, node, x + GAP, y + height + LINE + GAP, width - 2 * GAP);
        height += inner + LINE + 2 * GAP;
    }
    return height + chips_draw(picture, own, node, x, y + height, width);
}

/* ---- cores and workers ---- */

static int cores_draw(const struct picture *picture, size_t node, int x, int y)
{
    static struct topology_core cores[CORES_MAX];
    int columns = (NODE_INNER + 2) / (CORE_SIZE + 2);
    size_t count = topology_node_cores(picture->topology, node, cores, CORES_MAX);

    if (count > CORES_MAX)
        count = CORES_MAX;
    for (size_t i = 0; i < count; i++) {
        int left = x + (int)i % columns * (CORE_SIZE + 2);
        int top = y + (int)i / columns * (CORE_SIZE + 2);
        const char *fill = "#ffffff";
        const char *class = "cpu";

        for (size_t w = 0; w < picture->plan->count; w++)
            if (cpu_list_contains(cores[i].cpus, picture->plan->pair[w].cpu)) {
                fill = colour_of(w);
                class = "cpu used";
            }
        draw(picture, "<g><title>CPUs %s</title>", cores[i].cpus);
        draw(picture,
             "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\" fill=\"%s\" "
             "stroke=\"#9aa3ad\"/>",
             left, top, CORE_SIZE, CORE_SIZE, fill);
        draw_text(picture, left + CORE_SIZE / 2, top + CORE_SIZE / 2 + 4, class, "%d",
                  cores[i].first_cpu);
        draw(picture, "</g>\n");
    }
    return ((int)count + columns - 1) / columns * (CORE_SIZE + 2) + GAP;
}

/* The reason on as many lines as it takes, broken at blanks. The height. */
static int reason_draw(const struct picture *picture, const char *reason, int x, int y)
{
    int height = 0;

    while (*reason) {
        size_t length = strlen(reason);
        if (length > REASON_MAX) {
            length = REASON_MAX;
            while (length > 1 && reason[length] != ' ')
                length--;
        }
        draw_text(picture, x, y + height, "small", "%.*s", (int)length, reason);
        reason += length;
        reason += strspn(reason, " ");
        height += LINE;
    }
    return height;
}

static int workers_draw(const struct picture *picture, int node, int x, int y)
{
    int height = 0;

    for (size_t i = 0; i < picture->plan->count; i++) {
        const struct topology_pair *pair = &picture->plan->pair[i];
        if (pair->node != node)
            continue;
        draw(picture, "<circle cx=\"%d\" cy=\"%d\" r=\"6\" fill=\"%s\"/>\n", x + 6,
             y + height + LINE - 5, colour_of(i));
        draw_text(picture, x + 20, y + height + LINE, "name", "%s", pair->name);
        draw_text(picture, x + NODE_INNER, y + height + LINE, "right", "%s on CPU %s", pair->fabric,
                  pair->cpus);
        height += LINE + reason_draw(picture, pair->reason, x + 20, y + height + 2 * LINE) + GAP;
    }
    return height;
}

/* ---- nodes and packages ---- */

static int node_draw(const struct picture *picture, size_t own, int x, int y)
{
    const struct topology_node *node = &picture->node[own];
    struct picture measure = *picture;
    int at = y + LINE + GAP;

    measure.out = NULL;
    if (picture->out)
        draw_box(picture, x, y, NODE_WIDTH, node_draw(&measure, own, x, y) - GAP, "node");
    draw_text(picture, x + MARGIN, at, "title", "NUMA node %d", node->os_index);
    draw_text(picture, x + MARGIN + NODE_INNER, at, "right", "%.1f GiB%s%.40s",
              (double)node->memory_bytes / (1 << 30), node->cpu_present ? ", CPUs " : ", no CPUs",
              node->cpus);
    at += GAP;
    at += cores_draw(picture, own, x + MARGIN, at);
    at += branch_draw(picture, -1, node->os_index, x + MARGIN, at, NODE_INNER);
    at += workers_draw(picture, node->os_index, x + MARGIN, at);
    return at + 2 * GAP - y;
}

static bool has_homeless(const struct picture *picture)
{
    for (size_t i = 0; i < picture->device_count; i++)
        if (picture->device[i].node < 0)
            return true;
    return false;
}

static int homeless_draw(const struct picture *picture, int x, int y)
{
    struct picture measure = *picture;
    int at = y + LINE + GAP;

    measure.out = NULL;
    if (picture->out)
        draw_box(picture, x, y, NODE_WIDTH, homeless_draw(&measure, x, y) - GAP, "node");
    draw_text(picture, x + MARGIN, at, "title", "unknown node");
    draw_text(picture, x + MARGIN + NODE_INNER, at, "right", "no locality is known for these");
    at += GAP;
    at += branch_draw(picture, -1, -1, x + MARGIN, at, NODE_INNER);
    return at + GAP - y;
}

/* Nodes of one package below each other. Draws the one at `column`; false: there is none. */
static bool column_draw(const struct picture *picture, int column, int *height)
{
    int x = MARGIN + column * (NODE_WIDTH + MARGIN);
    int at = MARGIN;
    int seen = 0;

    for (size_t i = 0; i < picture->node_count; i++) {
        bool first = true;
        for (size_t k = 0; k < i; k++)
            first = first && picture->node[k].package != picture->node[i].package;
        if (!first || seen++ != column)
            continue;
        if (picture->node[i].package >= 0)
            draw_text(picture, x, at + LINE - 3, "title", "Package %d", picture->node[i].package);
        at += LINE + GAP;
        for (size_t k = i; k < picture->node_count; k++)
            if (picture->node[k].package == picture->node[i].package)
                at += node_draw(picture, k, x, at);
        *height = at;
        return true;
    }
    return false;
}

static void picture_draw(const struct picture *picture, int *width, int *height)
{
    int column = 0;
    int tall = 0;

    *height = 0;
    for (; column_draw(picture, column, &tall); column++)
        if (tall > *height)
            *height = tall;
    if (has_homeless(picture))
        *height += homeless_draw(picture, MARGIN, *height);
    *width = MARGIN + column * (NODE_WIDTH + MARGIN);
    *height += MARGIN;
}

void topology_show_svg(const struct topology *topology, const struct topology_plan *plan, FILE *out)
{
    struct picture picture = {.topology = topology, .plan = plan};
    int width, height;

    picture.node_count = topology_nodes(topology, &picture.node);
    picture.device_count = topology_devices(topology, &picture.device);
    picture.branch_count = topology_branches(topology, &picture.branch);
    picture_draw(&picture, &width, &height);
    picture.out = out;
    draw(&picture,
         "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
         "viewBox=\"0 0 %d %d\">\n"
         "<title>tesup topology</title>\n"
         "<style>\n"
         "text { font: 12px 'DejaVu Sans', Verdana, sans-serif; fill: #1f2933; }\n"
         ".title { font-size: 14px; font-weight: bold; }\n"
         ".name { font-weight: bold; }\n"
         ".small { font-size: 11px; fill: #52606d; }\n"
         ".right { font-size: 11px; fill: #52606d; text-anchor: end; }\n"
         ".cpu { font-size: 9px; fill: #52606d; text-anchor: middle; }\n"
         ".used { fill: #ffffff; font-weight: bold; }\n"
         ".node { fill: #f7f9fb; stroke: #cbd2d9; }\n"
         ".branch { fill: #eef1f5; stroke: #cbd2d9; }\n"
         ".gpu { fill: #e3f4e1; stroke: #7cb26f; }\n"
         ".nic { fill: #e1ecf8; stroke: #6f97c4; }\n"
         ".net { fill: #ffffff; stroke: #cbd2d9; }\n"
         ".out { fill: #ffffff; stroke: #9aa3ad; stroke-dasharray: 4 3; }\n"
         "</style>\n"
         "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
         width, height, width, height);
    picture_draw(&picture, &width, &height);
    draw(&picture, "</svg>\n");
}
