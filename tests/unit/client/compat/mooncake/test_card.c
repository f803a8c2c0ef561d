/* Cards: what is written is read again, and what a stranger writes is refused in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/compat/mooncake/card.h"

static struct range ranges[] = {{4096, 4096, 3}, {8192, 1, 1}, {UINT64_MAX - 9, 9, 2}};

static uint8_t *written(struct range *list, size_t count, size_t *size)
{
    struct card card = {.segment = "127.0.0.1:7400/job", .ranges = list, .count = count};
    uint8_t *bytes = card_write(&card, size);

    assert_non_null(bytes);
    return bytes;
}

static void what_is_written_is_read(void **state)
{
    struct card card;
    const char *why = "";
    size_t size;
    uint8_t *bytes = written(ranges, 3, &size);

    (void)state;
    assert_int_equal(card_header_read(bytes, &why), size - CARD_HEADER);
    assert_int_equal(card_body_read(bytes, bytes + CARD_HEADER, &card, &why), 0);
    assert_string_equal(card.segment, "127.0.0.1:7400/job");
    assert_int_equal(card.count, 3);
    assert_memory_equal(card.ranges, ranges, sizeof(ranges));
    card_free(&card);
    free(bytes);
}

static void header_refused(size_t at, uint8_t byte, const char *sentence)
{
    const char *why = "";
    size_t size;
    uint8_t *bytes = written(ranges, 1, &size);

    bytes[at] = byte;
    assert_int_equal(card_header_read(bytes, &why), -1);
    assert_non_null(strstr(why, sentence));
    free(bytes);
}

static void headers_of_strangers(void **state)
{
    (void)state;
    header_refused(0, 'T', "no libtransfer_engine of tesup");
    header_refused(8, 2, "another version");
    header_refused(13, 2, "longer than any"); /* a name of 512 bytes and more */
    header_refused(18, 2, "longer than any"); /* 131,072 ranges */
}

static void body_refused(struct range *list, size_t count)
{
    struct card card;
    const char *why = "";
    size_t size;
    uint8_t *bytes = written(list, count, &size);

    assert_int_equal(card_body_read(bytes, bytes + CARD_HEADER, &card, &why), -1);
    assert_non_null(strstr(why, "no list of ranges"));
    free(bytes);
}

static void ranges_that_are_none(void **state)
{
    struct range empty[] = {{4096, 0, 3}};
    struct range endless[] = {{4096, UINT64_MAX - 4095, 3}};
    struct range overlapping[] = {{4096, 4096, 3}, {8191, 1, 3}};
    struct range unsorted[] = {{8192, 1, 3}, {4096, 1, 3}};

    (void)state;
    body_refused(empty, 1);
    body_refused(endless, 1);
    body_refused(overlapping, 2);
    body_refused(unsorted, 2);
}

static void name_with_a_nul(void **state)
{
    struct card card;
    const char *why = "";
    size_t size;
    uint8_t *bytes = written(ranges, 0, &size);

    (void)state;
    bytes[CARD_HEADER + 3] = '\0';
    assert_int_equal(card_body_read(bytes, bytes + CARD_HEADER, &card, &why), -1);
    assert_non_null(strstr(why, "NUL"));
    free(bytes);
}

static void ranges_are_found_by_address(void **state)
{
    (void)state;
    assert_null(card_range_find(ranges, 3, 4095));
    assert_ptr_equal(card_range_find(ranges, 3, 4096), &ranges[0]);
    assert_ptr_equal(card_range_find(ranges, 3, 8191), &ranges[0]);
    assert_ptr_equal(card_range_find(ranges, 3, 8192), &ranges[1]);
    assert_null(card_range_find(ranges, 3, 8193));
    assert_ptr_equal(card_range_find(ranges, 3, UINT64_MAX - 1), &ranges[2]);
    assert_null(card_range_find(ranges, 3, UINT64_MAX));
    assert_null(card_range_find(NULL, 0, 0));
}

static void questions(void **state)
{
    uint8_t question[CARD_QUESTION];

    (void)state;
    card_question_write(question);
    assert_true(card_question_is(question));
    question[8]++;
    assert_false(card_question_is(question));
    question[8]--;
    question[0] = 'T';
    assert_false(card_question_is(question));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),     cmocka_unit_test(headers_of_strangers),
        cmocka_unit_test(ranges_that_are_none),        cmocka_unit_test(name_with_a_nul),
        cmocka_unit_test(ranges_are_found_by_address), cmocka_unit_test(questions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
