/* Users: the peers' uids. Everything that a client makes the server hold is charged to its user. */
#ifndef SERVER_USERS_USER_H
#define SERVER_USERS_USER_H

#include "server/devices/arena.h"
#include "server/io/bounds.h"
#include "server/io/fair.h"
#include "server/users/lane.h"
#include "server/metrics/latency.h"
#include "base/list.h"
#include "server/io/descriptor_passing.h"
#include "server/users/schedule.h"
#include "server/jobs/task_state.h"

#include <stdint.h>
#include <sys/types.h>
#include <uv/tree.h>

struct device;
struct field;

/* Counts since a user was first seen, or since the server started. */
struct counters {
    uint64_t jobs[TASK_OUTCOME_COUNT]; /* that have ended so */
    uint64_t bytes_in, bytes_out;      /* payload */
    struct latency latency;            /* request read to reply handed to the socket, of jobs */
};

/* Fields that have an id, in its order. */
RB_HEAD(field_tree, field);

struct user {
    struct list link;
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
    struct passed_account passed; /* descriptors of theirs that wait to be closed */
    struct device *device;        /* where all the user's work goes while there is any */
    struct flow flow;             /* of that device's time */
    struct lane lane;             /* to its worker */
    struct fair_user fair;        /* of the loop's */
    struct bounds_user bounds;
    struct counters counters;
};

struct server;

/* The user with that uid, made at first sight. Users are few, and kept as long as the process
 * lives: threads that close what a user passed count it in `passed`. NULL: no memory. */
struct user *user_find(struct server *server, uid_t uid);

/* The device for the user's next array: the one where the user's other things are, else the one
 * with the most room. */
struct device *user_device(struct server *server, struct user *user);

/* A request of the user's was refused before it became a job. */
void user_count_refused(struct server *server, struct user *user);

/* Call when a job, field, array or region is gone: a user who holds nothing may be placed anew. */
void user_settle(struct user *user);

#endif
