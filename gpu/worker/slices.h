/* A job cut into slices of about ten milliseconds, so that cancellation takes effect and a short
 * job passes a long one; and which buffer each pass of it reads and writes. Pure bookkeeping. */
#pragma once

#include "gpu/backend.h"

#include <stdbool.h>
#include <stdint.h>

struct slices {
    struct launch launch; /* the whole job as one */
    uint64_t total;       /* lines of all passes */
    uint64_t done;        /* lines completed */
    uint64_t size;        /* lines in the slice under way; 0: none is */
    uint64_t next_size;   /* lines in the next one */
    uint64_t device_us;   /* of the slices completed */
    bool whole_passes;
};

/* A job's buffers by component, each as large as the field: plan->inputs and plan->outputs of them,
 * the rest NULL. Inputs may be the same. An output may be an input; it needs a scratch then. Where
 * there is one input, it may serve as scratch if it may be overwritten. */
struct buffers {
    void *in[AXIS_COUNT], *out[AXIS_COUNT];
    void *scratch[AXIS_COUNT]; /* by output; NULL where none is needed. Staged: its first ones */
};

/* May a job of that plan run with these buffers? */
bool slices_possible(const struct plan *plan, const struct buffers *buffers);

/* Begin. The plan lives as long as *slices. first: the lines of the first slice, if it is known how
 * many take a slice's time; else 0, for a short one. The result may come to lie in scratch's or
 * in's memory: see launch_result(&slices->launch, …). */
void slices_begin(struct slices *slices, const struct plan *plan, bool splits_passes,
                  uint64_t first, const struct buffers *buffers);

/* The same of own planes, which are one slice: from in[0] to out[0]. */
void slices_begin_own(struct slices *slices, const struct plan *plan, const struct own_planes *own,
                      const struct buffers *buffers);

/* Of what has begun, keep the passes of a leg. */
void slices_keep(struct slices *slices, const struct leg *leg);

/* Points × passes of a first slice: a few milliseconds. */
uint64_t slices_first_points(bool splits_passes);

/* The next slice. False where all is done or one is under way. */
bool slices_next(struct slices *slices, struct launch *launch);

/* The slice under way has completed in that time; sizes the next. */
void slices_completed(struct slices *slices, uint64_t device_us);
