/* A user's window of records in flight to a worker: copies and orders that the worker answers. Pure
 * bookkeeping: no device, no memory.
 *
 * The worker takes records of all users in the order sent and answers each. So every record beyond
 * those that keep the worker busy delays all users behind it, twice a job: on the way in and on the
 * way out. Under contention a user has no more in flight than keeps the worker busy for about
 * SEND_WINDOW_NS; the rest waits here, in order, for the worker's answers. A user alone waits for
 * nothing. The time that jobs compute is shared out by schedule.h. */
#pragma once

#include "server/users/contention.h"
#include "base/list.h"

enum {
    SEND_WINDOW_NS = 64 * 1000, /* two slabs of 4 MiB over PCIe, or two records of less */
    /* The least cost of one: with two of a flood's small records in flight, another user's job
     * keeps 0.6 of its rate alone on two cores, with four of them 0.4. */
    SEND_WINDOW_RECORD_NS = 32 * 1000
};

/* One that the worker answers. */
struct record {
    struct list link;
    int64_t cost_ns;   /* 0: it delays nobody */
    uint64_t position; /* in the device's queue, once it is there (struct channel_queue) */
    bool is_order;     /* a struct order's; else a struct slab's */
};

/* A user's to one device. */
struct send_window {
    struct list waiting; /* struct record */
    int64_t there_ns;    /* the cost of those in flight */
};

/* Queue a record, which stays in place until it was answered or the window was cleared.
 * `contention` is between the windows of the device. */
static inline void send_window_add(struct send_window *window, struct contention *contention,
                                   struct record *record, uint64_t now_ns)
{
    list_push(&window->waiting, &record->link);
    contention_note(contention, window, now_ns);
}

/* The record to send now, in flight from here on; NULL: none. Call it until then, whenever one was
 * added or answered. */
static inline struct record *send_window_next(struct send_window *window,
                                              const struct contention *contention, uint64_t now_ns)
{
    if (list_empty(&window->waiting) ||
        (window->there_ns >= SEND_WINDOW_NS && !contention_is_none(contention, now_ns)))
        return NULL;
    struct record *record = LIST_TAKE(&window->waiting, struct record, link);
    window->there_ns += record->cost_ns;
    return record;
}

static inline void send_window_answered(struct send_window *window, const struct record *record)
{
    window->there_ns -= record->cost_ns;
}

/* The worker is gone, and all of them with it. */
static inline void send_window_clear(struct send_window *window)
{
    while (list_take(&window->waiting))
        ;
    window->there_ns = 0;
}
