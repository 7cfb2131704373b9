/* The kernel families, each in a file of its name, from the maths to the launch. passes.c chooses.
 */
#pragma once

#include "gpu/cuda/geometry.h"
#include "numerics/table.h"

__BEGIN_DECLS

enum { CENTRED_RADIUS = TABLE_PAIRS - 1 }; /* of centred rows: order 4, accuracy 10 */

/* One pass of the geometry's jobs, between arrays of the first, on its stream. All points: along_x
 * (x alone), along_y_z (y or z alone), along_y_z_unaligned (… of rows of odd length; one job).
 * along_y_z_passes(), …: 1 where it takes the plan, else 0. */
cudaError_t along_x_launch(const struct geometry *g, const struct table_pass *pass);
uint64_t along_y_z_passes(const struct geometry *g);
cudaError_t along_y_z_launch(const struct geometry *g, const struct table_pass *pass);
uint64_t along_y_z_unaligned_passes(const struct geometry *g);
cudaError_t along_y_z_unaligned_launch(const struct geometry *g, const struct table_pass *pass);
/* The interior: along_x_indexed (x alone) and streaming_3d_indexed (3D) by coordinates,
 * streaming_3d, streaming_2d; all other points: boundary. */
cudaError_t along_x_indexed_launch(const struct geometry *g, const struct table_pass *pass);
cudaError_t streaming_2d_launch(const struct geometry *g, const struct table_pass *pass);
cudaError_t streaming_3d_launch(const struct geometry *g, const struct table_pass *pass);
cudaError_t streaming_3d_indexed_launch(const struct geometry *g, const struct table_pass *pass);
/* A pass of four planes, and of four others g->apart from them, of a plain diffusion (edges). */
bool edges_take(const struct geometry *g);
cudaError_t edges_launch(const struct geometry *g, const struct table_pass *pass);
/* All other points, one at least: of a plain plan, of several jobs and in parts … */
cudaError_t boundary_launch(const struct geometry *g, const struct table_pass *pass);
/* … or by its table; the slot holds the plan. */
cudaError_t rows_launch(const struct geometry *g, const struct table_pass *pass);

/* Gradient (of large fields by gradient.cu), divergence and curl: the interior, from the components
 * of `in` to those of `out`. cudaErrorInvalidConfiguration: the grid is too large. */
cudaError_t vector_operators_launch(const struct geometry *g, const void *const in[AXIS_COUNT],
                                    void *const out[AXIS_COUNT]);

/* Whole passes of a plan that is a stencil. */
cudaError_t stencil_launch(const struct launch *launch, int slot, int units, cudaStream_t stream);

/* All of a plan that measures. */
cudaError_t measure_launch(const struct launch *launch, cudaStream_t stream);

/* Diffusion in 2D, several steps at once, whole fields of one job: the most that pay, 0 where none
 * do. */
uint64_t temporal_blocking_2d_steps(const struct geometry *g);
/* 2 … temporal_blocking_2d_steps() of them. */
cudaError_t temporal_blocking_2d_launch(const struct geometry *g, const void *in, void *out,
                                        uint64_t steps);

/* Diffusion in 3D, several passes at once, whole fields of one job: the most, 0 where none; and
 * whether they are faster than single ones. Of RK4 they are those of one step. */
uint64_t temporal_blocking_3d_passes(const struct geometry *g);
bool temporal_blocking_3d_pay(const struct geometry *g, uint64_t passes);
/* 2 … temporal_blocking_3d_passes() of them; of RK4 all. */
cudaError_t temporal_blocking_3d_launch(const struct geometry *g, const void *in, void *out,
                                        uint64_t passes);

/* div(k grad) in 3D, and the diffusion of a field; the biharmonic operator in 3D. Where one takes a
 * plan, it computes more than the interior: also next to periodic sides. */
bool divergence_takes(struct geometry *g);
cudaError_t divergence_launch(const struct geometry *g, const struct table_pass *pass);
bool biharmonic_takes(struct geometry *g);
cudaError_t biharmonic_launch(const struct geometry *g, const struct table_pass *pass);

/* The interior of a plan that none of these takes. */
bool interior_takes(const struct plan *plan);
cudaError_t interior_launch(const struct geometry *g, const struct table_pass *pass);

/* The values at the plan's probes, to that row of `values`; the slot holds the plan. */
cudaError_t probes_launch(const struct plan *plan, int slot, const void *field, void *values,
                          uint64_t row, cudaStream_t stream);

__END_DECLS
