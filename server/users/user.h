/* Users: the peers' uids. Everything that a client makes the server hold is charged to its user. */
#pragma once

#include "server/users/arena.h"
#include "server/config/config.h"
#include "server/metrics/counters.h"
#include "server/users/descriptors.h"
#include "server/users/schedule.h"

#include <uv/tree.h>

/* Devices of a server, by number. */
enum { DEVICES_MOST = 64 };

/* So many users are kept without need: beyond them go those who hold and owe nothing. */
enum { USERS_KEPT = 1024 };

/* Fields that have an id, in its order. */
RB_HEAD(field_tree, field);

/* All users, and what they hold together. */
struct users {
    const struct config *config;
    struct list list;     /* struct user, in the order in which they came or last left */
    uint64_t count;       /* of them */
    uint64_t descriptors; /* that the process may have (descriptors.h) */
    struct counters counters;
};

/* Parts of a user that I/O alone keeps: the turns of the user's connections (server/io/turn.h), and
 * of those of them that wait for a thread (server/io/bounds.h). */
struct turn_user {
    struct list link;         /* in turn->ready */
    struct list again;        /* struct connection: has input at hand, or events that have come */
    struct turn_watch *watch; /* the epoll instance; NULL: no connection of late */
    int64_t credit_ns;        /* negative: a debt, which outlasts the last connection */
};

struct kernel_account {
    uint32_t kept;
    uint64_t next_ns; /* when the next may begin, were none let to begin early (kernels.h) */
};

struct bounds_user {
    bool busy;           /* a connection of theirs is CALLED, or a thread is at work */
    struct list waiting; /* struct connection */
};

/* A user's part of one device. */
struct device_user {
    struct flow flow;          /* of the device's time */
    struct send_window window; /* to its worker */
    uint64_t bytes;            /* of the user's arrays there */
    uint64_t arrays;           /* their number */
    int64_t due_ns;            /* that the user's jobs there will take, by estimate; 0: none */
    uint32_t homes;            /* connections of the user's whose home it is */
    uint32_t slots;            /* of its mailbox, that the user's copies have taken */
};

struct user {
    struct list link;
    struct users *users;
    uid_t uid;
    struct counters counters;
    struct field_tree field_tree;
    struct list region_list; /* struct region */
    uint32_t slabs[SHARE_COUNT];
    struct slab_queue slab_queues[SHARE_COUNT];
    struct passing_account passed;          /* descriptors of theirs that wait to be closed */
    struct device_user *part[DEVICES_MOST]; /* by the device's number; NULL: never had any */
    bool maps[DEVICES_MOST];                /* its worker is at a region of the user's */
    struct kernel_account kernels;          /* compiled for the user's stencils */
    struct turn_user turn;                  /* of the loop's time */
    struct bounds_user bounds;
};

/* Count n more of the user's, and of all users'; a negative n: less. */
#define USER_COUNT(user, member, n)                                                                \
    ((user)->counters.member += (uint64_t)(n), (user)->users->counters.member += (uint64_t)(n))

/* The user with that uid, made at first sight. NULL: no memory. */
struct user *user_find(struct users *users, uid_t uid);

/* A connection of the user's has gone. */
void user_left(struct user *user);

/* Forget users beyond USERS_KEPT, the one who has been away for longest first, of those who hold
 * nothing and owe nothing. Whatever keeps a user's address must therefore show in user_is_idle().
 * Called twice a second, when no caller uses any. */
void users_forget_idle(struct users *users);

/* The user's part of the device of that number, made at first sight and kept as long as the user.
 * NULL with OUT_OF_MEMORY. */
struct device_user *user_part(struct user *user, uint32_t device, struct failure *failure);

/* The worker of the device of that number is lost, with the plans that it has made: the next one
 * makes them again, which counts in the schedule. */
void users_forget_plans(struct users *users, uint32_t device);
