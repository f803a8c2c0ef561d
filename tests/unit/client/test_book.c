/* The book of handles: sorted, exact, and renamed only on one side. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "client/internal.h"

static void test_add_find_take(void **state)
{
    struct book book;
    uint32_t wire = 0;
    int objects[3];

    (void)state;
    book_init(&book);
    assert_null(book_find(&book, 5, &wire));
    assert_int_equal(book_add(&book, 5, 50, &objects[0]), TS_OK);
    assert_int_equal(book_add(&book, 1, 10, &objects[1]), TS_OK);
    assert_int_equal(book_add(&book, 3, 30, &objects[2]), TS_OK);
    assert_int_equal(book_add(&book, 3, 31, &objects[2]), TS_ERR_EXISTS);
    assert_ptr_equal(book_find(&book, 3, &wire), &objects[2]);
    assert_int_equal(wire, 30);
    assert_int_equal(book_user(&book, 50), 5);
    assert_int_equal(book_user(&book, 5), 0);
    book_move(&book, 5, 51);
    assert_int_equal(book_user(&book, 50), 0);
    assert_int_equal(book_user(&book, 51), 5);
    assert_ptr_equal(book_take(&book, 3), &objects[2]);
    assert_null(book_take(&book, 3));
    assert_null(book_find(&book, 3, &wire));
    assert_ptr_equal(book_find(&book, 5, &wire), &objects[0]);
    assert_int_equal(book.count, 2);
    book_fini(&book);
}

/* Against a plain table: random adds and takes of many handles. */
static void test_random(void **state)
{
    static uint32_t model[512];
    struct book book;
    size_t count = 0;

    (void)state;
    srandom(1);
    book_init(&book);
    for (int i = 0; i < 20000; i++) {
        uint32_t user = (uint32_t)random() % 512;
        uint32_t wire = (uint32_t)random() | 1;

        if (random() % 2 == 0) {
            int rc = book_add(&book, user, wire, &model[user]);

            assert_int_equal(rc, model[user] == 0 ? TS_OK : TS_ERR_EXISTS);
            count += rc == TS_OK;
            if (rc == TS_OK)
                model[user] = wire;
        } else {
            void *object = book_take(&book, user);

            assert_ptr_equal(object, model[user] != 0 ? &model[user] : NULL);
            count -= object != NULL;
            model[user] = 0;
        }
        assert_int_equal(book.count, count);
    }
    for (uint32_t user = 0; user < 512; user++) {
        uint32_t wire = 0;

        book_find(&book, user, &wire);
        assert_int_equal(wire, model[user]);
    }
    for (size_t i = 1; i < book.count; i++)
        assert_true(book.entries[i - 1].user < book.entries[i].user);
    book_fini(&book);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add_find_take),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
