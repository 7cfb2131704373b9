/* A job's arrays for one row: filled, computed by the host backend, compared and freed. Without
 * memory the process ends. */
#pragma once

#include "bench/runner.h"

/* The arrays of a launch: those of a staged plan are odd and spare. */
struct arrays {
    void *in[AXIS_COUNT], *even[AXIS_COUNT], *odd, *spare[2];
    struct operands operands; /* fields: OPERAND_COEFFICIENT and OPERAND_SOURCE */
};

/* A job's fields on the device and, if results are checked, the host backend's. */
struct bed {
    const struct job *job;
    struct plan plan;
    struct arrays device;
    bool checked;
    struct job checked_job; /* of fewer steps */
    struct plan checked_plan;
    struct arrays host;
};

/* block: the job's, or NULL. The job stays as long as the bed. */
void bed_make(struct bed *bed, const struct job *job, const void *block);
void bed_free(struct bed *bed);

/* All passes of a plan on these arrays. */
struct launch bed_launch(const struct plan *plan, const struct arrays *arrays);

/* Run the checked plan, with its outputs poisoned first. Returns the largest difference from the
 * host backend's result; 0 where they are equal to the bit, else more than 0. which: as in
 * bench/runner.h. */
double bed_difference(const struct bed *bed, int which);
