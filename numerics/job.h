/* A job: its parameters as plain data, which the front checks, the channel carries and a worker
 * turns into weights and kernels. No pointers, no ownership. */
#pragma once

#include "base/status.h"
#include "numerics/boundary.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/cdefs.h>

__BEGIN_DECLS

enum dtype { DTYPE_F32, DTYPE_F64 }; /* little-endian IEEE 754, "<f4" and "<f8" on the wire */

static inline uint64_t dtype_element_bytes(int dtype)
{
    return dtype == DTYPE_F64 ? 8 : 4;
}

/* x is the fastest axis in memory. Arrays indexed by axis use these numbers. */
enum axis { AXIS_X, AXIS_Y, AXIS_Z, AXIS_COUNT };

/* X(enumerator, name of the method) */
#define OPERATOR_LIST(X)                                                                           \
    X(OPERATOR_DERIVATIVE, "derivative")                                                           \
    X(OPERATOR_LAPLACIAN, "laplacian")                                                             \
    X(OPERATOR_DIFFUSION, "diffusion")                                                             \
    X(OPERATOR_GRADIENT, "gradient")                                                               \
    X(OPERATOR_DIVERGENCE, "divergence")                                                           \
    X(OPERATOR_CURL, "curl")                                                                       \
    X(OPERATOR_BIHARMONIC, "biharmonic")                                                           \
    X(OPERATOR_INTERPOLATE, "interpolate")                                                         \
    X(OPERATOR_STENCIL, "stencil")

#define OPERATOR_ENUMERATOR(enumerator, name) enumerator,
enum operator_id { OPERATOR_LIST(OPERATOR_ENUMERATOR) OPERATOR_COUNT };
#undef OPERATOR_ENUMERATOR

enum scheme {
    SCHEME_EULER, /* "forward-euler" */
    SCHEME_RK4,   /* the classic one of order 4 */
    SCHEME_ADI,   /* Crank–Nicolson in 1D, split by axes in 2D and 3D */
    SCHEME_COUNT
};

enum stagger {
    STAGGER_NONE,
    STAGGER_FORWARD,
    STAGGER_BACKWARD,
    STAGGER_COUNT
}; /* result i is at i, i + ½, i − ½ */

/* Arrays that a job reads beside its inputs, all of its dtype. */
enum operand {
    OPERAND_COEFFICIENT,                            /* k or κ: like f */
    OPERAND_SOURCE,                                 /* s: like f */
    OPERAND_PROBES,                                 /* written: [steps + 1][probes] */
    OPERAND_VALUE = 4,                              /* + SIDE_COUNT·axis + side: over the face */
    OPERAND_CONSTANT = 4 + AXIS_COUNT * SIDE_COUNT, /* + the same: over the face */
    OPERANDS = 4 + 2 * AXIS_COUNT * SIDE_COUNT
};

enum {
    JOB_STENCIL_RADIUS = 8,    /* of a stencil, along each axis */
    JOB_STENCIL_POINTS = 4913, /* of it: of the box of that radius */
    JOB_STENCIL_UNIT = 16      /* … so many are counted as the work of a point */
};

/* Of a part of a periodic axis with coordinates (numerics/subdomain.h): the block has all of the
 * axis's, so that the part's rows are those of the whole to the bit. */
struct job_whole {
    uint64_t n;     /* its points; 0: the job is no such part */
    uint64_t first; /* which of them is the part's first */
    uint64_t kind;  /* enum boundary_kind: PERIODIC or ENDPOINT */
};

/* The less usual parameters; all bytes 0: none of them is given. */
struct job_more {
    uint8_t scheme;                     /* diffusion: enum scheme */
    uint8_t stagger;                    /* derivative, interpolate: enum stagger */
    uint8_t coordinates;                /* bit a: axis a has coordinates, in the block */
    uint8_t coefficient;                /* laplacian, diffusion: OPERAND_COEFFICIENT is given */
    uint8_t source;                     /* diffusion: OPERAND_SOURCE is given */
    uint8_t stencil_radius[AXIS_COUNT]; /* stencil: the furthest offset along each axis */
    uint32_t stencil_points;            /* stencil: offsets and weights, in the block */
    uint32_t probes;                    /* diffusion: points, in the block */
    double source_value;                /* diffusion: a source that is one number */
    double coefficient_max;             /* diffusion with a coefficient: its largest, measured */
    double constant[AXIS_COUNT][SIDE_COUNT]; /* BOUNDARY_MIXED */
    struct job_whole whole;                  /* of the slowest axis */
    uint64_t block_bytes;                    /* of the block; 0: none */
    uint64_t block_key[2];                   /* a hash of it, so that other blocks are other jobs */
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
    uint8_t order;                  /* derivative: of the derivative, 1 to 4; staggered also 0 */
    uint8_t accuracy;               /* order of accuracy: 2, 4, 6, 8, or for estimates 10 */
    uint8_t allow_unstable;         /* diffusion: a dt over the limit is taken */
    uint8_t imposed;                /* diffusion: 1: what nodes hold is in the input already */
    uint64_t n[AXIS_COUNT];         /* points */
    uint64_t batch;                 /* fields */
    uint64_t steps;                 /* diffusion, stencil: how often; else 1 */
    double dt;                      /* diffusion: time step; else 0 */
    double spacing[AXIS_COUNT];     /* distance between points; job_weights_spacing() */
    double diffusivity[AXIS_COUNT]; /* diffusion: κ along each axis; else 0 */
    struct boundary boundary[AXIS_COUNT][SIDE_COUNT];
    struct job_more more;
};

/* Numbers of a job that are too many for it, little-endian, each part at a multiple of 8 bytes, in
 * this order: coordinates of x, y, z where given (double[n]; n + 1 where the axis is periodic: the
 * last one is where the first point comes again); a stencil's offsets (int32_t[points][3]: x, y, z)
 * and weights (double[points]); probes (int64_t[probes][4]: x, y, z, batch).
 * Where a part begins, in bytes; at the end of the last: the size of the whole. */
enum block_part {
    BLOCK_X,
    BLOCK_Y,
    BLOCK_Z,
    BLOCK_OFFSETS,
    BLOCK_WEIGHTS,
    BLOCK_PROBES,
    BLOCK_END
};
uint64_t job_block_part(const struct job *job, enum block_part part);
/* Where the part begins in this block. Only the maker of the block writes there. */
void *job_block_at(const struct job *job, const void *block, enum block_part part);
/* A key for the block: equal blocks have equal keys, others hardly ever. */
void job_block_key(const void *block, uint64_t bytes, uint64_t key[2]);

/* Is it along one axis alone? */
bool job_has_axis(const struct job *job);
/* Is there a derivative or an interpolation along this one? */
bool job_is_active(const struct job *job, int axis);
/* Does it go step by step? */
bool job_has_steps(const struct job *job);

/* Elements of an operand, and its bytes; 0: the job has none such. */
uint64_t job_operand_points(const struct job *job, int operand);
uint64_t job_operand_bytes(const struct job *job, int operand);

/* A derivative (order 1 along x, accuracy 8) of one point, spacing 1, periodic, with every byte
 * set. */
void job_init(struct job *job);

/* Order of the highest derivative that it takes: 0 to 4. */
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

/* Must values be imposed on nodes that hold them, in a pass before the first step? */
bool job_imposes(const struct job *job);
/* Passes over the field: those of all steps, and one more where values must be imposed before the
 * first. */
uint64_t job_passes(const struct job *job);
/* … of one step: 1, of RK4 4, of ADI 2 and one for each axis, of its symmetric form 15. */
uint64_t job_step_passes(const struct job *job);

/* Is a step of ADI the symmetric form, one axis after another and back? In space with a field κ,
 * where the factors of different axes do not commute. */
bool job_is_symmetric_split(const struct job *job);

/* The work of a point in a pass: 1; of a stencil of many points a JOB_STENCIL_UNIT-th of them. */
double job_point_work(const struct job *job);
/* What max_work bounds: points × steps × the passes of a step, × the work of a point. */
double job_work(const struct job *job);
/* Steps that are whole after so many of its passes. */
uint64_t job_steps_done(const struct job *job, uint64_t passes);

/* Arrays as large as an output that it needs beside it: 0 to 3, of more than one output 0 or 1
 * each. Where in_place, it is also an input; where input_is_own, the input is the job's own and may
 * be overwritten (it then serves). */
int job_scratch(const struct job *job, bool in_place, bool input_is_own);

/* "derivative", …; NULL for a number outside the list. */
const char *operator_name(enum operator_id id);

/* "x", "y", "z". */
const char *axis_name(enum axis axis);

/* How errors name a parameter of an axis: "spacing x"; a side of it: "boundary x-". */
struct failure_place job_axis_place(const char *parameter, int axis);
const char *job_side_place(int axis, int side);
/* … and an operand (enum operand). */
const char *job_operand_place(const struct job *job, int operand);

__END_DECLS
