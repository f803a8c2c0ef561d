/* A book of handles: what the application holds against what the supervisor holds.
 *
 * They are equal until a supervisor dies: its successor gives out new handles, and the application
 * keeps the old ones.  Sorted by the user's handle.
 */
#include <stdlib.h>
#include <string.h>

#include "client/internal.h"

void book_init(struct book *book)
{
    *book = (struct book){.count = 0};
    pthread_mutex_init(&book->lock, NULL);
}

/* The lock is left alone: in a child another thread of the parent may seem to hold it. */
void book_fini(struct book *book)
{
    free(book->entries);
    book->entries = NULL;
    book->count = 0;
}

/* Index of `user`, or of the first entry behind it. */
static size_t book_place(const struct book *book, uint32_t user)
{
    size_t low = 0, high = book->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (book->entries[middle].user < user)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct book_entry *book_entry(const struct book *book, uint32_t user)
{
    size_t place = book_place(book, user);

    if (place == book->count || book->entries[place].user != user)
        return NULL;
    return &book->entries[place];
}

static int book_grow(struct book *book)
{
    size_t room = book->room > 0 ? book->room * 2 : 16;
    struct book_entry *entries;

    if (book->count < book->room)
        return TS_OK;
    entries = realloc(book->entries, room * sizeof(*entries));
    if (entries == NULL)
        return TS_ERR_NO_MEMORY;
    book->entries = entries;
    book->room = room;
    return TS_OK;
}

int book_add(struct book *book, uint32_t user, uint32_t wire, void *object)
{
    size_t place;
    int rc = TS_ERR_EXISTS;

    pthread_mutex_lock(&book->lock);
    if (book_entry(book, user) != NULL)
        goto out;
    rc = book_grow(book);
    if (rc != TS_OK)
        goto out;
    place = book_place(book, user);
    memmove(book->entries + place + 1, book->entries + place,
            (book->count - place) * sizeof(*book->entries));
    book->entries[place] = (struct book_entry){.user = user, .wire = wire, .object = object};
    book->count++;
out:
    pthread_mutex_unlock(&book->lock);
    return rc;
}

void *book_find(struct book *book, uint32_t user, uint32_t *wire)
{
    const struct book_entry *entry;
    void *object = NULL;

    pthread_mutex_lock(&book->lock);
    entry = book_entry(book, user);
    if (entry != NULL) {
        object = entry->object;
        *wire = entry->wire;
    }
    pthread_mutex_unlock(&book->lock);
    return object;
}

void book_move(struct book *book, uint32_t user, uint32_t wire)
{
    struct book_entry *entry;

    pthread_mutex_lock(&book->lock);
    entry = book_entry(book, user);
    if (entry != NULL)
        entry->wire = wire;
    pthread_mutex_unlock(&book->lock);
}

void *book_take(struct book *book, uint32_t user)
{
    struct book_entry *entry;
    void *object = NULL;

    pthread_mutex_lock(&book->lock);
    entry = book_entry(book, user);
    if (entry != NULL) {
        size_t behind = book->count - 1 - (size_t)(entry - book->entries);

        object = entry->object;
        memmove(entry, entry + 1, behind * sizeof(*entry));
        book->count--;
    }
    pthread_mutex_unlock(&book->lock);
    return object;
}

uint32_t book_user(struct book *book, uint32_t wire)
{
    uint32_t user = 0;

    pthread_mutex_lock(&book->lock);
    for (size_t i = 0; i < book->count && user == 0; i++)
        if (book->entries[i].wire == wire)
            user = book->entries[i].user;
    pthread_mutex_unlock(&book->lock);
    return user;
}
