/* A random job of any family, with its operands, its expected result and the arrays for a trial:
 * shared by all tests that compare loops or kernels with the contract to the bit. */
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
    FAMILY_STENCIL,       /* between sides that other operators take, too: those of checksums.txt */
    FAMILY_STENCIL_SIDES, /* between any */
    FAMILIES
};

/* A new sample of at most max_points points. Aborts without memory, as all functions here do. */
void sample_make(struct random *random, enum family family, uint64_t max_points,
                 struct sample *sample);
/* A diffusion in 3D, 16 points or more along each axis, by forward Euler or by RK4: rare among the
 * other jobs, and computed by special kernels. */
void sample_block(struct random *random, uint64_t max_points, struct sample *sample);
/* The operands of a job that was made otherwise, after some probes have been added if wanted. */
void sample_complete(struct random *random, struct sample *sample, bool probes);
void sample_free(struct sample *sample);
void sample_print(const struct sample *sample);

/* The result of a plan of any engine, point by point and pass by pass; arrays by component. */
void reference(const struct plan *plan, const struct operands *operands, void *const in[AXIS_COUNT],
               void *const out[AXIS_COUNT]);

/* A sample's plan, its arrays, and a launch whose lines are not yet set. */
struct trial {
    const struct sample *sample;
    struct plan plan;
    struct launch launch;
    void *in[AXIS_COUNT], *out[AXIS_COUNT], *expected[AXIS_COUNT], *scratch[AXIS_COUNT];
    void *probed[AXIS_COUNT]; /* the values that probes must have */
};

/* Inputs of every kind of number, and the expected results. */
void trial_make(struct trial *trial, struct random *random, const struct sample *sample);
/* Poison the outputs for the next run. */
void trial_poison(struct trial *trial);
/* Let the run overwrite its input, if the job may. No further run is possible. */
void trial_over_input(struct trial *trial);
/* results_equal() of the values at a job's probes. */
bool probes_equal(const struct job *job, const void *a, const void *b);
/* Check the results and probes after a run of all lines; a failure names `who`. */
bool trial_is_right(const struct trial *trial, const char *who);
void trial_free(struct trial *trial);
