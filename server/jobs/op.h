/* One operator of a task: its job, and what its orders need. A put and a get have one, too. */
#pragma once

#include "server/devices/device.h"
#include "server/devices/field.h"

struct task;

enum {
    OP_READS = AXIS_COUNT + OPERANDS,
    OP_ARRAYS = OP_READS + 2 * AXIS_COUNT + 1,
    OP_ACCESSES = 2 * AXIS_COUNT + OPERANDS
};

struct op {
    struct task *task;
    struct job job;
    struct array_type type; /* of each array */
    enum out_kind out_kind;
    /* Its arrays, referenced: inputs, outputs and scratch by component (what is no vector is the
     * first alone; of one output the scratch is all that it needs), operands by enum operand, and
     * `result`, in which measures work. */
    union {
        struct field *array[OP_ARRAYS], *read[OP_READS];
        struct {
            struct field *in[AXIS_COUNT], *operand[OPERANDS];
            struct field *out[AXIS_COUNT], *scratch[AXIS_COUNT], *result;
        };
    };
    bool in_is_own[AXIS_COUNT]; /* it came with the request and goes with it */
    uint8_t *block;             /* the job's, owned; NULL: it has none */
    double cfl;                 /* asked for, of a κ that is measured; 0: dt was */
    /* Those that lie in regions. Where the device computes there itself, they have no array;
     * operands are copied to theirs before the job runs. */
    union {
        struct region_use read_place[OP_READS];
        struct {
            struct region_use in_place[AXIS_COUNT], operand_place[OPERANDS];
        };
    };
    struct region_use out_place[AXIS_COUNT];
    struct access access[OP_ACCESSES]; /* of resident fields that no op before it has; referenced */
    void *small[OP_READS]; /* what came with the control message of what it reads, and waits for a
                              slab; owned */
    uint64_t ended;        /* how often it has written its outputs, of more than one time */
};

/* Zeroed before. */
void op_init(struct op *op, struct task *task);

/* It is to use the resident field, once whatever it is used for: field_access() is to follow. */
void op_note_access(struct op *op, struct field *field, bool writes);

/* What it holds goes back, but for its places; those last of all, when the answer is out: an
 * unregister that waits is answered after the jobs that it waited for. */
void op_release(struct op *op);
void op_end_places(struct op *op);

/* It has run once more: after the last time it lets go of what nobody needs any more. */
void op_ended(struct op *op);

/* All of them get an id, or none; or lose it. */
bool op_publish(struct field *const fields[AXIS_COUNT], struct failure *failure);
void op_withdraw(struct field *const fields[AXIS_COUNT]);

/* What it is as one order, without an id. */
void op_order(const struct op *op, struct order *order);
