/* Intrusive doubly linked list.  A node that is in no list points at itself. */
#ifndef TESUP_SHM_LIST_H
#define TESUP_SHM_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next, *prev;
};

#define list_entry(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

/* Safe when the body removes `node`; not when it removes `following`. */
#define list_each(node, following, head)                                            \
    for (struct list *node = (head)->next, *following = node->next; node != (head); \
         node = following, following = node->next)

static inline void list_init(struct list *node)
{
    node->next = node;
    node->prev = node;
}

static inline bool list_empty(const struct list *head)
{
    return head->next == head;
}

static inline void list_append(struct list *head, struct list *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

#endif
