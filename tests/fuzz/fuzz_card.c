/* What an engine of libtransfer_engine.so hears at its port, and what one that it asked answers. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/compat/mooncake/card.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Sorted, without overlap, and found by their first and last bytes. */
static void card_check(const struct card *card)
{
    uint64_t end = 0;

    if (strlen(card->segment) >= sizeof(card->segment) || card->count > CARD_RANGES_MAX)
        abort();
    for (size_t i = 0; i < card->count; i++) {
        const struct range *range = &card->ranges[i];

        if (range->length == 0 || range->base < end || range->base > UINT64_MAX - range->length)
            abort();
        end = range->base + range->length;
        if (card_range_find(card->ranges, card->count, range->base) != range ||
            card_range_find(card->ranges, card->count, end - 1) != range)
            abort();
    }
    if (card_range_find(card->ranges, card->count, end) != NULL)
        abort();
}

/* What was read is written as the same card. */
static void card_repeat(const struct card *card)
{
    const char *why = NULL;
    struct card again;
    size_t size = 0;
    uint8_t *bytes = card_write(card, &size);

    if (bytes == NULL || card_header_read(bytes, &why) != (int64_t)(size - CARD_HEADER) ||
        card_body_read(bytes, bytes + CARD_HEADER, &again, &why) != 0 ||
        again.count != card->count || strcmp(again.segment, card->segment) != 0)
        abort();
    card_free(&again);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *why = NULL;
    struct card card;
    uint8_t *body;
    int64_t rest;

    if (size >= CARD_QUESTION)
        (void)card_question_is(data);
    if (size < CARD_HEADER)
        return 0;
    rest = card_header_read(data, &why);
    if (rest < 0 && why == NULL)
        abort(); /* a refusal comes with its sentence */
    if (rest < 0 || (size_t)rest > size - CARD_HEADER)
        return 0;
    body = malloc(rest > 0 ? (size_t)rest : 1); /* of its size: a byte too far is seen */
    memcpy(body, data + CARD_HEADER, (size_t)rest);
    if (card_body_read(data, body, &card, &why) == 0) {
        card_check(&card);
        card_repeat(&card);
        card_free(&card);
    } else if (why == NULL) {
        abort();
    }
    free(body);
    return 0;
}
