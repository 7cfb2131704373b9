#include "tests/lib/random_stencil.h"

#include "numerics/stencil_plan.h"
#include "numerics/job_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POINT_FUNCTION static inline
#define POINT_FMA_F32(a, b, c) fmaf(a, b, c)
#define POINT_FMA_F64(a, b, c) fma(a, b, c)
#include "numerics/stencil_points.h"

enum { COMMON_POINTS = 1 << 15 }; /* of the largest sample, for common shapes to be among them */

void random_stencil_set(struct sample *stencil, const int32_t (*offsets)[AXIS_COUNT],
                        const double *weights, uint32_t points)
{
    struct job *job = &stencil->job;
    job->operator_id = OPERATOR_STENCIL;
    job->order = (uint8_t)job_order(job);
    job->more.stencil_points = points;
    memset(job->more.stencil_radius, 0, sizeof job->more.stencil_radius);
    for (uint32_t k = 0; k < points; k++)
        for (int a = 0; a < AXIS_COUNT; a++)
            if (abs(offsets[k][a]) > job->more.stencil_radius[a])
                job->more.stencil_radius[a] = (uint8_t)abs(offsets[k][a]);
    job->more.block_bytes = job_block_part(job, BLOCK_END);
    char *block = calloc(1, job->more.block_bytes);
    if (!block)
        abort();
    memcpy(job_block_at(job, block, BLOCK_OFFSETS), offsets, points * sizeof *offsets);
    memcpy(job_block_at(job, block, BLOCK_WEIGHTS), weights, points * sizeof *weights);
    job_block_key(block, job->more.block_bytes, job->more.block_key);
    stencil->block = block;
}

/* common: one of the shapes that the build makes kernels for, most of the time. */
static void random_offsets(struct random *random, struct sample *stencil, bool common)
{
    static int32_t offsets[JOB_STENCIL_POINTS][AXIS_COUNT];
    static double weights[JOB_STENCIL_POINTS];
    int32_t radius[AXIS_COUNT] = {0}, o[AXIS_COUNT];
    const uint64_t shape = random_below(random, common ? 2 : 4);
    const int32_t common_radius = common ? INT32_C(1) << random_below(random, 3) : 0;
    uint32_t points = 0;
    for (int a = 0; a < stencil->job.axes; a++)
        radius[a] = common ? common_radius
                           : (int32_t)random_below(
                                 random, random_below(random, 3) ? 3 : JOB_STENCIL_RADIUS + 1);
    for (o[AXIS_Z] = -radius[AXIS_Z]; o[AXIS_Z] <= radius[AXIS_Z]; o[AXIS_Z]++)
        for (o[AXIS_Y] = -radius[AXIS_Y]; o[AXIS_Y] <= radius[AXIS_Y]; o[AXIS_Y]++)
            for (o[AXIS_X] = -radius[AXIS_X]; o[AXIS_X] <= radius[AXIS_X]; o[AXIS_X]++) {
                const int away = (o[AXIS_X] != 0) + (o[AXIS_Y] != 0) + (o[AXIS_Z] != 0);
                if ((shape == 1 && away > 1) || (shape > 1 && random_below(random, 4)))
                    continue;
                memcpy(offsets[points++], o, sizeof o);
            }
    points += points == 0;                                    /* the point itself */
    for (uint32_t k = points - 1; k > 0 && shape == 3; k--) { /* in any order */
        const uint64_t j = random_below(random, k + 1);
        memcpy(o, offsets[k], sizeof o);
        memcpy(offsets[k], offsets[j], sizeof o);
        memcpy(offsets[j], o, sizeof o);
    }
    for (uint32_t k = 0; k < points; k++)
        weights[k] = random_below(random, 16) ? random_between(random, -1, 1) : 0;
    random_stencil_set(stencil, (const int32_t(*)[AXIS_COUNT])offsets, weights, points);
    memset(offsets, 0, sizeof offsets);
}

static bool has_ghosts(const struct boundary *boundary)
{
    return boundary->kind == BOUNDARY_ONE_SIDED || boundary->kind == BOUNDARY_VALUE ||
           boundary->kind == BOUNDARY_DERIVATIVE || boundary->kind == BOUNDARY_MIXED ||
           boundary->kind == BOUNDARY_CURVATURE;
}

static int random_number(struct random *random, const struct job *job)
{
    if (random_below(random, 3))
        return NUMBER_CONSTANT;
    return job->batch > 1 && random_below(random, 2) ? NUMBER_FACE_BATCH : NUMBER_FACE;
}

static void random_side(struct random *random, struct job *job, uint32_t kinds, int axis, int side)
{
    struct boundary *boundary = &job->boundary[axis][side];
    boundary->kind =
        BOUNDARY_ONE_SIDED + (uint32_t)random_below(random, kinds - BOUNDARY_ONE_SIDED);
    if (has_ghosts(boundary) && job->n[axis] < job->accuracy)
        boundary->kind = BOUNDARY_SYMMETRIC + (uint32_t)random_below(random, 3);
    const bool has_datum = has_ghosts(boundary) && boundary->kind != BOUNDARY_ONE_SIDED;
    if (!has_datum && boundary->kind != BOUNDARY_HALO && boundary->kind != BOUNDARY_CONSTANT)
        return;
    boundary->value = random_below(random, 4) ? random_between(random, 0, 1) : 0;
    if (!has_datum)
        return;
    boundary->at_face = (uint8_t)random_below(random, 2);
    boundary->value_array = (uint8_t)random_number(random, job);
    if (boundary->value_array)
        boundary->value = 0;
    if (boundary->kind != BOUNDARY_MIXED)
        return;
    boundary->constant_array = (uint8_t)random_number(random, job);
    job->more.constant[axis][side] = boundary->constant_array ? 0 : random_between(random, -1, 1);
}

static void random_faces(struct random *random, struct sample *stencil)
{
    for (int k = 0; k < OPERANDS; k++) {
        const uint64_t points = job_operand_points(&stencil->job, k);
        void *array = points ? malloc(job_operand_bytes(&stencil->job, k)) : NULL;
        if (points && !array)
            abort();
        for (uint64_t i = 0; i < points; i++)
            element_set(stencil->job.dtype, array, i, random_between(random, 0, 1));
        stencil->operands.at[k] = array;
    }
}

static void random_sides(struct random *random, struct job *job, uint32_t kinds)
{
    for (int a = 0; a < job->axes; a++) {
        const uint64_t kind = random_below(random, 6);
        for (int side = 0; side < SIDE_COUNT; side++)
            if (kind <= BOUNDARY_ENDPOINT)
                job->boundary[a][side].kind =
                    job->n[a] > 1 ? (uint32_t)kind : (uint32_t)BOUNDARY_PERIODIC;
            else
                random_side(random, job, kinds, a, side);
    }
}

/* One or two steps, of any type and accuracy. */
static void begin(struct random *random, struct sample *stencil, int axes)
{
    struct job *job = &stencil->job;
    memset(stencil, 0, sizeof *stencil);
    job_init(job);
    job->dtype = (uint8_t)random_below(random, 2);
    job->axes = (uint8_t)axes;
    job->accuracy = (uint8_t)(2 + 2 * random_below(random, 4));
    job->steps = 1 + random_below(random, 2);
}

static void complete(struct random *random, struct sample *stencil)
{
    struct failure failure = {.code = STATUS_OK};
    random_faces(random, stencil);
    if (!job_check(&stencil->job, INFINITY, &failure)) {
        printf("%s: %s\n", failure.parameter, failure.message);
        abort();
    }
}

void random_upwind_stencil(struct random *random, int axes, struct sample *stencil)
{
    enum { MOST = 32 };
    const int32_t radius = 4;
    struct job *job = &stencil->job;
    int32_t offsets[MOST][AXIS_COUNT], o[AXIS_COUNT];
    double weights[MOST];
    uint32_t points = 0;
    begin(random, stencil, axes);
    for (int a = 0; a < axes; a++) {
        job->n[a] = 1 + random_below(random, random_below(random, 2) ? 12 : 40);
        job->spacing[a] = random_between(random, 0.25, 2);
    }
    if (random_below(random, 2)) /* rows of a tile and more */
        job->n[AXIS_X] = 128 + 2 * random_below(random, 80);
    random_sides(random, job, BOUNDARY_KINDS);
    for (o[AXIS_Z] = axes == 3 ? -radius : 0; o[AXIS_Z] <= 0; o[AXIS_Z]++)
        for (o[AXIS_Y] = -radius; o[AXIS_Y] <= 0; o[AXIS_Y]++)
            for (o[AXIS_X] = -radius; o[AXIS_X] <= 0; o[AXIS_X]++)
                if (axes == 2 || (o[AXIS_X] != 0) + (o[AXIS_Y] != 0) + (o[AXIS_Z] != 0) <= 1)
                    memcpy(offsets[points++], o, sizeof o);
    for (uint32_t k = 0; k < points; k++)
        weights[k] = random_between(random, -1, 1);
    random_stencil_set(stencil, (const int32_t(*)[AXIS_COUNT])offsets, weights, points);
    complete(random, stencil);
}

void random_cube_stencil(struct random *random, struct sample *stencil)
{
    struct job *job = &stencil->job;
    begin(random, stencil, AXIS_COUNT);
    job->batch = 1 + random_below(random, 2);
    job->n[AXIS_X] = random_below(random, 3) ? 128 + 2 * random_below(random, 80)
                                             : 256 + 4 * random_below(random, 20);
    job->n[AXIS_Y] = 16 + random_below(random, 12);
    job->n[AXIS_Z] = 16 + random_below(random, 12);
    for (int a = 0; a < AXIS_COUNT; a++)
        job->spacing[a] = random_between(random, 0.25, 2);
    random_sides(random, job, BOUNDARY_KINDS);
    random_offsets(random, stencil, true);
    complete(random, stencil);
}

void random_stencil(struct random *random, uint64_t max_points, uint32_t kinds,
                    struct sample *stencil)
{
    struct job *job = &stencil->job;
    uint64_t left = max_points;
    const bool common = max_points >= COMMON_POINTS && random_below(random, 2);
    job_init(job);
    job->dtype = (uint8_t)random_below(random, 2);
    job->axes =
        (uint8_t)(common ? 2 + random_below(random, 2) : 1 + random_below(random, AXIS_COUNT));
    job->accuracy = (uint8_t)(2 + 2 * random_below(random, 4));
    job->steps = 1 + random_below(random, 4);
    for (int k = 0, first = (int)random_below(random, job->axes); k < job->axes; k++) {
        const int a = (first + k) % job->axes;
        const uint64_t most = k == job->axes - 1 ? left : left < 64 ? left : 64;
        job->n[a] = 1 + random_below(random, random_below(random, 4) ? most : most < 9 ? most : 9);
        if (common) /* rows of a tile and more, of whole packs or not */
            job->n[a] = a == AXIS_X ? 128 + 2 * random_below(random, 80) : 1 + job->n[a] % 12;
        job->spacing[a] = random_between(random, 0.25, 2);
        left /= job->n[a];
    }
    job->batch = 1 + (random_below(random, 3) == 0 ? random_below(random, left < 5 ? left : 5) : 0);
    random_sides(random, job, kinds);
    random_offsets(random, stencil, common);
    complete(random, stencil);
}

static void reference_step(const struct plan *plan, const struct operands *operands, const void *in,
                           void *out)
{
    const struct stencil_table *table = stencil_table_of(plan->table);
    const void *const *const given = (const void *const *)operands->at;
    int64_t at[AXIS_COUNT];
    uint64_t i = 0;
    for (uint64_t field = 0; field < plan->batch; field++) {
        const uint64_t begin = field * plan->points;
        const struct stencil_source_f32 f = {table, (const float *)in + begin, given,
                                             (int64_t)field};
        const struct stencil_source_f64 d = {table, (const double *)in + begin, given,
                                             (int64_t)field};
        for (at[AXIS_Z] = 0; at[AXIS_Z] < plan->axis[AXIS_Z].n; at[AXIS_Z]++)
            for (at[AXIS_Y] = 0; at[AXIS_Y] < plan->axis[AXIS_Y].n; at[AXIS_Y]++)
                for (at[AXIS_X] = 0; at[AXIS_X] < plan->axis[AXIS_X].n; at[AXIS_X]++, i++)
                    if (plan->dtype == DTYPE_F32)
                        ((float *)out)[i] = stencil_evaluate_f32(&f, at);
                    else
                        ((double *)out)[i] = stencil_evaluate_f64(&d, at);
    }
}

void reference_stencil(const struct plan *plan, const struct operands *operands, const void *in,
                       void *out)
{
    void *other = malloc(plan_array_bytes(plan));
    if (!other)
        abort();
    void *const target[2] = {plan->passes % 2 == 1 ? out : other,
                             plan->passes % 2 == 1 ? other : out};
    for (uint64_t pass = 0; pass < plan->passes; pass++)
        reference_step(plan, operands, pass == 0 ? in : target[(pass + 1) % 2], target[pass % 2]);
    free(other);
}
