#include "bench/rows.h"

#include "bench/row.h"
#include "numerics/stability.h"
#include "tests/lib/job_of.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* name: as in a row's column. */
static void set_boundary(struct job *job, int axis, const char *name)
{
    static const struct {
        const char *name;
        struct boundary boundary;
    } boundaries[] = {{"periodic", {.kind = BOUNDARY_PERIODIC}},
                      {"endpoint", {.kind = BOUNDARY_ENDPOINT}},
                      {"one-sided", {.kind = BOUNDARY_ONE_SIDED}},
                      {"halo", {.kind = BOUNDARY_HALO, .value = 0.999}},
                      {"value", {.kind = BOUNDARY_VALUE, .value = 0.5}},
                      {"derivative", {.kind = BOUNDARY_DERIVATIVE}},
                      {"mixed", {.kind = BOUNDARY_MIXED, .value = 0.5}},
                      {"curvature", {.kind = BOUNDARY_CURVATURE, .value = 0.5}},
                      {"mirror", {.kind = BOUNDARY_MIRROR}},
                      {"nearest", {.kind = BOUNDARY_NEAREST}},
                      {"constant", {.kind = BOUNDARY_CONSTANT, .value = 0.5}}};
    size_t i = 0;
    while (strcmp(name, boundaries[i].name) != 0)
        if (++i == sizeof boundaries / sizeof *boundaries) {
            fprintf(stderr, "no boundary is called %s\n", name);
            exit(2);
        }
    job_set_sides(job, axis, boundaries[i].boundary);
}

/* Add a row against the copy. block: the job's, or NULL. */
__attribute__((format(printf, 5, 6))) static void add(const struct job *job, const void *block,
                                                      const char *boundary, double bar,
                                                      const char *format, ...)
{
    char name[40];
    va_list values;
    va_start(values, format);
    vsnprintf(name, sizeof name, format, values);
    va_end(values);
    row_add_with_block(name, job, block, boundary, 0, AGAINST_COPY, bar);
}

void rows_derivatives(uint64_t nx, uint64_t ny, uint64_t nz, enum dtype dtype, int order,
                      int accuracy, const char *boundary, double bar)
{
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        struct job job = job_of(OPERATOR_DERIVATIVE, dtype, nx, ny, nz, accuracy);
        job.axis = (uint8_t)axis;
        job.order = (uint8_t)order;
        set_boundary(&job, axis, boundary);
        static const char *const orders[] = {"", "", " second", " third", " fourth"};
        add(&job, NULL, boundary, bar, "derivative %c%s accuracy %d", "xyz"[axis], orders[order],
            accuracy);
    }
}

void rows_cubes(uint64_t n, enum dtype dtype, int order, int accuracy, const char *boundary,
                double bar)
{
    rows_derivatives(n, n, n, dtype, order, accuracy, boundary, bar);
}

void rows_small_cubes(uint64_t n)
{
    static const double found_us[AXIS_COUNT] = {3.0, 3.4, 3.4};
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        char name[40];
        struct job job = job_of(OPERATOR_DERIVATIVE, DTYPE_F32, n, n, n, 8);
        job.axis = (uint8_t)axis;
        set_boundary(&job, axis, "endpoint");
        snprintf(name, sizeof name, "derivative %c accuracy 8", "xyz"[axis]);
        if (n == 64)
            row_add(name, &job, "endpoint", found_us[axis], AGAINST_COPY, 1);
        else
            row_add(name, &job, "endpoint", 0, AGAINST_CLASSICS, 1);
    }
}

void rows_laplacian(uint64_t nx, uint64_t ny, uint64_t nz, enum dtype dtype, int accuracy,
                    const char *boundary, double bar)
{
    const int axes = nz > 1 ? 3 : 2;
    struct job job = job_of(OPERATOR_LAPLACIAN, dtype, nx, ny, nz, accuracy);
    for (int a = 0; a < axes; a++)
        set_boundary(&job, a, boundary);
    add(&job, NULL, boundary, bar, "laplacian %dD accuracy %d", axes, accuracy);
}

void rows_vector_operators(uint64_t nx, uint64_t ny, uint64_t nz, enum dtype dtype, int accuracy,
                           const char *boundary, double bar)
{
    static const enum operator_id ids[] = {OPERATOR_GRADIENT, OPERATOR_DIVERGENCE, OPERATOR_CURL};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        struct job job = job_of(ids[i], dtype, nx, ny, nz, accuracy);
        for (int a = 0; a < AXIS_COUNT; a++)
            set_boundary(&job, a, boundary);
        add(&job, NULL, boundary, bar, "%s 3D accuracy %d", operator_name(ids[i]), accuracy);
    }
}

static struct job stable_diffusion(int axes, uint64_t n, enum dtype dtype, int accuracy,
                                   uint64_t steps, const char *boundary)
{
    struct job job = diffusion_of(dtype, n, n, axes == 3 ? n : 1, accuracy, steps);
    for (int a = 0; a < axes; a++)
        set_boundary(&job, a, boundary);
    job.dt = 0.9 * job_dt_max(&job);
    return job;
}

void rows_rk4(int axes, uint64_t n, enum dtype dtype, int accuracy, const char *boundary,
              double bar)
{
    struct job job = stable_diffusion(axes, n, dtype, accuracy, 4, boundary);
    job.more.scheme = SCHEME_RK4;
    add(&job, NULL, boundary, bar, "rk4 %dD accuracy %d", axes, accuracy);
}

void rows_diffusion_with_source(int axes, uint64_t n, enum dtype dtype, int accuracy,
                                const char *boundary, double bar)
{
    struct job job = stable_diffusion(axes, n, dtype, accuracy, 6, boundary);
    job.more.source = 1;
    add(&job, NULL, boundary, bar, "diffusion %dD source accuracy %d", axes, accuracy);
}

void rows_adi(int axes, uint64_t nx, uint64_t ny, uint64_t nz, enum dtype dtype, bool field,
              const char *boundary, double bar)
{
    struct job job = diffusion_of(dtype, nx, ny, nz, 2, 2);
    job.more.scheme = SCHEME_ADI;
    job.more.coefficient = field;
    job.more.coefficient_max = field;
    job.dt = 5;
    for (int a = 0; a < axes; a++) {
        job.diffusivity[a] = field ? 0 : 1;
        set_boundary(&job, a, boundary);
    }
    add(&job, NULL, boundary, bar, "adi %dD%s", axes, field ? " of a field" : "");
}

void rows_flows(uint64_t nx, uint64_t ny, uint64_t nz, enum dtype dtype, int accuracy, double bar)
{
    struct job job = job_of(OPERATOR_LAPLACIAN, dtype, nx, ny, nz, accuracy);
    job.more.coefficient = 1;
    add(&job, NULL, "periodic", bar, "div(k grad) 3D accuracy %d", accuracy);
    if (accuracy > 2)
        return;
    job.operator_id = OPERATOR_DIFFUSION;
    job.more.coefficient_max = 1;
    job.steps = 2;
    job.dt = 0.1;
    add(&job, NULL, "periodic", bar, "diffusion of a field 3D accuracy 2");
}

void rows_biharmonic(uint64_t nx, uint64_t ny, uint64_t nz, enum dtype dtype, int accuracy,
                     double bar)
{
    const struct job job = job_of(OPERATOR_BIHARMONIC, dtype, nx, ny, nz, accuracy);
    add(&job, NULL, "periodic", bar, "biharmonic 3D accuracy %d", accuracy);
}

void rows_diffusion(int axes, uint64_t n, enum dtype dtype, int accuracy, uint64_t steps,
                    const char *boundary, double bar)
{
    char name[40];
    const struct job job = stable_diffusion(axes, n, dtype, accuracy, steps, boundary);
    snprintf(name, sizeof name, "diffusion %dD accuracy %d", axes, accuracy);
    const double floor_us =
        job_bytes(&job) < ROOFLINE_BYTES && !bench.quick
            ? row_copy_us(ROOFLINE_BYTES) * (double)job_bytes(&job) / ROOFLINE_BYTES
            : 0;
    row_add(name, &job, boundary, floor_us, AGAINST_COPY, bar);
}

void rows_by_coordinates(int axis, uint64_t n, enum dtype dtype, int accuracy, const char *boundary,
                         double bar)
{
    const bool all = axis == AXIS_COUNT;
    struct job job =
        job_of(all ? OPERATOR_LAPLACIAN : OPERATOR_DERIVATIVE, dtype, n, n, n, accuracy);
    job.axis = (uint8_t)(all ? 0 : axis);
    for (int a = 0; a < AXIS_COUNT; a++)
        if (all || a == axis) {
            set_boundary(&job, a, boundary);
            job.more.coordinates |= (uint8_t)(1 << a);
        }
    job.more.block_bytes = job_block_part(&job, BLOCK_END);
    void *block = calloc(1, job.more.block_bytes);
    if (!block)
        exit(1);
    double *x = (double *)(void *)block;
    for (uint64_t i = 0; i < job.more.block_bytes / sizeof *x; i++)
        x[i] = (double)i + 0.3 * sin((double)i);
    job_block_key(block, job.more.block_bytes, job.more.block_key);
    if (all)
        add(&job, block, boundary, bar, "laplacian coordinates accuracy %d", accuracy);
    else
        add(&job, block, boundary, bar, "derivative %c coordinates accuracy %d", "xyz"[axis],
            accuracy);
    free(block);
}

void rows_stencil(int axes, uint64_t n, enum dtype dtype, int radius, bool star,
                  const char *boundary, double bar)
{
    static int32_t offsets[JOB_STENCIL_POINTS][AXIS_COUNT];
    static double weights[JOB_STENCIL_POINTS];
    struct job job = job_of(OPERATOR_STENCIL, dtype, n, n, axes == 3 ? n : 1, 8);
    const int32_t radius_z = axes == 3 ? radius : 0;
    uint32_t points = 0;
    int32_t at[AXIS_COUNT];
    for (at[AXIS_Z] = -radius_z; at[AXIS_Z] <= radius_z; at[AXIS_Z]++)
        for (at[AXIS_Y] = -radius; at[AXIS_Y] <= radius; at[AXIS_Y]++)
            for (at[AXIS_X] = -radius; at[AXIS_X] <= radius; at[AXIS_X]++) {
                if (star && (at[AXIS_X] != 0) + (at[AXIS_Y] != 0) + (at[AXIS_Z] != 0) > 1)
                    continue;
                memcpy(offsets[points], at, sizeof at);
                weights[points] = 1.0 / (points + 3);
                points++;
            }
    for (int a = 0; a < axes; a++) {
        job.more.stencil_radius[a] = (uint8_t)radius;
        set_boundary(&job, a, boundary);
    }
    job.more.stencil_points = points;
    job.more.block_bytes = job_block_part(&job, BLOCK_END);
    char *block = calloc(1, job.more.block_bytes);
    if (!block)
        exit(1);
    memcpy(job_block_at(&job, block, BLOCK_OFFSETS), offsets, points * sizeof *offsets);
    memcpy(job_block_at(&job, block, BLOCK_WEIGHTS), weights, points * sizeof *weights);
    job_block_key(block, job.more.block_bytes, job.more.block_key);
    add(&job, block, boundary, bar, "stencil %dD %s of %" PRIu32, axes, star ? "star" : "box",
        points);
    free(block);
}
