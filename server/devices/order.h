/* What a worker is told to do for a task, and answers once: a RUN, a MEASURE, or a copy between an
 * array and a region. */
#pragma once

#include "numerics/measure.h"
#include "numerics/job.h"
#include "server/users/send_window.h"

struct field;
struct region_use;
struct task;
struct user;

enum order_kind {
    ORDER_RUN,
    ORDER_MEASURE, /* in[0], or its distances from in[1], with out[0] to work in */
    ORDER_READ,    /* in[0] from its place in a region */
    ORDER_WRITE    /* in[0] to its place */
};

/* Its arrays, places and parameters are its task's, and stay while it is with the worker. */
struct order {
    struct order *next_running; /* in its bucket of the device */
    struct task *task;          /* of this user: */
    struct user *user;
    bool is_short;        /* else it goes alone, and must not hold up its user's others meanwhile */
    struct record record; /* in its user's send window */
    bool stopped;         /* while it waited there */
    uint64_t id;          /* on the channel; 0: it is not with the worker */
    enum order_kind kind;
    bool progress;   /* RUN: the worker is to tell */
    uint64_t chain;  /* RUN: of which it is one (channel.h); 0: of none */
    bool ends_round; /* … and the last of those that are likely to come again */
    const struct job *job;
    const uint8_t *block;
    struct field *in[AXIS_COUNT], *out[AXIS_COUNT], *scratch[AXIS_COUNT];
    struct field *operand[OPERANDS];
    const struct region_use *in_place, *out_place; /* of each component; NULL: none has any */
    struct measured measured;                      /* MEASURE, once it has ended well */
};
