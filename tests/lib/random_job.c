#include "tests/lib/random_job.h"

#include "numerics/job_check.h"
#include "numerics/weights.h"

#include <math.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "numerics/table.h"

#define TABLE_FUNCTION static inline __attribute__((unused))
#define TABLE_LOAD(pointer) (*(pointer))
#define TABLE_FETCHES
#define REAL float
#define REAL_FMA(a, b, c) fmaf(a, b, c)
#define TABLE_NAME(name) reference_##name##_f32
#define TABLE_ROW struct table_row_f32
#include "numerics/table_point.h"
#undef REAL
#undef REAL_FMA
#undef TABLE_NAME
#undef TABLE_ROW
#define REAL double
#define REAL_FMA(a, b, c) fma(a, b, c)
#define TABLE_NAME(name) reference_##name##_f64
#define TABLE_ROW struct table_row_f64
#include "numerics/table_point.h"
#include "numerics/stability.h"

void plan_make(struct plan *plan, const struct job *job)
{
    static struct kept {
        struct kept *next;
        struct plan_table *table;
    } * all;
    struct kept *kept = malloc(sizeof *kept);
    if (!kept || !plan_init(plan, job, NULL))
        abort();
    *kept = (struct kept){all, plan->table};
    all = kept;
}

struct random random_start(void)
{
    const char *text = getenv("FDSERVER_SEED");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const uint64_t seed =
        text ? strtoull(text, NULL, 0) : (uint64_t)now.tv_sec * 1000003 + (uint64_t)now.tv_nsec;
    printf("FDSERVER_SEED=%" PRIu64 "\n", seed);
    fflush(stdout);
    return (struct random){seed};
}

/* splitmix64 */
uint64_t random_next(struct random *random)
{
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t random_below(struct random *random, uint64_t n)
{
    return random_next(random) % n;
}

double random_between(struct random *random, double low, double high)
{
    return low + (high - low) * ((double)(random_next(random) >> 11) * 0x1p-53);
}

static uint64_t random_points(struct random *random, uint64_t most)
{
    static const uint16_t sizes[] = {1,   2,   3,   4,   5,   6,   7,   8,    9,    11,   12,  13,
                                     16,  17,  19,  23,  31,  32,  33,  37,   61,   64,   67,  97,
                                     101, 127, 128, 131, 256, 257, 509, 1024, 1031, 2053, 3001};
    uint64_t n = 0;
    while (n == 0 || n > most)
        n = sizes[random_below(random, sizeof sizes / sizeof *sizes)];
    return n;
}

static void random_boundaries(struct random *random, struct job *job, int axis)
{
    const bool diffusion = job->operator_id == OPERATOR_DIFFUSION;
    struct boundary *boundary = job->boundary[axis];
    const uint64_t kind = random_below(random, diffusion ? 6 : 3);
    for (int side = 0; side < SIDE_COUNT; side++) {
        if (kind <= BOUNDARY_ENDPOINT)
            boundary[side].kind = kind;
        else if (job_order(job) == 2 && random_below(random, 4) == 0)
            boundary[side].kind = BOUNDARY_MIRROR;
        else if (!diffusion)
            boundary[side].kind = BOUNDARY_ONE_SIDED;
        else
            boundary[side].kind = BOUNDARY_VALUE + random_below(random, 3);
        boundary[side].value =
            boundary[side].kind == BOUNDARY_VALUE || boundary[side].kind == BOUNDARY_HALO
                ? random_between(random, -1, 1)
                : 0;
    }
}

static void random_candidate(struct random *random, uint64_t max_points, struct job *job)
{
    job_init(job);
    job->operator_id = (uint8_t)random_below(random, OPERATOR_CURL + 1);
    job->dtype = (uint8_t)random_below(random, 2);
    job->axes = (uint8_t)(1 + random_below(random, AXIS_COUNT));
    job->accuracy = (uint8_t)(2 + 2 * random_below(random, 4));
    job->order = (uint8_t)(job->operator_id == OPERATOR_DERIVATIVE ? 1 + random_below(random, 2)
                                                                   : (uint64_t)job_order(job));
    if (job->operator_id == OPERATOR_DERIVATIVE)
        job->axis = (uint8_t)random_below(random, job->axes);
    const bool diffusion = job->operator_id == OPERATOR_DIFFUSION;
    const bool isotropic = random_below(random, 2);
    uint64_t left = max_points;
    for (int k = 0, first = (int)random_below(random, job->axes); k < job->axes; k++) {
        const int a = (first + k) % job->axes;
        job->n[a] = random_points(random, left);
        left /= job->n[a];
        job->spacing[a] = isotropic ? 0.5 : random_between(random, 0.25, 2);
        if (diffusion)
            job->diffusivity[a] = isotropic                      ? 0.75
                                  : random_below(random, 8) == 0 ? 0
                                                                 : random_between(random, 0.1, 2);
        random_boundaries(random, job, a);
    }
    job->batch = 1 + (random_below(random, 3) == 0 ? random_below(random, left < 7 ? left : 7) : 0);
    if (diffusion) {
        const double limit = job_dt_max(job);
        job->steps = 1 + random_below(random, random_below(random, 4) ? 5 : 50);
        job->dt = isfinite(limit) ? limit * random_between(random, 0.05, 1) : 0.25;
    }
}

bool job_is_valid(const struct job *job)
{
    struct failure failure = {.code = STATUS_OK};
    return job_check(job, INFINITY, &failure);
}

void random_job(struct random *random, uint64_t max_points, struct job *job)
{
    do
        random_candidate(random, max_points, job);
    while (!job_is_valid(job));
}

void random_column_job(struct random *random, uint64_t max_batch, struct job *job)
{
    do {
        do
            random_job(random, 4000, job);
        while (job->operator_id != OPERATOR_GRADIENT || job->axes < AXIS_COUNT);
        job->n[AXIS_X] = 68 + 4 * random_below(random, 70);
        job->n[AXIS_Y] = 10 + random_below(random, 60);
        job->n[AXIS_Z] = 1 + random_below(random, 20);
        job->batch = 1 + random_below(random, max_batch);
    } while (!job_is_valid(job));
}

/* The number of a side: one, or where it may be an array at times that. */
static void random_number(struct random *random, double *number, uint8_t *from)
{
    *from =
        (uint8_t)(random_below(random, 3) ? NUMBER_CONSTANT : random_below(random, NUMBER_KINDS));
    *number = *from ? 0 : (float)random_between(random, -0.5, 1);
}

static void random_sides(struct random *random, struct job *job, int a)
{
    for (int s = 0; s < SIDE_COUNT; s++) {
        struct boundary *boundary = &job->boundary[a][s];
        const bool cyclic = s == SIDE_HIGH && boundary[-1].kind <= BOUNDARY_ENDPOINT;
        *boundary = (struct boundary){.kind = (uint32_t)random_below(random, BOUNDARY_NEAREST)};
        while (s == SIDE_HIGH && !cyclic && boundary->kind <= BOUNDARY_ENDPOINT)
            boundary->kind = (uint32_t)random_below(random, BOUNDARY_NEAREST);
        if (cyclic)
            *boundary = boundary[-1];
        const bool placed =
            boundary->kind == BOUNDARY_VALUE || boundary->kind == BOUNDARY_DERIVATIVE ||
            boundary->kind == BOUNDARY_MIXED || boundary->kind == BOUNDARY_CURVATURE;
        if (placed) {
            boundary->at_face = (uint8_t)random_below(random, 2);
            random_number(random, &boundary->value, &boundary->value_array);
        }
        if (boundary->kind == BOUNDARY_MIXED)
            random_number(random, &job->more.constant[a][s], &boundary->constant_array);
        if (boundary->kind == BOUNDARY_HALO && job_inputs(job) <= job_outputs(job))
            boundary->value = (float)random_between(random, -1, 1);
    }
}

static void random_table_candidate(struct random *random, uint64_t max_points, struct job *job)
{
    job_init(job);
    do
        job->operator_id = (uint8_t)random_below(random, OPERATOR_COUNT);
    while (job->operator_id == OPERATOR_STENCIL);
    const bool diffusion = job->operator_id == OPERATOR_DIFFUSION;
    const bool along = job_has_axis(job);
    job->dtype = (uint8_t)random_below(random, 2);
    job->axes = (uint8_t)(1 + random_below(random, AXIS_COUNT));
    /* 10 is that of an error estimate. */
    job->accuracy = (uint8_t)(2 + 2 * random_below(random, 5));
    if (along)
        job->axis = (uint8_t)random_below(random, job->axes);
    if (job->operator_id == OPERATOR_DERIVATIVE)
        job->order = (uint8_t)(1 + random_below(random, WEIGHTS_ORDER));
    if (along)
        job->more.stagger = (uint8_t)random_below(random, STAGGER_COUNT);
    const bool isotropic = random_below(random, 2), stretched = random_below(random, 4) == 0;
    uint64_t left = max_points;
    for (int a = 0; a < job->axes; a++) {
        static const uint8_t most[] = {0, 200, 40, 20};
        job->n[a] = 1 + random_below(random, most[job->axes]);
        if (a == AXIS_X && random_below(random, 8) == 0)
            job->n[a] = 1 + random_below(random, left); /* some lines that are worked on in parts */
        job->n[a] = job->n[a] > left ? left : job->n[a];
        left /= job->n[a];
        job->spacing[a] = isotropic ? 0.5 : (float)random_between(random, 0.5, 2);
        if (diffusion)
            job->diffusivity[a] = isotropic ? 0.75 : random_between(random, 0.1, 2);
        random_sides(random, job, a);
        if (stretched && random_below(random, 2))
            job->more.coordinates |= (uint8_t)(1u << a);
    }
    job->batch = 1 + random_below(random, left < 3 ? left : 3);
    if (diffusion) {
        job->allow_unstable = 1; /* for arrays */
        job->steps = 1 + random_below(random, 3);
        job->dt = random_between(random, 0.001, 0.02);
        job->more.scheme = random_below(random, 3) ? SCHEME_EULER : SCHEME_RK4;
        job->more.source = random_below(random, 4) == 0;
        if (!job->more.source && random_below(random, 4) == 0)
            job->more.source_value = 0.5;
    }
    if (diffusion || job->operator_id == OPERATOR_LAPLACIAN)
        job->more.coefficient = random_below(random, 3) == 0;
    if (!job->more.coefficient || !diffusion)
        return;
    if (random_below(random, 2))
        job->accuracy = 2; /* the only one that takes mixed */
    for (int a = 0; a < job->axes; a++) {
        job->diffusivity[a] = 1;
        for (int s = 0; s < SIDE_COUNT; s++)
            if (job->boundary[a][s].kind == BOUNDARY_CURVATURE) /* which it does not take */
                job->boundary[a][s].kind = BOUNDARY_DERIVATIVE;
    }
}

/* Coordinates whose distances are about the job's spacing. */
static void *random_coordinates(struct random *random, struct job *job)
{
    const uint64_t bytes = job_block_part(job, BLOCK_END);
    if (bytes == 0)
        return NULL;
    double *block = malloc(bytes);
    if (!block)
        abort();
    for (int a = 0; a < job->axes; a++) {
        double *x = block + job_block_part(job, (enum block_part)(BLOCK_X + a)) / 8;
        const uint64_t end = job_block_part(job, (enum block_part)(BLOCK_X + a + 1)) / 8;
        for (double at = -1; x < block + end;
             x++, at += job->spacing[a] * random_between(random, 0.7, 1.4))
            *x = at;
    }
    job->more.block_bytes = bytes;
    job_block_key(block, bytes, job->more.block_key);
    return block;
}

void random_table_job(struct random *random, uint64_t max_points, struct job *job, void **block)
{
    do
        random_table_candidate(random, max_points, job);
    while (!job_is_valid(job) || job_is_plain(job));
    *block = random_coordinates(random, job);
}

void random_indexed_job(struct random *random, struct job *job, void **block)
{
    do {
        random_table_candidate(random, 1000, job);
        job->n[AXIS_X] = random_below(random, 2) ? 4 * (3 + random_below(random, 80))
                                                 : 12 + random_below(random, 320);
        job->n[AXIS_Y] = 12 + random_below(random, 30);
        job->n[AXIS_Z] = 12 + random_below(random, 20);
        if (random_below(random, 2))
            job->more.coordinates = (1 << AXIS_COUNT) - 1;
        const bool closes = random_below(random, 2); /* with closures of points alone */
        for (int a = 0; a < AXIS_COUNT && closes; a++)
            for (int s = 0; s < SIDE_COUNT; s++)
                job->boundary[a][s] = (struct boundary){
                    .kind = job->operator_id == OPERATOR_DIFFUSION ? BOUNDARY_VALUE
                                                                   : BOUNDARY_ONE_SIDED,
                    .value = 0.25};
    } while (job->axes < AXIS_COUNT || !job->more.coordinates || job->more.coefficient ||
             (job->operator_id != OPERATOR_LAPLACIAN && job->operator_id != OPERATOR_DIFFUSION) ||
             !job_is_valid(job));
    *block = random_coordinates(random, job);
}

void random_conducting_job(struct random *random, uint64_t max_points, struct job *job,
                           void **block)
{
    random_table_job(random, max_points, job, block);
    while (job->operator_id != OPERATOR_DIFFUSION || !job->more.coefficient ||
           !job->more.coordinates || job->accuracy != 2) {
        free(*block);
        random_table_job(random, max_points, job, block);
    }
}

void random_operands(struct random *random, const struct job *job, struct operands *operands)
{
    for (int i = 0; i < OPERANDS; i++) {
        const uint64_t points = job_operand_points(job, i);
        void *array = operands->at[i] = points ? malloc(job_operand_bytes(job, i)) : NULL;
        if (points && !array)
            abort();
        for (uint64_t k = 0; k < points; k++) {
            const double value = i == OPERAND_COEFFICIENT ? random_between(random, 0.1, 2)
                                                          : random_between(random, -0.5, 1);
            element_set(job->dtype, array, k, value);
        }
    }
}

void operands_free(struct operands *operands)
{
    for (int i = 0; i < OPERANDS; i++)
        free(operands->at[i]);
}

void arrays_make(void *arrays[AXIS_COUNT], int count, uint64_t bytes, int poison)
{
    for (int i = 0; i < AXIS_COUNT; i++) {
        arrays[i] = NULL;
        if (i >= count)
            continue;
        if (posix_memalign(&arrays[i], 16, bytes))
            abort();
        memset(arrays[i], poison, bytes);
    }
}

void arrays_free(void *arrays[AXIS_COUNT])
{
    for (int i = 0; i < AXIS_COUNT; i++)
        free(arrays[i]);
}

void random_field(struct random *random, const struct job *job, void *field)
{
    const uint64_t points = job_points(job);
    for (uint64_t i = 0; i < points; i++) {
        const uint64_t kind = random_below(random, 64);
        double value = random_between(random, -1, 1);
        if (kind == 0)
            value = 0.0;
        else if (kind == 1)
            value = -0.0;
        else if (kind == 2)
            value *= job->dtype == DTYPE_F32 ? 0x1p-130 : 0x1p-1030;
        element_set(job->dtype, field, i, value);
    }
}

void random_exceptions(struct random *random, const struct job *job, void *field)
{
    static const double values[] = {INFINITY, -INFINITY, NAN};
    for (uint64_t left = random_below(random, 4); left > 0; left--) {
        const uint64_t i = random_below(random, job_points(job));
        const double value = values[random_below(random, 3)];
        element_set(job->dtype, field, i, value);
    }
}

bool results_equal(const struct job *job, const void *a, const void *b)
{
    const float *f = a, *g = b;
    const double *d = a, *e = b;
    if (memcmp(a, b, job_bytes(job)) == 0)
        return true;
    for (uint64_t i = 0; i < job_points(job); i++)
        if (job->dtype == DTYPE_F32 ? memcmp(f + i, g + i, 4) && !(isnan(f[i]) && isnan(g[i]))
                                    : memcmp(d + i, e + i, 8) && !(isnan(d[i]) && isnan(e[i])))
            return false;
    return true;
}

uint64_t random_part(struct random *random, const struct plan *plan, uint64_t from)
{
    const struct split split = split_of(plan);
    const uint64_t field = split.units * split.unit_lines, begin = from % field;
    if (begin == 0 && random_below(random, 4) == 0)
        return from + field * (1 + random_below(random, (plan->lines - from) / field));
    const uint64_t grain = split.grain * split.unit_lines;
    const uint64_t share = field / grain / 64, most = share > 4 ? share : 4;
    const uint64_t end = begin + grain * (1 + random_below(random, most));
    return from - begin + (end + split.reach * split.unit_lines <= field ? end : field);
}

void random_job_print(const struct job *job)
{
    static const char *const kinds[BOUNDARY_KINDS] = {
        "periodic",  "endpoint",  "one-sided", "value",         "derivative", "halo",    "mixed",
        "curvature", "symmetric", "mirror",    "antisymmetric", "nearest",    "constant"};
    printf("%s %s %" PRIu64 " x %" PRIu64 "x%" PRIu64 "x%" PRIu64 " (z y x), %d axes, axis %d, "
           "order %d, accuracy %d, steps %" PRIu64 ";",
           operator_name(job->operator_id), job->dtype == DTYPE_F32 ? "f32" : "f64", job->batch,
           job->n[AXIS_Z], job->n[AXIS_Y], job->n[AXIS_X], job->axes, job->axis, job->order,
           job->accuracy, job->steps);
    for (int a = 0; a < job->axes; a++)
        for (int s = 0; s < SIDE_COUNT; s++)
            printf(" %c%c %s%s%s", "xyz"[a], "-+"[s], kinds[job->boundary[a][s].kind],
                   job -> boundary[a][s].at_face ? " at the face" : "",
                   job->boundary[a][s].value_array ? " of an array" : "");
    printf("\n");
}

static void reference_pass(const struct plan *plan, const struct table_pass *pass)
{
    const struct table_header *table = table_of(plan);
    uint64_t i = 0;
    for (uint64_t field = 0; field < plan->batch; field++) {
        struct reference_view_f32 f = reference_begin_f32(table, table, pass, field);
        struct reference_view_f64 d = reference_begin_f64(table, table, pass, field);
        for (int64_t z = 0; z < plan->axis[AXIS_Z].n; z++)
            for (int64_t y = 0; y < plan->axis[AXIS_Y].n; y++)
                for (int64_t x = 0; x < plan->axis[AXIS_X].n; x++, i++)
                    for (int c = 0; c < plan->outputs; c++) {
                        if (plan->dtype == DTYPE_F32) {
                            reference_move_f32(&f, x, y, z);
                            ((float *)pass->out[c])[i] = pass->impose
                                                             ? reference_impose_f32(&f)
                                                             : reference_evaluate_f32(&f, c);
                        } else {
                            reference_move_f64(&d, x, y, z);
                            ((double *)pass->out[c])[i] = pass->impose
                                                              ? reference_impose_f64(&d)
                                                              : reference_evaluate_f64(&d, c);
                        }
                    }
    }
}

void reference_run_with(const struct plan *plan, const struct operands *operands,
                        void *const in[AXIS_COUNT], void *const out[AXIS_COUNT])
{
    void *own[AXIS_COUNT];
    arrays_make(own, plan->passes > 1 ? AXIS_COUNT : 0, plan_array_bytes(plan), 0);
    struct launch launch = {
        .plan = plan, .operands = operands, .odd = own[0], .spare = {own[1], own[2]}};
    for (int c = 0; c < AXIS_COUNT; c++) {
        launch.in[c] = in[c];
        launch.even[c] = out[c];
    }
    for (uint64_t number = 0; number < plan->passes; number++) {
        const struct table_pass pass = launch_table_pass(&launch, number);
        reference_pass(plan, &pass);
    }
    if (plan->passes % 2 == 0 && !plan->staged)
        memcpy(out[0], launch.odd, plan_array_bytes(plan));
    arrays_free(own);
}

void reference_run(const struct plan *plan, void *const in[AXIS_COUNT], void *const out[AXIS_COUNT])
{
    reference_run_with(plan, NULL, in, out);
}
