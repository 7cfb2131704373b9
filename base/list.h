/* Intrusive doubly linked lists. A list head is a link whose neighbours are the ends. Zeroed, it is
 * an empty list, and a zeroed link is in none. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct list {
    struct list *prev, *next;
};

#define LIST_ENTRY(link, type, member) ((type *)((char *)(link)-offsetof(type, member)))

static inline void list_init(struct list *list)
{
    list->prev = list->next = list;
}

/* The first link and the last; of an empty list both are the list itself. */
static inline struct list *list_begin(const struct list *list)
{
    return list->next ? list->next : (struct list *)(uintptr_t)list;
}

static inline struct list *list_last(const struct list *list)
{
    return list->prev ? list->prev : (struct list *)(uintptr_t)list;
}

static inline bool list_empty(const struct list *list)
{
    return list_begin(list) == list;
}

static inline void list_push(struct list *list, struct list *link)
{
    if (!list->next)
        list_init(list);
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}

static inline void list_push_front(struct list *list, struct list *link)
{
    list_push(list_begin(list), link);
}

/* A removed link is a list of its own, so removing it twice is harmless. */
static inline void list_remove(struct list *link)
{
    if (!link->next)
        return;
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}

/* All of `from` go to the end of `to`. */
static inline void list_move(struct list *from, struct list *to)
{
    if (list_empty(from))
        return;
    if (!to->next)
        list_init(to);
    from->prev->next = to;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    to->prev = from->prev;
    list_init(from);
}

static inline struct list *list_first(const struct list *list)
{
    return list_empty(list) ? NULL : list->next;
}

static inline struct list *list_take(struct list *list)
{
    struct list *const link = list_first(list);
    if (link)
        list_remove(link);
    return link;
}

static inline void *list_entry(struct list *link, size_t offset)
{
    return link ? (char *)link - offset : NULL;
}

/* The first entry, and the same taken out of the list; NULL where there is none. */
#define LIST_FIRST(list, type, member)                                                             \
    ((type *)list_entry(list_first(list), offsetof(type, member)))
#define LIST_TAKE(list, type, member) ((type *)list_entry(list_take(list), offsetof(type, member)))

/* Loops over the entries: the body may remove the one that it is at; LIST_DRAIN takes each out. */
#define LIST_DRAIN(type, name, list, member)                                                       \
    for (type * name; (name = LIST_TAKE(list, type, member));)
#define LIST_EACH(type, name, list, member)                                                        \
    for (type *name = LIST_ENTRY(list_begin(list), type, member), *name##_next;                    \
         &name->member != (list) &&                                                                \
         (name##_next = LIST_ENTRY(name->member.next, type, member), true);                        \
         name = name##_next)
