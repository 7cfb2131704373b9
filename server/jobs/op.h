/* One operator of a task: its job, and what its orders need. A put and a get have one, too. */
#pragma once

#include "protocol/request.h"
#include "server/devices/field.h"
#include "server/devices/order.h"
#include "server/devices/region.h"

struct task;

enum { OP_READS = AXIS_COUNT + OPERANDS, OP_ACCESSES = 2 * AXIS_COUNT + OPERANDS };

struct op {
    struct task *task;
    struct job job;
    struct array_type type; /* of each array */
    enum out_kind out_kind;
    /* By component; what is no vector is the first alone. Referenced. */
    struct field *in[AXIS_COUNT], *out[AXIS_COUNT], *scratch[AXIS_COUNT]; /* of one output all that
                                                                             it needs */
    bool in_is_own[AXIS_COUNT];      /* it came with the request and goes with it */
    struct field *operand[OPERANDS]; /* referenced; by enum operand */
    struct field *result;            /* that measures work in, referenced; NULL: there is none */
    uint8_t *block;                  /* the job's, owned; NULL: it has none */
    double cfl;                      /* asked for, of a κ that is measured; 0: dt was */
    /* Those that lie in regions. Where the device computes there itself, they have no array. */
    struct region_use in_place[AXIS_COUNT], out_place[AXIS_COUNT];
    struct region_use operand_place[OPERANDS]; /* copied to its array before the job runs */
    struct access access[OP_ACCESSES]; /* of resident fields that no op before it has; referenced */
    void *small[OP_READS]; /* what came with the control message of what it reads, and waits for a
                              slab; owned */
    uint64_t ended;        /* how often it has written its outputs, of more than one time */
};

/* Zeroed before. */
void op_init(struct op *op, struct task *task);

/* The arrays that it reads: inputs, then operands. NULL: it has none there. */
struct field *op_read(const struct op *op, int i);

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
