/* A slice of a job as a backend runs it: its plan, and the arrays in the device's memory. */
#pragma once

#include "numerics/stage.h"
#include "numerics/subdomain.h"
#include "numerics/table.h"

#include <stdint.h>
#include <sys/cdefs.h>

__BEGIN_DECLS

/* Arrays that a job reads beside its inputs, by enum operand; NULL: it has none such. */
struct operands {
    void *at[OPERANDS];
};

/* A slice of a job: lines [from, to) of its passes one after another. A line is one row along x; a
 * pass has plan->lines of them. Pass 0 reads `in`, pass p > 0 the output of pass p − 1; even passes
 * write `even`, odd passes write `odd`. No `in` is an `even`, no `even` is another or `odd`; odd
 * may be in. Vector fields have plan->inputs and plan->outputs arrays, the others are NULL; a plan
 * of more than one pass has one array on each side. A staged plan has its result in even[0] and
 * defines what its passes read and write. A slice is launched when the one before has completed.
 *
 * source, target: a client's addressable memory (pin()) at a multiple of 16 bytes, or NULL. Before
 * the first pass all of `in` is copied from its source, after the last one the result to its
 * target.
 */
struct launch {
    const struct plan *plan; /* lives until the completion */
    const void *in[AXIS_COUNT];
    void *even[AXIS_COUNT];
    void *odd;                       /* NULL where the job has one pass */
    void *spare[2];                  /* a plan that is staged: its further scratch arrays */
    const struct operands *operands; /* by enum operand; lives as the plan does. NULL: none */
    uint64_t from, to;
    /* Of a plan that the backend takes so (takes_own_planes()): all of its passes at once, from in
     * to even, for these planes alone. No byte of any other plane is written. */
    struct own_planes own;
    struct leg leg; /* its sweep, of the plan's pass from which the launch begins and no other */
    const void *source[AXIS_COUNT];
    void *target[AXIS_COUNT];
    /* Launches of one chain (a number that is not 0) run in the order of launch(), each seeing what
     * those before it wrote, and the caller need not wait for any of them; no other launch is
     * waited for. They have no source and no target. 0: no chain. */
    uint64_t chain;
    /* May be cached: the launches of the chain up to this one are likely to be repeated with the
     * same arguments. */
    bool ends_round;
    /* No upload to its arrays is under way, so it waits for no upload. */
    bool is_resident;
};

/* One of a launch's arrays; array: enum stage_array. */
void *launch_array(const struct launch *launch, int array);

/* Where the last of its passes writes a component. */
void *launch_result(const struct launch *launch, int component);

/* What pass `number` of a launch is, whose stage is IMPOSE, STEP, PART or RATE: PART's set of
 * factors is its part. */
struct table_pass launch_table_pass(const struct launch *launch, uint64_t number);

__END_DECLS
