/* What engines tell each other about themselves: a question and an answer over TCP.
 *
 *   question   "tesupask"  version u32  0 u32
 *   answer     "tesupcrd"  version u32  name_length u32  range_count u32  0 u32
 *              name_length bytes: the segment, HOST:PORT/SEGMENT
 *              range_count times: base u64  length u64  access u32  0 u32
 *
 * Numbers are little-endian.  name_length 0: this engine does not want to be opened.  The answer
 * ends the connection.  Nobody proves who he is: a card only says what to ask tesup for, and tesup
 * decides.
 */
#ifndef TESUP_COMPAT_MOONCAKE_CARD_H
#define TESUP_COMPAT_MOONCAKE_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/layout.h"

#define CARD_VERSION    1u
#define CARD_QUESTION   16u
#define CARD_HEADER     24u
#define CARD_RANGE      24u
#define CARD_RANGES_MAX 65536u
#define CARD_MS         3000u /* for a whole conversation */

/* Memory of the engine that peers may reach. */
struct range {
    uint64_t base, length;
    uint32_t access; /* TESUP_ACCESS_* */
};

struct card {
    char segment[LAYOUT_NAME_MAX];
    struct range *ranges; /* by base; none overlaps the next */
    size_t count;
};

void card_free(struct card *card);

void card_question_write(uint8_t bytes[CARD_QUESTION]);
bool card_question_is(const uint8_t bytes[CARD_QUESTION]);

/* The answer in bytes, to be freed; NULL without memory. */
uint8_t *card_write(const struct card *card, size_t *size);
/* How many bytes follow this header; -1 when it is none, with `why`. */
int64_t card_header_read(const uint8_t bytes[CARD_HEADER], const char **why);
/* Reads what follows it. 0, or -1 with `why`; the card is to be freed after 0. */
int card_body_read(const uint8_t header[CARD_HEADER], const uint8_t *body, struct card *card,
                   const char **why);

/* The range that has `address`, or NULL. */
const struct range *card_range_find(const struct range *ranges, size_t count, uint64_t address);

#endif
