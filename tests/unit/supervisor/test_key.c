/* The key file: made once, only for its owner, one key for all who start at the same time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "supervisor/key.h"

#define RACERS 8
#define ROUNDS 20

static char directory[] = "/tmp/tesup-key-XXXXXX";
static char path[PATH_MAX];
static char text[512];

static int directory_open(void **state)
{
    (void)state;
    return mkdtemp(directory) != NULL ? 0 : -1;
}

static int directory_close(void **state)
{
    (void)state;
    return rmdir(directory);
}

static int path_choose(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "%s/peer.key", directory);
    text[0] = '\0';
    return 0;
}

static int path_remove(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static void file_write(const char *content, size_t size, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, size), size);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void the_first_start_makes_it(void **state)
{
    uint8_t first[HANDSHAKE_KEY] = {0}, second[HANDSHAKE_KEY] = {0}, zero[HANDSHAKE_KEY] = {0};
    struct stat st;

    (void)state;
    assert_int_equal(key_load(path, first, text, sizeof(text)), 0);
    assert_memory_not_equal(first, zero, sizeof(zero));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_size, 65);
    assert_int_equal(key_load(path, second, text, sizeof(text)), 0);
    assert_memory_equal(first, second, sizeof(first));
}

static void the_umask_does_not_matter(void **state)
{
    uint8_t key[HANDSHAKE_KEY];
    mode_t old = umask(0);
    struct stat st;

    (void)state;
    assert_int_equal(key_load(path, key, text, sizeof(text)), 0);
    umask(old);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

static void missing_directories_are_made(void **state)
{
    uint8_t key[HANDSHAKE_KEY];
    struct stat st;
    char inner[PATH_MAX];

    (void)state;
    snprintf(inner, sizeof(inner), "%s/a", directory);
    snprintf(path, sizeof(path), "%s/a/b/peer.key", directory);
    assert_int_equal(key_load(path, key, text, sizeof(text)), 0);
    assert_int_equal(stat(inner, &st), 0);
    assert_int_equal(st.st_mode & 077, 0);
    unlink(path);
    snprintf(path, sizeof(path), "%s/a/b", directory);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(inner), 0);
}

static void a_file_that_others_can_read_is_refused(void **state)
{
    static const mode_t modes[] = {0640, 0604, 0660, 0644, 0610};
    uint8_t key[HANDSHAKE_KEY];

    (void)state;
    assert_int_equal(key_load(path, key, text, sizeof(text)), 0);
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_int_equal(key_load(path, key, text, sizeof(text)), -1);
        assert_non_null(strstr(text, "chmod 600"));
        assert_non_null(strstr(text, path));
    }
    assert_int_equal(chmod(path, 0400), 0);
    assert_int_equal(key_load(path, key, text, sizeof(text)), 0);
}

static void content_that_is_no_key_is_refused(void **state)
{
    static const char good[] = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";
    uint8_t key[HANDSHAKE_KEY];
    char bad[128];

    (void)state;
    file_write(good, 64, 0600); /* an editor that writes no newline */
    assert_int_equal(key_load(path, key, text, sizeof(text)), 0);
    assert_int_equal(key[1], 0x11);
    assert_int_equal(key[31], 0xff);
    for (size_t size = 0; size < 64; size += 21) {
        file_write(good, size, 0600);
        assert_int_equal(key_load(path, key, text, sizeof(text)), -1);
    }
    snprintf(bad, sizeof(bad), "%s\n\n", good);
    file_write(bad, 66, 0600);
    assert_int_equal(key_load(path, key, text, sizeof(text)), -1);
    snprintf(bad, sizeof(bad), "%s0", good);
    file_write(bad, 65, 0600);
    assert_int_equal(key_load(path, key, text, sizeof(text)), -1);
    snprintf(bad, sizeof(bad), "%s\n", good);
    bad[10] = 'g';
    file_write(bad, 65, 0600);
    assert_int_equal(key_load(path, key, text, sizeof(text)), -1);
    assert_non_null(strstr(text, path));
}

static void what_is_no_file_is_refused(void **state)
{
    uint8_t key[HANDSHAKE_KEY];

    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0); /* must not wait for a writer */
    assert_int_equal(key_load(path, key, text, sizeof(text)), -1);
    assert_non_null(strstr(text, "not a regular file"));
    assert_int_equal(key_load("/proc/self/nowhere/peer.key", key, text, sizeof(text)), -1);
    assert_non_null(strstr(text, "--peer-key"));
}

static void racer(int start, int result)
{
    uint8_t key[HANDSHAKE_KEY];
    char go;

    if (read(start, &go, 1) < 0 || key_load(path, key, text, sizeof(text)) < 0)
        _exit(1);
    _exit(write(result, key, sizeof(key)) == (ssize_t)sizeof(key) ? 0 : 1);
}

static void race_once(void)
{
    uint8_t keys[RACERS][HANDSHAKE_KEY];
    int start[2], result[2], status;

    assert_int_equal(pipe(start), 0);
    assert_int_equal(pipe(result), 0);
    for (int i = 0; i < RACERS; i++) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
            close(start[1]);
            racer(start[0], result[1]);
        }
    }
    close(start[0]);
    close(start[1]); /* they all go now */
    for (int i = 0; i < RACERS; i++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
        assert_int_equal(read(result[0], keys[i], HANDSHAKE_KEY), HANDSHAKE_KEY);
        assert_memory_equal(keys[i], keys[0], HANDSHAKE_KEY);
    }
    close(result[0]);
    close(result[1]);
}

static void all_who_start_at_once_end_with_one_key(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        race_once();
        assert_int_equal(unlink(path), 0);
    }
}

/* The temporary files of all the tests above. */
static void nothing_is_left_beside_it(void **state)
{
    DIR *open_directory = opendir(directory);
    const struct dirent *entry;

    (void)state;
    assert_non_null(open_directory);
    while ((entry = readdir(open_directory)) != NULL)
        assert_true(entry->d_name[0] == '.');
    closedir(open_directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_start_makes_it, path_choose, path_remove),
        cmocka_unit_test_setup_teardown(the_umask_does_not_matter, path_choose, path_remove),
        cmocka_unit_test_setup_teardown(missing_directories_are_made, path_choose, path_remove),
        cmocka_unit_test_setup_teardown(a_file_that_others_can_read_is_refused, path_choose,
                                        path_remove),
        cmocka_unit_test_setup_teardown(content_that_is_no_key_is_refused, path_choose,
                                        path_remove),
        cmocka_unit_test_setup_teardown(what_is_no_file_is_refused, path_choose, path_remove),
        cmocka_unit_test_setup_teardown(all_who_start_at_once_end_with_one_key, path_choose,
                                        path_remove),
        cmocka_unit_test(nothing_is_left_beside_it),
    };

    return cmocka_run_group_tests(tests, directory_open, directory_close);
}
