/* A random job of any family with all that it reads, what it must give, and the arrays for a trial
 * of one: what every test shares that compares loops or kernels with the contract to the bit. */
#pragma once

#include "gpu/backend.h"
#include "tests/lib/random_job.h"

struct sample {
    struct job job;
    void *block;              /* job.more.block_bytes, or NULL; owned */
    struct operands operands; /* owned */
};

enum family {
    FAMILY_PLAIN,
    FAMILY_TABLE,
    FAMILY_CONDUCTING, /* of the tables, those of random_conducting_job() */
    FAMILY_SCHEME,     /* a diffusion of any scheme */
    FAMILY_PROBES,     /* the same with probes */
    FAMILY_ADI,
    FAMILY_STENCIL,
    FAMILIES
};

/* One more, of at most max_points points. Aborts where memory is short, as all here do. */
void sample_make(struct random *random, enum family family, uint64_t max_points,
                 struct sample *sample);
/* What a job that was made otherwise reads: its operands and, if wanted, some probes before. */
void sample_complete(struct random *random, struct sample *sample, bool probes);
void sample_free(struct sample *sample);
void sample_print(const struct sample *sample);

/* The result of a plan of any engine, point by point and pass by pass; arrays by component. */
void reference(const struct plan *plan, const struct operands *operands, void *const in[AXIS_COUNT],
               void *const out[AXIS_COUNT]);

/* A sample's plan, its arrays and a launch of them whose lines are still to be set. */
struct trial {
    const struct sample *sample;
    struct plan plan;
    struct launch launch;
    void *in[AXIS_COUNT], *out[AXIS_COUNT], *expected[AXIS_COUNT], *scratch[AXIS_COUNT];
    void *probed[AXIS_COUNT]; /* the values that probes must have */
};

/* Inputs of every sort of number, and what they must give. */
void trial_make(struct trial *trial, struct random *random, const struct sample *sample);
/* Poison what a run writes, for the next one. */
void trial_poison(struct trial *trial);
/* Let the run write over its input, where a job may; the last one that can be made. */
void trial_over_input(struct trial *trial);
/* Are the results and probes right, after a run of all lines? Else says by whom they are not. */
bool trial_is_right(const struct trial *trial, const char *who);
void trial_free(struct trial *trial);
