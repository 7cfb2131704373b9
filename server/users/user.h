/* Users: the peers' uids. Everything that a client makes the server hold is charged to its user. */
#pragma once

#include "server/users/arena.h"
#include "server/config/config.h"
#include "server/metrics/counters.h"
#include "server/users/descriptors.h"
#include "server/users/schedule.h"

#include <uv/tree.h>

/* Fields that have an id, in its order. */
RB_HEAD(field_tree, field);

/* All users, and what they hold together. */
struct users {
    const struct config *config;
    struct list list;     /* struct user */
    uint64_t front_bytes; /* of the front's own memory (memory.h) */
    uint64_t descriptors; /* that the process may have (descriptors.h) */
    struct counters totals;
};

/* Parts of a user that I/O alone keeps: the turns of the user's connections (server/io/turn.h), and
 * of those of them that wait for a thread (server/io/bounds.h). */
struct turn_user {
    struct list link;         /* in turn->ready */
    struct list again;        /* struct connection: has input at hand, or events that have come */
    struct turn_watch *watch; /* the epoll instance; NULL: no connection of late */
    int64_t credit_ns;        /* negative: a debt, kept when the last connection has gone */
};

struct bounds_user {
    bool busy;           /* a connection of theirs is CALLED, or a thread is at work */
    struct list waiting; /* struct connection */
};

struct user {
    struct list link;
    struct users *users;
    uid_t uid;
    uint32_t connections;
    uint64_t jobs;   /* accepted, not yet answered */
    uint64_t fields; /* resident, with an id: in … */
    struct field_tree field_tree;
    uint64_t arrays;         /* on the device, resident or of a job */
    uint64_t bytes;          /* of those arrays */
    uint64_t queue_bytes;    /* of those that are a job's */
    uint64_t region_bytes;   /* charged */
    uint64_t front_bytes;    /* of the front's own memory (memory.h) */
    uint32_t regions;        /* registered or being registered, and those of them … */
    uint32_t mapped_regions; /* … that have a place on the device */
    struct list region_list; /* struct region */
    uint32_t slabs[SHARE_COUNT];
    struct slab_queue slab_queues[SHARE_COUNT];
    struct passing_account passed; /* descriptors of theirs that wait to be closed */
    struct device *device;         /* where all the user's work goes while there is any */
    struct flow flow;              /* of that device's time */
    struct send_window window;     /* to its worker */
    struct turn_user turn;         /* of the loop's time */
    struct bounds_user bounds;
    struct counters counters;
};

/* The user with that uid, made at first sight. Users are few, and kept as long as the process
 * lives: threads that close what a user passed count it in `passed`. NULL: no memory. */
struct user *user_find(struct users *users, uid_t uid);

/* A request of the user's was refused before it became a job. */
void user_count_refused(struct user *user);
