/* The rows of one kind of operator: jobs with the parameters that their names say, measured and
 * added to the table. boundary: as in a row's column, on both sides of the axes concerned; bar: 0
 * for none. */
#pragma once

#include "numerics/job.h"

/* Derivatives along x, y and z. */
void rows_derivatives(uint64_t nx, uint64_t ny, uint64_t nz, enum dtype dtype, int order,
                      int accuracy, const char *boundary, double bar);
void rows_cubes(uint64_t n, enum dtype dtype, int order, int accuracy, const char *boundary,
                double bar);
/* Compared with kernels for one size: for 64³ NVIDIA's own, as measured on an H200, for the others
 * the fastest of bench/classics.cu in this run. */
void rows_small_cubes(uint64_t n);
/* A derivative along an axis, or a Laplacian along all (AXIS_COUNT), by coordinates. */
void rows_by_coordinates(int axis, uint64_t n, enum dtype dtype, int accuracy, const char *boundary,
                         double bar);
void rows_laplacian(uint64_t nx, uint64_t ny, uint64_t nz, enum dtype dtype, int accuracy,
                    const char *boundary, double bar);
/* Gradient, divergence and curl. */
void rows_vector_operators(uint64_t nx, uint64_t ny, uint64_t nz, enum dtype dtype, int accuracy,
                           const char *boundary, double bar);
/* ∇·(k∇f), and at accuracy 2 a diffusion of a field k. Periodic. */
void rows_flows(uint64_t nx, uint64_t ny, uint64_t nz, enum dtype dtype, int accuracy, double bar);
/* Periodic. */
void rows_biharmonic(uint64_t nx, uint64_t ny, uint64_t nz, enum dtype dtype, int accuracy,
                     double bar);

/* Compared with the copy roofline: the bytes of a step at the speed of copies larger than caches.
 */
void rows_diffusion(int axes, uint64_t n, enum dtype dtype, int accuracy, uint64_t steps,
                    const char *boundary, double bar);
void rows_diffusion_with_source(int axes, uint64_t n, enum dtype dtype, int accuracy,
                                const char *boundary, double bar);
void rows_rk4(int axes, uint64_t n, enum dtype dtype, int accuracy, const char *boundary,
              double bar);
/* Crank–Nicolson split by axes, with steps far beyond what forward Euler takes; κ is a number, or a
 * field. */
void rows_adi(int axes, uint64_t nx, uint64_t ny, uint64_t nz, enum dtype dtype, bool field,
              const char *boundary, double bar);

/* A stencil of a user's own: the box, or the star, of that radius. */
void rows_stencil(int axes, uint64_t n, enum dtype dtype, int radius, bool star,
                  const char *boundary, double bar);
