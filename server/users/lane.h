/* What a user has with a worker at once: copies and orders that the worker answers. Pure
 * bookkeeping: no device, no memory.
 *
 * The worker takes them in the order sent, whoever they are of, and answers each. So what a user
 * sends beyond what keeps the worker busy, everybody who comes after waits for: twice a job, on the
 * way in and on the way out. A user who has company on the device has no more there than takes the
 * worker about LANE_NS; the rest waits here, in its order, for the worker's answers. A user alone
 * waits for nothing. The time that jobs compute is shared out elsewhere (schedule.h). */
#ifndef SERVER_USERS_LANE_H
#define SERVER_USERS_LANE_H

#include "server/users/company.h"
#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    LANE_NS = 64 * 1000, /* two slabs of 4 MiB over PCIe, or two records of less */
    /* The least that one counts for: with two of a flood's small records there, another user's job
     * keeps 0.6 of its rate alone on two cores, with four of them 0.4. */
    LANE_RECORD_NS = 32 * 1000
};

/* One that the worker answers. */
struct record {
    struct list link;
    int64_t cost_ns;
    bool is_order; /* a struct order's; else a struct slab's */
};

/* A user's; of one device at a time. */
struct lane {
    struct list waiting; /* struct record */
    int64_t there_ns;    /* what those with the worker cost */
};

void lane_init(struct lane *lane);

/* A record waits for its turn, among the lanes of the device, whose company they are; its cost_ns
 * is set: 0 for one that holds up nobody's. It stays where it is until it was answered or the lane
 * was cleared. */
void lane_add(struct lane *lane, struct company *company, struct record *record, uint64_t now_ns);
/* The record to send now, which is with the worker from here on; NULL: none. Call it until then,
 * whenever one was added or answered. */
struct record *lane_next(struct lane *lane, const struct company *company, uint64_t now_ns);
void lane_answered(struct lane *lane, const struct record *record);

/* The worker is gone, and all of them with it. */
void lane_clear(struct lane *lane);

#endif
