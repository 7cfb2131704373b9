/* What a job is, once its parameters have been read: plain data that the front checks, the channel
 * carries and a worker turns into weights and kernels. No pointers, no ownership. */
#ifndef PROTOCOL_JOB_H
#define PROTOCOL_JOB_H

#include "protocol/status.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum dtype { DTYPE_F32, DTYPE_F64 }; /* little-endian IEEE 754, "<f4" and "<f8" on the wire */

/* x is the fastest axis in memory. Arrays indexed by axis use these numbers. */
enum axis { AXIS_X, AXIS_Y, AXIS_Z, AXIS_COUNT };

enum side { SIDE_LOW, SIDE_HIGH, SIDE_COUNT }; /* index 0, index n − 1 */

/* X(enumerator, name of the method) */
#define OPERATOR_LIST(X)                                                                           \
    X(OPERATOR_DERIVATIVE, "derivative")                                                           \
    X(OPERATOR_LAPLACIAN, "laplacian")                                                             \
    X(OPERATOR_DIFFUSION, "diffusion")                                                             \
    X(OPERATOR_GRADIENT, "gradient")                                                               \
    X(OPERATOR_DIVERGENCE, "divergence")                                                           \
    X(OPERATOR_CURL, "curl")

#define OPERATOR_ENUMERATOR(enumerator, name) enumerator,
enum operator_id { OPERATOR_LIST(OPERATOR_ENUMERATOR) OPERATOR_COUNT };
#undef OPERATOR_ENUMERATOR

enum boundary_kind {
    BOUNDARY_PERIODIC, /* f(i) = f(i mod n) */
    BOUNDARY_ENDPOINT, /* periodic, the last point repeats the first: the period is n − 1 points */
    BOUNDARY_ONE_SIDED,  /* no assumption: closures look inwards. Not for diffusion */
    BOUNDARY_VALUE,      /* the boundary node holds `value`. Diffusion */
    BOUNDARY_DERIVATIVE, /* ∂u/∂n = 0: reflection about the boundary node. Diffusion */
    BOUNDARY_HALO,       /* the outermost radius layers are data, multiplied by `value` each step.
                            Diffusion */
    BOUNDARY_KINDS
};

struct boundary {
    double value;  /* BOUNDARY_VALUE: the node's value; BOUNDARY_HALO: the factor; else 0 */
    uint64_t kind; /* enum boundary_kind; 64 bits wide, so that the struct has no padding */
};

/* An array of `batch` independent fields of n[z] × n[y] × n[x] points in C order; a vector field
 * has one such array, a component, for each axis of space.
 * Unused axes have n = 1, spacing 1, diffusivity 0 and periodic boundaries, so that equal jobs are
 * equal bytes (a resident table of weights is looked up by them). Make one with job_init(). */
struct job {
    uint8_t operator_id;            /* enum operator_id */
    uint8_t dtype;                  /* enum dtype */
    uint8_t axes;                   /* axes that are space: 1 (x), 2 (x, y) or 3 */
    uint8_t axis;                   /* derivative: enum axis */
    uint8_t order;                  /* derivative: of the derivative, 1 or 2; else job_order() */
    uint8_t accuracy;               /* order of accuracy: 2, 4, 6 or 8 */
    uint8_t allow_unstable;         /* diffusion: a dt over the limit is taken */
    uint8_t reserved;               /* 0 */
    uint64_t n[AXIS_COUNT];         /* points */
    uint64_t batch;                 /* fields */
    uint64_t steps;                 /* diffusion: time steps; else 1 */
    double dt;                      /* diffusion: time step; else 0 */
    double spacing[AXIS_COUNT];     /* distance between points */
    double diffusivity[AXIS_COUNT]; /* diffusion: κ along each axis; else 0 */
    struct boundary boundary[AXIS_COUNT][SIDE_COUNT];
};

/* A derivative (order 1 along x, accuracy 8) of one point, spacing 1, periodic, with every byte
 * set. */
void job_init(struct job *job);

/* Bytes of one element: 4 or 8. */
uint64_t job_element_bytes(const struct job *job);

/* Order of the derivatives that it takes: 1 or 2. */
int job_order(const struct job *job);

/* Does it take a vector field? Does it give one? Arrays in and out: 1, or for a vector field one
 * for each axis of space. */
bool job_takes_vector(const struct job *job);
bool job_gives_vector(const struct job *job);
int job_inputs(const struct job *job);
int job_outputs(const struct job *job);

/* Points and bytes of each array in and out; call them after job_check() only. */
uint64_t job_points(const struct job *job);
uint64_t job_bytes(const struct job *job);

/* Radius of the centred stencil: accuracy / 2 for orders 1 and 2. */
int job_radius(const struct job *job);

/* The largest stable forward Euler step: dt_max = 2 / Σ_axes(κ λ / h²), where λ = 4, 16/3, 272/45,
 * 2048/315 for accuracy 2, 4, 6, 8 is the symbol of −h²∂²/∂x² at the grid's highest frequency
 * (von Neumann: 1 − dt Σ κλ/h² ≥ −1). Infinity where every κ is 0. */
double job_dt_max(const struct job *job);

/* Passes over the field: the steps, and one more where values must be imposed before the first. */
uint64_t job_passes(const struct job *job);

/* Does an output need a second array as large as itself? Where in_place, it is also an input; where
 * input_is_own, the input is the job's own and may be overwritten (it then serves). */
bool job_needs_scratch(const struct job *job, bool in_place, bool input_is_own);

/* Is the job one that a worker can run? False with the failure set: it names the parameter and,
 * where there is one, the limit. Checks every number and that each axis has the points that its
 * boundaries need. max_work bounds points × steps (TOO_LARGE). Any bytes may be passed in. */
bool job_check(const struct job *job, double max_work, struct failure *failure);

/* Is it an order of a derivative, or an order of accuracy, that is offered? As asked for on the
 * wire, before it is narrowed to the job's type. */
bool job_check_order(int64_t order, struct failure *failure);
bool job_check_accuracy(int64_t accuracy, struct failure *failure);

/* "derivative", …; NULL for a number outside the list. */
const char *operator_name(enum operator_id id);

/* "x", "y", "z". */
const char *axis_name(enum axis axis);

#ifdef __cplusplus
}
#endif
#endif
