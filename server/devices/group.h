/* A group: all devices of one kind as one more device, named "distributed", whose arrays are cut
 * into subdomains, one on each member (numerics/subdomain.h). It has no worker: its orders become
 * orders to its members.
 *
 *   order ─► { exchange ghost planes ─► an order to each member ─► all have ended } … ─► finished
 *
 * Where the members compute own planes (gpu/backend.h), a round of a diffusion's steps is such that
 * they do it at once, and the exchange goes beside it: the edges come first, are copied to the
 * neighbours while the others are computed, and then the next round is ordered:
 *
 *   edges ─► their copies ─┬─► edges …
 *   other planes ··········┴─► other planes …
 *
 * An order on its way is a run (group_run.h). It goes in rounds of as many time steps as the ghost
 * planes allow, or in the legs of a step, before each of which planes are copied. Runs of
 * one task follow each other in the order given; the tasks' accesses to their fields keep the runs
 * of different tasks apart.
 *
 * When the worker of a member ends, all arrays of the group are lost; its runs end when the other
 * members have let go of their parts. */
#pragma once

#include "numerics/subdomain.h"
#include "server/devices/device.h"
#include "server/devices/field.h"

#define GROUP_NAME "distributed"

struct group {
    uint32_t count;
    struct device *member[SUBDOMAINS_MOST];
    struct list runs;        /* struct group_run, first come first */
    struct order *abandoned; /* orders without memory for a run, by next_running: group_flush() */
    bool settling;           /* within group_settle(), which does not nest */
};

/* Once all devices have settled: make a group of those of the first kind of which there are two or
 * more. False: no memory. */
bool group_open(struct devices *devices);
/* Of the group's device, whose memory stays the caller's. */
void group_free(struct device *device);

/* Are arrays of that type thick enough to be cut there? */
bool group_cuts(const struct device *group, const struct array_type *type);

/* The front's memory that an order to the group takes until it has ended: its task's charge. */
uint64_t group_run_bytes(const struct group *group);

/* device_order() of a group: finished() follows, once, and not before this returns. */
void group_order(struct device *device, struct order *order);
/* At the end of a turn of the loop: finish the orders that ended within group_order(). */
void group_flush(struct device *device);

/* Take the group's runs on as far as they go; finished() is called for those that end. Also called
 * when all copies to an array of the group have ended. */
void group_settle(struct device *device);

/* The edges of a part's own planes are there. False: they cannot be. */
bool group_part_edges(struct order *part);
/* An order to a member has ended; the parameters are those of device_events.finished(). */
void group_part_finished(struct order *part, enum status status,
                         const struct channel_message *said);

/* The group that the device is a member of; NULL: none. */
struct device *group_of(const struct device *member);

/* For a device that is a member; of others these do nothing. */
/* Its worker is ready: so is the group, if all are. */
void group_member_ready(const struct device *member);
/* Its worker is gone, and its arrays are lost: lose the group's arrays, before their copies end. */
void group_lose(const struct device *member);
/* Its copies and tasks have ended, too: fail the group's tasks. */
void group_lost(const struct device *member);
