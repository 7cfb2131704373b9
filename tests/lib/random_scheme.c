#include "tests/lib/random_scheme.h"

#include "numerics/adi.h"
#include "numerics/stage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define POINT_FUNCTION static inline
#define REAL float
#define REAL_FMA(a, b, c) fmaf(a, b, c)
#define POINT_NAME(name) name##_f32
#include "numerics/adi_point.h"
#undef REAL
#undef REAL_FMA
#undef POINT_NAME
#define REAL double
#define REAL_FMA(a, b, c) fma(a, b, c)
#define POINT_NAME(name) name##_f64
#include "numerics/adi_point.h"

static int random_number(struct random *random)
{
    return random_below(random, 3) ? NUMBER_CONSTANT : 1 + (int)random_below(random, 2);
}

static void random_adi_side(struct random *random, struct job *job, int axis, int side)
{
    static const enum boundary_kind kinds[] = {
        BOUNDARY_VALUE,     BOUNDARY_DERIVATIVE, BOUNDARY_HALO,   BOUNDARY_MIXED,
        BOUNDARY_CURVATURE, BOUNDARY_SYMMETRIC,  BOUNDARY_MIRROR, BOUNDARY_ANTISYMMETRIC};
    struct boundary *boundary = &job->boundary[axis][side];
    *boundary = (struct boundary){.kind = kinds[random_below(random, 8)]};
    if (boundary->kind == BOUNDARY_HALO)
        boundary->value = 1;
    if (boundary->kind == BOUNDARY_HALO || boundary->kind >= BOUNDARY_SYMMETRIC)
        return;
    const bool mixed = boundary->kind == BOUNDARY_MIXED;
    boundary->at_face = (uint8_t)random_below(random, 2);
    const int array = random_number(random);
    if (!mixed)
        boundary->value_array = (uint8_t)array;
    if (mixed)
        boundary->constant_array = (uint8_t)array;
    if (mixed || array == NUMBER_CONSTANT)
        boundary->value = random_between(random, mixed ? 0 : -1, 1);
    if (mixed && array == NUMBER_CONSTANT)
        job->more.constant[axis][side] = random_between(random, -1, 1);
}

static void random_source(struct random *random, struct job *job)
{
    if (random_below(random, 3) == 0)
        job->more.source = 1;
    else if (random_below(random, 2))
        job->more.source_value = random_between(random, -1, 1);
}

static void random_adi_candidate(struct random *random, uint64_t max_points, struct job *job)
{
    do
        random_job(random, max_points, job);
    while (job->operator_id != OPERATOR_DIFFUSION);
    job->accuracy = 2;
    job->more.scheme = SCHEME_ADI;
    job->more.coefficient = random_below(random, 3) == 0;
    job->more.coefficient_max = job->more.coefficient ? 2 : 0;
    for (int a = 0; a < job->axes; a++) {
        const bool periodic = random_below(random, 4) == 0;
        for (int side = 0; side < SIDE_COUNT; side++)
            if (periodic)
                job->boundary[a][side] = (struct boundary){.kind = BOUNDARY_PERIODIC};
            else if (job->boundary[a][side].kind >= BOUNDARY_VALUE)
                random_adi_side(random, job, a, side);
    }
    random_source(random, job);
    job->steps = 1 + random_below(random, 5);
    job->dt = exp(random_between(random, -4, 12));
}

void random_adi_job(struct random *random, uint64_t max_points, struct job *job)
{
    do
        random_adi_candidate(random, max_points, job);
    while (!job_is_valid(job));
}

/* One stage at all points. */
#define REFERENCE_STAGE(T, suffix)                                                                 \
    static void stage_##suffix(const struct adi *adi, const struct operands *operands,             \
                               const struct stage *stage, int64_t count, void *const arrays[])     \
    {                                                                                              \
        const T *read = arrays[stage->read], *base = arrays[stage->base];                          \
        const int64_t nx = adi->axis[AXIS_X].n, ny = adi->axis[AXIS_Y].n;                          \
        const int64_t points = (int64_t)adi->points;                                               \
        const struct adi_axis *axis = &adi->axis[stage->axis % AXIS_COUNT];                        \
        T *write = arrays[stage->write];                                                           \
        for (int64_t i = 0; i < count; i++) {                                                      \
            const int64_t field = i / points, place = i % points;                                  \
            const int64_t at[3] = {place % nx, place / nx % ny, place / nx / ny};                  \
            if (stage->kind == STAGE_IMPOSE)                                                       \
                write[i] = adi_impose_##suffix(adi, operands, base[i], field, at);                 \
            else if (stage->kind == STAGE_RATE)                                                    \
                write[i] = adi_rate_##suffix(adi, operands, stage->axis, base + field * points,    \
                                             field, at);                                           \
            else if (stage->kind == STAGE_ADD)                                                     \
                write[i] = base[i] + read[i];                                                      \
            else if (axis->active && at[stage->axis] == 0 && adi->coefficient)                     \
                adi_solve_##suffix(axis, (const T *)operands->at[OPERAND_COEFFICIENT] + i,         \
                                   write + i, (T *)arrays[STAGE_SPARE] + i,                        \
                                   arrays[STAGE_SPARE + 1] ? (T *)arrays[STAGE_SPARE + 1] + i      \
                                                           : (T *)NULL);                           \
            else if (axis->active && at[stage->axis] == 0)                                         \
                lines_solve_##suffix(&axis->lines,                                                 \
                                     (const T *)((const char *)adi + axis->lines.at), write + i,   \
                                     axis->stride);                                                \
        }                                                                                          \
    }
REFERENCE_STAGE(float, f32)
REFERENCE_STAGE(double, f64)

void reference_adi(const struct plan *plan, const struct operands *operands, const void *in,
                   void *out)
{
    void *arrays[STAGE_ARRAYS] = {[STAGE_IN] = (void *)(uintptr_t)in, [STAGE_EVEN] = out};
    for (int i = 0; i < plan->staged; i++)
        if (!(arrays[STAGE_ODD + i] = malloc(plan_array_bytes(plan))))
            abort();
    for (uint64_t pass = 0; pass < plan->passes; pass++) {
        const struct stage stage = stage_of(plan, pass);
        const int64_t count = (int64_t)(plan->points * plan->batch);
        if (plan->dtype == DTYPE_F32)
            stage_f32(plan_table_rows(plan->table), operands, &stage, count, arrays);
        else
            stage_f64(plan_table_rows(plan->table), operands, &stage, count, arrays);
    }
    for (int i = 0; i < plan->staged; i++)
        free(arrays[STAGE_ODD + i]);
}

void random_scheme_job(struct random *random, uint64_t max_points, struct job *job)
{
    void *block;
    if (random_below(random, 2)) {
        random_adi_job(random, max_points, job);
        return;
    }
    do {
        do {
            random_table_job(random, max_points, job, &block);
            free(block);
        } while (job->operator_id != OPERATOR_DIFFUSION || block);
        job->more.scheme = (uint8_t)random_below(random, SCHEME_ADI);
        job->steps = 1 + random_below(random, 5);
        random_source(random, job);
    } while (!job_is_valid(job) || job_is_plain(job));
}

void reference_scheme(const struct plan *plan, const struct operands *operands,
                      void *const in[AXIS_COUNT], void *const out[AXIS_COUNT])
{
    if (plan->engine == PLAN_ADI)
        reference_adi(plan, operands, in[0], out[0]);
    else
        reference_run_with(plan, operands, in, out);
}

void *random_probes(struct random *random, struct job *job)
{
    enum { SOME = 5 };
    job->more.probes = 1 + (uint32_t)random_below(random, SOME);
    job->more.block_bytes = job_block_part(job, BLOCK_END);
    char *block = calloc(1, job->more.block_bytes);
    if (!block)
        abort();
    int64_t *probe = job_block_at(job, block, BLOCK_PROBES);
    for (uint32_t i = 0; i < job->more.probes; i++, probe += AXIS_COUNT + 1) {
        for (int a = 0; a < AXIS_COUNT; a++)
            probe[a] = (int64_t)random_below(random, job->n[a]);
        probe[AXIS_COUNT] = (int64_t)random_below(random, job->batch);
    }
    job_block_key(block, job->more.block_bytes, job->more.block_key);
    return block;
}

/* The field after so many steps. */
static void run_steps(const struct job *job, const void *block, const struct operands *operands,
                      uint64_t steps, void *in[AXIS_COUNT], void *out[AXIS_COUNT])
{
    struct job some = *job;
    struct plan plan;
    some.steps = steps ? steps : 1;
    if (!plan_init(&plan, &some, block))
        abort();
    if (steps == 0)
        plan.passes = plan.impose;
    if (plan.passes == 0)
        memcpy(out[0], in[0], job_bytes(job));
    else
        reference_scheme(&plan, operands, in, out);
    plan_release(&plan);
}

void reference_probes(const struct job *job, const void *block, const struct operands *operands,
                      void *in, void *values)
{
    const uint64_t element = dtype_element_bytes(job->dtype);
    const int64_t *probes = job_block_at(job, block, BLOCK_PROBES);
    void *from[AXIS_COUNT] = {in}, *out[AXIS_COUNT];
    char *value = values;
    arrays_make(out, 1, job_bytes(job), 0);
    for (uint64_t steps = 0; steps <= job->steps; steps++) {
        run_steps(job, block, operands, steps, from, out);
        for (uint32_t i = 0; i < job->more.probes; i++, value += element) {
            const int64_t *at = probes + (AXIS_COUNT + 1) * i;
            const uint64_t n[AXIS_COUNT] = {job->n[AXIS_X], job->n[AXIS_Y], job->n[AXIS_Z]};
            const uint64_t place =
                (((uint64_t)at[AXIS_COUNT] * n[AXIS_Z] + (uint64_t)at[AXIS_Z]) * n[AXIS_Y] +
                 (uint64_t)at[AXIS_Y]) *
                    n[AXIS_X] +
                (uint64_t)at[AXIS_X];
            memcpy(value, (const char *)out[0] + place * element, element);
        }
    }
    arrays_free(out);
}
