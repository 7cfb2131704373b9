/* Random jobs of every kind that job_check() allows, and their expected results:
 * numerics/table_point.h, point by point and pass by pass. For tests that compare a backend's loops
 * with the contract to the bit. */
#pragma once

#include "gpu/backend.h"
#include "gpu/split.h"

#include <stdbool.h>

struct random {
    uint64_t state;
};

/* job_check(), without a limit to its work. */
bool job_is_valid(const struct job *job);

/* Element i of an array becomes the value, rounded to the array's type. */
static inline void element_set(enum dtype dtype, void *array, uint64_t i, double value)
{
    if (dtype == DTYPE_F32)
        ((float *)array)[i] = (float)value;
    else
        ((double *)array)[i] = value;
}

/* plan_init() of a plan that lives until the process ends. */
void plan_make(struct plan *plan, const struct job *job);

/* A seed from FDSERVER_SEED, or a fresh one; printed, so that a failure can be repeated. */
struct random random_start(void);
uint64_t random_next(struct random *random);
/* 0 … n − 1 */
uint64_t random_below(struct random *random, uint64_t n);
/* low … high */
double random_between(struct random *random, double low, double high);

/* A job of at most max_points points: primes, 1-point axes, axes thinner than the stencil, batches,
 * both types, every operator, boundaries mixed by side, 1 to 5 steps, or at times to 50. */
void random_job(struct random *random, uint64_t max_points, struct job *job);
/* A gradient in 3D with rows that are long enough for the kernels that stream columns. */
void random_column_job(struct random *random, uint64_t max_batch, struct job *job);

/* A job that only tables of rows can do (numerics/table.h): small, any two compatible boundaries,
 * at the node and at the face, orders to 4, numbers and arrays over the faces, staggered, with
 * coordinates, coefficients and sources, steps of forward Euler and rk4. *block: for the caller to
 * free(). */
void random_table_job(struct random *random, uint64_t max_points, struct job *job, void **block);
/* One whose interior sums rows by coordinates in 3D: of several columns of a streaming kernel. */
void random_indexed_job(struct random *random, struct job *job, void **block);
/* A diffusion of a field κ along axes with coordinates, at accuracy 2: rare among the other jobs,
 * and with special rows. */
void random_conducting_job(struct random *random, uint64_t max_points, struct job *job,
                           void **block);

/* The arrays that a job reads beside its inputs, of ordinary numbers. */
void random_operands(struct random *random, const struct job *job, struct operands *operands);
void operands_free(struct operands *operands);

/* Arrays by component, aligned as a device's are. */
void arrays_make(void *arrays[AXIS_COUNT], int count, uint64_t bytes, int poison);
void arrays_free(void *arrays[AXIS_COUNT]);

/* Finite values for one array of the job's: ordinary ones, zeros of both signs, subnormals. */
void random_field(struct random *random, const struct job *job, void *field);

/* None to three infinities and NaN among them. */
void random_exceptions(struct random *random, const struct job *job, void *field);

/* Whether the bits are equal, except the payloads of NaN. */
bool results_equal(const struct job *job, const void *a, const void *b);

/* The end of a part of the plan's only pass (gpu/split.h) that begins at line `from`. */
uint64_t random_part(struct random *random, const struct plan *plan, uint64_t from);

/* A description of a job, in one line. */
void random_job_print(const struct job *job);

/* The job's result, evaluated point by point; arrays by component. Aborts without memory. */
void reference_run(const struct plan *plan, void *const in[AXIS_COUNT],
                   void *const out[AXIS_COUNT]);
/* The same, for a job with operands. */
void reference_run_with(const struct plan *plan, const struct operands *operands,
                        void *const in[AXIS_COUNT], void *const out[AXIS_COUNT]);
