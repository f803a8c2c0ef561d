#include "client/compat/mooncake/card.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

static const char question_word[8] = {'t', 'e', 's', 'u', 'p', 'a', 's', 'k'};
static const char answer_word[8] = {'t', 'e', 's', 'u', 'p', 'c', 'r', 'd'};

static void put32(uint8_t *to, uint32_t value)
{
    value = htole32(value);
    memcpy(to, &value, sizeof(value));
}

static void put64(uint8_t *to, uint64_t value)
{
    value = htole64(value);
    memcpy(to, &value, sizeof(value));
}

static uint32_t get32(const uint8_t *from)
{
    uint32_t value;

    memcpy(&value, from, sizeof(value));
    return le32toh(value);
}

static uint64_t get64(const uint8_t *from)
{
    uint64_t value;

    memcpy(&value, from, sizeof(value));
    return le64toh(value);
}

void card_free(struct card *card)
{
    free(card->ranges);
    card->ranges = NULL;
    card->count = 0;
}

void card_question_write(uint8_t bytes[CARD_QUESTION])
{
    memcpy(bytes, question_word, sizeof(question_word));
    put32(bytes + 8, CARD_VERSION);
    put32(bytes + 12, 0);
}

bool card_question_is(const uint8_t bytes[CARD_QUESTION])
{
    return memcmp(bytes, question_word, sizeof(question_word)) == 0 &&
           get32(bytes + 8) == CARD_VERSION;
}

uint8_t *card_write(const struct card *card, size_t *size)
{
    size_t name = strlen(card->segment);
    uint8_t *bytes, *at;

    *size = CARD_HEADER + name + card->count * CARD_RANGE;
    bytes = calloc(1, *size);
    if (bytes == NULL)
        return NULL;
    memcpy(bytes, answer_word, sizeof(answer_word));
    put32(bytes + 8, CARD_VERSION);
    put32(bytes + 12, (uint32_t)name);
    put32(bytes + 16, (uint32_t)card->count);
    at = bytes + CARD_HEADER;
    memcpy(at, card->segment, name);
    at += name;
    for (size_t i = 0; i < card->count; i++, at += CARD_RANGE) {
        put64(at, card->ranges[i].base);
        put64(at + 8, card->ranges[i].length);
        put32(at + 16, card->ranges[i].access);
    }
    return bytes;
}

int64_t card_header_read(const uint8_t bytes[CARD_HEADER], const char **why)
{
    uint32_t name = get32(bytes + 12), count = get32(bytes + 16);

    if (memcmp(bytes, answer_word, sizeof(answer_word)) != 0) {
        *why = "what answers there is no libtransfer_engine of tesup";
        return -1;
    }
    if (get32(bytes + 8) != CARD_VERSION) {
        *why = "the libtransfer_engine there is of another version; install the same release";
        return -1;
    }
    if (name >= LAYOUT_NAME_MAX || count > CARD_RANGES_MAX) {
        *why = "its answer is longer than any can be";
        return -1;
    }
    return (int64_t)name + (int64_t)count * CARD_RANGE;
}

/* Ranges that overlap, or are not sorted, would make the search endless guesswork. */
static bool range_follows(const struct range *range, uint64_t end)
{
    return range->length > 0 && range->base >= end && range->length <= UINT64_MAX - range->base;
}

int card_body_read(const uint8_t header[CARD_HEADER], const uint8_t *body, struct card *card,
                   const char **why)
{
    size_t name = get32(header + 12);
    uint64_t end = 0;

    memset(card, 0, sizeof(*card));
    memcpy(card->segment, body, name);
    if (strlen(card->segment) != name) {
        *why = "its name has a NUL";
        return -1;
    }
    card->count = get32(header + 16);
    card->ranges = calloc(card->count + 1, sizeof(*card->ranges));
    if (card->ranges == NULL) {
        *why = "there is no memory for its answer";
        return -1;
    }
    body += name;
    for (size_t i = 0; i < card->count; i++, body += CARD_RANGE) {
        struct range *range = &card->ranges[i];

        *range = (struct range){
            .base = get64(body), .length = get64(body + 8), .access = get32(body + 16)};
        if (!range_follows(range, end)) {
            card_free(card);
            *why = "the memory that it offers is no list of ranges";
            return -1;
        }
        end = range->base + range->length;
    }
    return 0;
}

const struct range *card_range_find(const struct range *ranges, size_t count, uint64_t address)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (ranges[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || address - ranges[low - 1].base >= ranges[low - 1].length)
        return NULL;
    return &ranges[low - 1];
}
