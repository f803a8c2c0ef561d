#include "topology/xml.h"

#include <errno.h>
#include <fcntl.h>
#include <hwloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "topology/internal.h"

static int file_check(int fd, const char *path, size_t *size, char *text, size_t text_size)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return topology_fail(text, text_size, "cannot read %s: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return topology_fail(text, text_size,
                             "%s is a directory; name one hwloc XML file, as "
                             "`lstopo --of xml FILE` writes it",
                             path);
    if (!S_ISREG(st.st_mode))
        return topology_fail(text, text_size,
                             "%s is not a regular file; save the hwloc XML to a file first", path);
    if (st.st_size == 0)
        return topology_fail(text, text_size,
                             "%s is empty; write it again with `lstopo --of xml FILE`", path);
    if (st.st_size > (off_t)XML_FILE_MAX)
        return topology_fail(text, text_size,
                             "%s has %lld bytes; an hwloc XML file has at most %u, so this is "
                             "another file",
                             path, (long long)st.st_size, XML_FILE_MAX);
    *size = (size_t)st.st_size;
    return 0;
}

/* The file may shrink or grow while it is read: `size` bounds the buffer, the result is what came.
 */
static ssize_t file_read(int fd, char *bytes, size_t size)
{
    size_t done = 0;

    while (done < size) {
        ssize_t got = read(fd, bytes + done, size - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

/* Tells apart what hwloc would only call invalid. */
static int content_check(const char *path, const struct xml_file *file, char *text,
                         size_t text_size)
{
    if (strlen(file->bytes) + 1 != (size_t)file->size)
        return topology_fail(text, text_size,
                             "%s is binary; an hwloc XML file is text, as `lstopo --of xml FILE` "
                             "writes it",
                             path);

    const char *root = strstr(file->bytes, "<topology");
    if (!root)
        return topology_fail(text, text_size,
                             "%s is not an hwloc XML file: it has no <topology> element; write it "
                             "with `lstopo --of xml FILE`",
                             path);
    if (strncmp(root, "<topology version=\"3", 20) == 0)
        return topology_fail(text, text_size,
                             "%s is in the XML format of hwloc 3, and this tesup uses hwloc %d; "
                             "write it with lstopo of hwloc 2",
                             path, HWLOC_API_VERSION >> 16);
    if (!strstr(root, "</topology>"))
        return topology_fail(text, text_size,
                             "%s is truncated: </topology> is missing; write it again with "
                             "`lstopo --of xml FILE`",
                             path);
    return 0;
}

/* In the child: exit code 0 says that hwloc read the file and that the result is sound. */
__attribute__((noreturn)) static void trial_child(const struct xml_file *file)
{
    const struct rlimit no_core = {0, 0};
    const struct rlimit cpu = {XML_TRIAL_SECS, XML_TRIAL_SECS};
    hwloc_topology_t topology;

    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0)
        _exit(EXIT_FAILURE);
    setrlimit(RLIMIT_CORE, &no_core);
    setrlimit(RLIMIT_CPU, &cpu);

    if (hwloc_topology_init(&topology) < 0)
        _exit(EXIT_FAILURE);
    hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (hwloc_topology_set_xmlbuffer(topology, file->bytes, file->size) < 0 ||
        hwloc_topology_load(topology) < 0)
        _exit(EXIT_FAILURE);
    hwloc_topology_check(topology);
    hwloc_topology_destroy(topology);
    _exit(EXIT_SUCCESS);
}

/* hwloc follows damaged XML into crashes and aborts: a child takes the fall, and its verdict holds
 * for the parent, which gives hwloc the same bytes.  RLIMIT_CPU is the deadline: there is no I/O in
 * it to wait for. */
static int trial_run(const char *path, const struct xml_file *file, char *text, size_t text_size)
{
    int status;
    pid_t pid = fork();

    if (pid < 0)
        return topology_fail(text, text_size, "cannot start a child to check %s: %s", path,
                             strerror(errno));
    if (pid == 0)
        trial_child(file);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return topology_fail(text, text_size, "cannot wait for the check of %s: %s", path,
                                 strerror(errno));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS)
        return topology_fail(text, text_size,
                             "%s is damaged or no topology: hwloc %d cannot read it; write it "
                             "again with `lstopo --of xml FILE`",
                             path, HWLOC_API_VERSION >> 16);
    return 0;
}

int xml_file_load(const char *path, struct xml_file *file, char *text, size_t text_size)
{
    size_t size = 0;

    /* O_NONBLOCK: opening a FIFO would wait for its writer for ever. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return topology_fail(text, text_size, "cannot read %s: %s", path, strerror(errno));
    if (file_check(fd, path, &size, text, text_size) < 0)
        goto err_close;

    file->bytes = malloc(size + 1);
    if (!file->bytes) {
        topology_fail(text, text_size, "no memory for %s (%zu bytes)", path, size);
        goto err_close;
    }
    ssize_t got = file_read(fd, file->bytes, size);
    if (got < 0) {
        topology_fail(text, text_size, "cannot read %s: %s", path, strerror(errno));
        goto err_free;
    }
    file->bytes[got] = '\0';
    file->size = (int)got + 1;
    if (content_check(path, file, text, text_size) < 0 ||
        trial_run(path, file, text, text_size) < 0)
        goto err_free;
    close(fd);
    return 0;

err_free:
    xml_file_free(file);
err_close:
    close(fd);
    return -1;
}

void xml_file_free(struct xml_file *file)
{
    free(file->bytes);
    file->bytes = NULL;
}
