/* A compiled kernel beside numerics/stencil_point.h, on a small field of fresh values: a few tiles
 * along each axis, with a map of its own at each side, and what is not to be written watched. */
#include "gpu/cuda/compiled.h"
#include "gpu/cuda/fault.h"
#include "numerics/job_check.h"
#include "numerics/stencil_plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POINT_FUNCTION static inline
#define POINT_FMA_F32(a, b, c) fmaf(a, b, c)
#define POINT_FMA_F64(a, b, c) fma(a, b, c)
#include "numerics/stencil_points.h"

enum {
    PLANES = 4 * KERNEL_RADIUS,
    ROWS_MORE = 4 * KERNEL_RADIUS - 3,
    POISON = 0xa5,
    ROOM_BYTES = 8 << 20
};

struct check {
    const struct kernel_key *key;
    struct job job;
    char *block;
    struct plan plan;
    uint64_t random;
    uint64_t bytes;  /* of the field */
    void *in, *out;  /* here */
    void *device[4]; /* in, out, the plan's table and room for a padding, there */
    int64_t low[AXIS_COUNT], high[AXIS_COUNT];
};

/* xorshift64: values of no pattern are all that is wanted. */
static double next_value(struct check *check)
{
    check->random ^= check->random << 13;
    check->random ^= check->random >> 7;
    check->random ^= check->random << 17;
    return (double)(check->random >> 11) * 0x1p-52 - 1;
}

static void set_shape(struct check *check)
{
    const struct kernel_key *key = check->key;
    const struct kernel_tile tile = kernel_tile_of(key);
    struct job *job = &check->job;
    job_init(job);
    job->operator_id = OPERATOR_STENCIL;
    job->dtype = key->dtype;
    job->axes = key->axes;
    job->order = (uint8_t)job_order(job);
    job->n[AXIS_X] = (uint64_t)(kernel_tile_x(&tile) + (key->aligned ? tile.pack : 3));
    job->n[AXIS_Y] = (uint64_t)(kernel_tile_y(&tile) + ROWS_MORE);
    if (key->axes == 2)
        job->n[AXIS_Y] *= 3;
    else
        job->n[AXIS_Z] = PLANES;
    static const uint8_t kinds[2][AXIS_COUNT][SIDE_COUNT] = {
        {{BOUNDARY_PERIODIC, BOUNDARY_PERIODIC},
         {BOUNDARY_MIRROR, BOUNDARY_NEAREST},
         {BOUNDARY_SYMMETRIC, BOUNDARY_ONE_SIDED}},
        {{BOUNDARY_VALUE, BOUNDARY_ONE_SIDED},
         {BOUNDARY_DERIVATIVE, BOUNDARY_VALUE},
         {BOUNDARY_CONSTANT, BOUNDARY_MIRROR}}};
    for (int a = 0; a < key->axes; a++)
        for (int s = 0; s < SIDE_COUNT; s++) {
            struct boundary *boundary = &job->boundary[a][s];
            boundary->kind = kinds[key->padded][a][s];
            if (boundary->kind == BOUNDARY_VALUE || boundary->kind == BOUNDARY_DERIVATIVE ||
                boundary->kind == BOUNDARY_CONSTANT)
                boundary->value = 0.5;
        }
}

static bool set_stencil(struct check *check)
{
    struct job *job = &check->job;
    job->more.stencil_points = check->key->points;
    for (int k = 0; k < check->key->points; k++)
        for (int a = 0; a < AXIS_COUNT; a++) {
            const int distance = abs(check->key->offsets[k][a]);
            if (distance > job->more.stencil_radius[a])
                job->more.stencil_radius[a] = (uint8_t)distance;
        }
    job->more.block_bytes = job_block_part(job, BLOCK_END);
    check->block = calloc(1, job->more.block_bytes);
    if (!check->block)
        return false;
    int32_t *offsets = job_block_at(job, check->block, BLOCK_OFFSETS);
    double *weights = job_block_at(job, check->block, BLOCK_WEIGHTS);
    for (int k = 0; k < check->key->points; k++) {
        for (int a = 0; a < AXIS_COUNT; a++)
            offsets[AXIS_COUNT * k + a] = check->key->offsets[k][a];
        weights[k] = next_value(check);
    }
    job_block_key(check->block, job->more.block_bytes, job->more.block_key);
    return true;
}

static cudaError_t make_field(struct check *check)
{
    check->bytes = plan_array_bytes(&check->plan);
    check->in = malloc(check->bytes);
    check->out = malloc(check->bytes);
    if (!check->in || !check->out)
        return cudaErrorMemoryAllocation;
    for (uint64_t i = 0; i < check->plan.points; i++)
        if (check->key->dtype == DTYPE_F32)
            ((float *)check->in)[i] = (float)next_value(check);
        else
            ((double *)check->in)[i] = next_value(check);
    const uint64_t bytes[] = {check->bytes, check->bytes, check->plan.table->bytes, ROOM_BYTES};
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < 4 && error == cudaSuccess; i++)
        error = cudaMalloc(&check->device[i], bytes[i]);
    return error;
}

static cudaError_t run_kernel(struct check *check, const void *kernel, int units)
{
    cudaStream_t stream;
    cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (error != cudaSuccess)
        return error;
    error =
        cudaMemcpyAsync(check->device[0], check->in, check->bytes, cudaMemcpyHostToDevice, stream);
    if (error == cudaSuccess)
        error = cudaMemsetAsync(check->device[1], POISON, check->bytes, stream);
    if (error == cudaSuccess)
        error = cudaMemcpyAsync(check->device[2], plan_table_rows(check->plan.table),
                                check->plan.table->bytes, cudaMemcpyHostToDevice, stream);
    const struct compiled_trial trial = {.key = check->key,
                                         .kernel = kernel,
                                         .plan = &check->plan,
                                         .device_table = check->device[2],
                                         .units = units,
                                         .in = check->device[0],
                                         .out = check->device[1],
                                         .room = check->device[3],
                                         .room_bytes = ROOM_BYTES};
    if (error == cudaSuccess)
        error = compiled_launch(&trial, stream, check->low, check->high);
    if (error == cudaSuccess)
        error = cudaMemcpyAsync(check->out, check->device[1], check->bytes, cudaMemcpyDeviceToHost,
                                stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(stream);
    fault_never(cudaStreamDestroy(stream), "cudaStreamDestroy");
    return error;
}

/* Is the point as it is to be: the stencil's sum, or untouched where it is not the kernel's? */
static bool is_right(const struct check *check, const int64_t at[AXIS_COUNT], uint64_t i)
{
    const struct stencil_table *table = stencil_table_of(check->plan.table);
    const uint64_t bytes = plan_element_bytes(&check->plan);
    bool is_own = true;
    uint8_t expected[sizeof(double)];
    for (int a = 0; a < AXIS_COUNT; a++)
        is_own &= at[a] >= check->low[a] && at[a] < check->high[a];
    memset(expected, POISON, sizeof expected);
    if (is_own && check->key->dtype == DTYPE_F32) {
        const struct stencil_source_f32 source = {.table = table, .f = check->in};
        const float value = stencil_evaluate_f32(&source, at);
        memcpy(expected, &value, sizeof value);
    } else if (is_own) {
        const struct stencil_source_f64 source = {.table = table, .f = check->in};
        const double value = stencil_evaluate_f64(&source, at);
        memcpy(expected, &value, sizeof value);
    }
    return memcmp((const char *)check->out + i * bytes, expected, bytes) == 0;
}

static bool compare(const struct check *check)
{
    const struct plan_axis *axis = check->plan.axis;
    uint64_t i = 0;
    for (int64_t z = 0; z < axis[AXIS_Z].n; z++)
        for (int64_t y = 0; y < axis[AXIS_Y].n; y++)
            for (int64_t x = 0; x < axis[AXIS_X].n; x++, i++)
                if (!is_right(check, (const int64_t[AXIS_COUNT]){x, y, z}, i))
                    return false;
    return true;
}

static cudaError_t make_plan(struct check *check)
{
    struct failure failure = {0};
    set_shape(check);
    if (!set_stencil(check))
        return cudaErrorMemoryAllocation;
    if (!job_check(&check->job, 1e15, &failure) ||
        !job_check_block(&check->job, check->block, &failure))
        return cudaErrorInvalidValue;
    return plan_init(&check->plan, &check->job, check->block) ? cudaSuccess
                                                              : cudaErrorMemoryAllocation;
}

enum compiled_verdict compiled_check(const struct kernel_key *key, const void *kernel, int units)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    struct check check = {.key = key, .random = (uint64_t)now.tv_nsec * 2 + 1};
    cudaError_t error = make_plan(&check);
    if (error == cudaSuccess)
        error = make_field(&check);
    if (error == cudaSuccess)
        error = run_kernel(&check, kernel, units);
    enum compiled_verdict verdict = COMPILED_WRONG;
    if (fault_check(error, "a compiled kernel's trial") && compare(&check))
        verdict = COMPILED_RIGHT;
    else if (error == cudaErrorMemoryAllocation)
        verdict = COMPILED_UNTRIED;
    plan_release(&check.plan);
    for (int i = 0; i < 4; i++)
        if (check.device[i])
            fault_never(cudaFree(check.device[i]), "cudaFree");
    free(check.in);
    free(check.out);
    free(check.block);
    return verdict;
}
