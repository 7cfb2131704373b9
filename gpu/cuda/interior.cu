/* The interior of a plan with a table (numerics/table.h): the points that are centred
 * along every axis, and read what lies about them and nothing else. What numerics/table_point.h
 * says, in loops of fixed length and without a look-up: a thread does one point after another,
 * weights and strides are parameters. Blocks are as cubic as warps allow, since neighbours are
 * shared through the caches, and march along z. */
#include "gpu/cuda/grid.cuh"

#include <string.h>

enum {
    MOST_PAIRS = TABLE_PAIRS - 1, /* of a row; rows of 7 are left to the boundary */
    SUM_PAIRS = 5,                /* along several axes */
    WARP = 32,
    MOST_THREADS = 512,
    BLOCKS_EACH = 16 /* of a multiprocessor */
};

/* Centred rows of one kind, by active axis: x, y, z, those that are none left out. */
template <typename T> struct interior_rows {
    T w[AXIS_COUNT][MOST_PAIRS];
};

template <typename T> struct interior_shape {
    const T *in[AXIS_COUNT], *base, *source; /* base, source: NULL for none */
    T *out[AXIS_COUNT];
    int64_t low[AXIS_COUNT], high[AXIS_COUNT]; /* points */
    int64_t begin_x;                           /* where the first block does, in whole warps */
    int64_t stride_y, stride_z, field;         /* elements */
    uint32_t blocks_y, blocks_z;               /* of a field */
    uint64_t blocks, length;                   /* blocks_z of the batch; that one marches along */
    int64_t stride[AXIS_COUNT];                /* along the active axes */
    interior_rows<T> rows;
    T centre, source_value, dt;
    int32_t has_centre, shared, odd, shift, adds_source;
    /* Parts: the result's component c is a sum of so many, part k of input of[c][k] along[c][k]. */
    int32_t outputs, parts, minus;
    int8_t of[AXIS_COUNT][AXIS_COUNT], along[AXIS_COUNT][AXIS_COUNT];
    /* Biharmonic: second derivatives along an axis, of which those along another one are taken. */
    interior_rows<T> inner, outer;
    T inner_centre[AXIS_COUNT], outer_centre[AXIS_COUNT];
    /* div(k grad u) */
    const T *k;
    T across[TABLE_ACROSS];
    int32_t identity;
};

/* acc + R pairs of points about f, or half way to its neighbour; without an acc (not `begun`) it
 * begins with the first product. */
template <int R, typename T>
static __device__ __forceinline__ T add_pairs(const T *f, int64_t stride, const T (&w)[MOST_PAIRS],
                                              bool odd, int shift, bool begun, T acc)
{
    const T *above = shift < 0 ? f - stride : f, *below = shift > 0 ? f + stride : f;
    T high[R], low[R];
#pragma unroll
    for (int m = 0; m < R; m++) {
        high[m] = __ldg(above + (m + 1) * stride);
        low[m] = __ldg(below - (m + 1) * stride);
    }
#pragma unroll
    for (int m = 0; m < R; m++) {
        const T pair = odd ? high[m] - low[m] : high[m] + low[m];
        acc = begun || m > 0 ? fused(w[m], pair, acc) : w[m] * pair;
    }
    return acc;
}

/* Derivatives along one axis each, rounded alone, then added. */
template <int R> struct interior_parts {
    template <typename T>
    static __device__ __forceinline__ void run(const interior_shape<T> &shape, int64_t place)
    {
        for (int c = 0; c < shape.outputs; c++) {
            T sum = 0;
            for (int k = 0; k < shape.parts; k++) {
                const int a = shape.along[c][k];
                const T part = add_pairs<R>(shape.in[shape.of[c][k]] + place, shape.stride[a],
                                            shape.rows.w[a], shape.odd, shape.shift, false, (T)0);
                sum = k == 0 ? part : shape.minus ? sum - part : sum + part;
            }
            shape.out[c][place] = sum;
        }
    }
};

/* base + the sum of even derivatives along AXES axes. */
template <int R, int AXES, typename T>
static __device__ __forceinline__ T sum_at(const interior_shape<T> &shape, int64_t place)
{
    const T *f = shape.in[0] + place;
    T acc = shape.base ? shape.base[place] : (T)0;
    if (shape.has_centre)
        acc = shape.base ? fused(shape.centre, __ldg(f), acc) : shape.centre * __ldg(f);
    if (shape.shared) {
        T pairs[R][AXES];
#pragma unroll
        for (int m = 0; m < R; m++)
#pragma unroll
            for (int a = 0; a < AXES; a++)
                pairs[m][a] =
                    __ldg(f + (m + 1) * shape.stride[a]) + __ldg(f - (m + 1) * shape.stride[a]);
#pragma unroll
        for (int m = 0; m < R; m++) {
            T sum = pairs[m][0];
#pragma unroll
            for (int a = 1; a < AXES; a++)
                sum = sum + pairs[m][a];
            acc = fused(shape.rows.w[0][m], sum, acc);
        }
        return acc;
    }
#pragma unroll
    for (int a = 0; a < AXES; a++)
        acc = add_pairs<R>(f, shape.stride[a], shape.rows.w[a], false, shape.shift, true, acc);
    return acc;
}

/* acc + the part of dt that the pass is × the source. */
template <typename T>
static __device__ __forceinline__ T add_source(const interior_shape<T> &shape, int64_t place, T acc)
{
    if (!shape.adds_source)
        return acc;
    return fused(shape.dt, shape.source ? __ldg(shape.source + place) : shape.source_value, acc);
}

template <int R, int AXES> struct interior_sum {
    template <typename T>
    static __device__ __forceinline__ void run(const interior_shape<T> &shape, int64_t place)
    {
        shape.out[0][place] = add_source(shape, place, sum_at<R, AXES>(shape, place));
    }
};

/* The second derivative at f along an axis, rounded as it is alone. */
template <int R, typename T>
static __device__ __forceinline__ T inner_at(const interior_shape<T> &shape, const T *f, int a)
{
    return add_pairs<R>(f, shape.stride[a], shape.inner.w[a], false, 0, true,
                        shape.inner_centre[a] * __ldg(f));
}

/* R: of second derivatives; those of order 4 reach one further. */
template <int R, int AXES> struct interior_biharmonic {
    template <typename T>
    static __device__ __forceinline__ void run(const interior_shape<T> &shape, int64_t place)
    {
        const T *f = shape.in[0] + place;
        T acc = sum_at<R + 1, AXES>(shape, place);
#pragma unroll
        for (int a = 0; a < AXES; a++)
#pragma unroll
            for (int b = a + 1; b < AXES; b++) {
                acc = fused(shape.outer_centre[b], inner_at<R>(shape, f, a), acc);
#pragma unroll 1 /* 18 loads at once are enough, and more take registers */
                for (int m = 1; m <= R; m++) {
                    const T above = inner_at<R>(shape, f + m * shape.stride[b], a);
                    const T below = inner_at<R>(shape, f - m * shape.stride[b], a);
                    acc = fused(shape.outer.w[b][m - 1], above + below, acc);
                }
            }
        shape.out[0][place] = acc;
    }
};

/* The conductance between a point and the one m away on the side s, by what that is a multiple of.
 * k: at the point; across: from those of m on. */
template <int R, typename T>
static __device__ __forceinline__ T between(const T *k, const T *across, int m, int s)
{
    T acc = k[0] + k[s * m];
#pragma unroll
    for (int e = 1; 2 * e <= m; e++)
        acc = fused(*across++, 2 * e == m ? k[s * e] : k[s * e] + k[s * (m - e)], acc);
#pragma unroll
    for (int e = 1; m + e <= R; e++)
        acc = fused(*across++, k[-s * e] + k[s * (m + e)], acc);
    return acc;
}

template <int R, int AXES> struct interior_divergence {
    template <typename T>
    static __device__ __forceinline__ void run(const interior_shape<T> &shape, int64_t place)
    {
        const T *f = shape.in[0] + place, *g = shape.k + place;
        T acc = shape.base ? shape.base[place] : shape.identity ? __ldg(f) : (T)0;
#pragma unroll
        for (int a = 0; a < AXES; a++) {
            T around[2 * R + 1], k_around[2 * R + 1];
#pragma unroll
            for (int j = 0; j <= 2 * R; j++) {
                around[j] = __ldg(f + (j - R) * shape.stride[a]);
                k_around[j] = __ldg(g + (j - R) * shape.stride[a]);
            }
            const T *u = around + R, *k = k_around + R, *across = shape.across;
#pragma unroll
            for (int m = 1; m <= R; m++) {
                const T above = between<R>(k, across, m, 1) * (u[m] - u[0]);
                const T below = between<R>(k, across, m, -1) * (u[-m] - u[0]);
                acc = fused(shape.rows.w[a][m - 1], above + below, acc);
                across += m / 2 + R - m;
            }
        }
        shape.out[0][place] = add_source(shape, place, acc);
    }
};

template <typename T, class Form>
static __global__ void __launch_bounds__(MOST_THREADS)
    interior_kernel(const __grid_constant__ interior_shape<T> shape)
{
    const int64_t x = shape.begin_x + (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (x < shape.low[AXIS_X] || x >= shape.high[AXIS_X])
        return;
    const uint64_t first = (uint64_t)blockIdx.z * shape.length;
    const uint64_t last = first + shape.length < shape.blocks ? first + shape.length : shape.blocks;
    for (uint64_t block = first; block < last; block++) {
        /* A division costs as much as some forms, a long one more than most. */
        const uint64_t field = shape.blocks == shape.blocks_z ? 0
                               : shape.blocks <= UINT32_MAX   ? (uint32_t)block / shape.blocks_z
                                                              : block / shape.blocks_z;
        const int64_t block_z = (int64_t)(block - field * shape.blocks_z);
        const int64_t z = shape.low[AXIS_Z] + block_z * blockDim.z + threadIdx.z;
        for (uint32_t block_y = blockIdx.y; block_y < shape.blocks_y; block_y += gridDim.y) {
            const int64_t y = shape.low[AXIS_Y] + (int64_t)block_y * blockDim.y + threadIdx.y;
            if (y < shape.high[AXIS_Y] && z < shape.high[AXIS_Z])
                Form::run(shape, (int64_t)field * shape.field + z * shape.stride_z +
                                     y * shape.stride_y + x);
        }
    }
}

/* --- launching --- */

/* The centred row of a kind along axis a, as the shape's active axis i. */
template <typename T>
static void take_row(const struct plan *plan, int use, int a, interior_rows<T> *rows, int i)
{
    const struct table_row_f64 row = centred_row(plan, use, a);
    for (int m = 0; m < row.count && m < MOST_PAIRS; m++)
        rows->w[i][m] = (T)row.w[m];
}

/* How many of the axes below `a` are active. */
static int active_below(const table_header *header, int a)
{
    int axes = 0;
    for (int b = 0; b < a; b++)
        axes += header->active >> b & 1;
    return axes;
}

/* Which derivative of which input the parts are. */
template <typename T> static void take_parts(const table_header *header, interior_shape<T> *shape)
{
    shape->outputs = header->outputs;
    shape->minus = header->operator_id == OPERATOR_CURL;
    for (int c = 0, of, along; c < shape->outputs; c++)
        for (int k = 0; table_part(header, c, k, &of, &along); k++) {
            shape->parts = k + 1;
            shape->of[c][k] = (int8_t)of;
            shape->along[c][k] = (int8_t)active_below(header, along);
        }
}

/* What the pass is. */
template <typename T>
static void take_pass(const struct geometry *g, const struct table_pass *pass,
                      interior_shape<T> *shape)
{
    const table_header *header = table_of(g->plan);
    int axes = 0;
    for (int a = 0; a < AXIS_COUNT; a++) {
        shape->in[a] = (const T *)pass->in[a];
        shape->out[a] = (T *)pass->out[a];
        shape->low[a] = g->low[a];
        shape->high[a] = g->high[a];
        if (!(header->active >> a & 1))
            continue;
        shape->stride[axes] = header->axis_of[a].stride;
        take_row(g->plan, TABLE_ROWS_OF_FACTORS + pass->set, a, &shape->rows, axes);
        if (header->form == TABLE_FORM_BIHARMONIC) {
            take_row(g->plan, TABLE_ROWS_INNER, a, &shape->inner, axes);
            take_row(g->plan, TABLE_ROWS_OUTER, a, &shape->outer, axes);
            shape->inner_centre[axes] = (T)header->inner_centre[a];
            shape->outer_centre[axes] = (T)header->outer_centre[a];
        }
        axes++;
    }
    shape->base = (const T *)pass->base;
    shape->stride_y = header->axis_of[AXIS_Y].stride;
    shape->stride_z = header->axis_of[AXIS_Z].stride;
    shape->field = (int64_t)header->points;
    /* All rows of the interior have a centre, but those of a shift. */
    shape->has_centre = header->shift == 0 || header->identity;
    shape->centre = (T)header->centre[pass->set][header->shift == 0 ? header->active : 0];
    shape->shared = header->shared && header->shift == 0;
    shape->odd = header->odd;
    shape->shift = header->shift;
    shape->adds_source = header->source != TABLE_SOURCE_NONE;
    shape->source =
        header->source == TABLE_SOURCE_FIELD ? (const T *)pass->operand[OPERAND_SOURCE] : NULL;
    shape->source_value = (T)header->source_value;
    shape->dt = (T)header->factor[pass->set];
    shape->identity = header->identity;
    if (pass->operand[OPERAND_COEFFICIENT])
        shape->k = (const T *)pass->operand[OPERAND_COEFFICIENT];
    for (int i = 0; i < TABLE_ACROSS; i++)
        shape->across[i] = (T)header->across[i];
    if (header->form == TABLE_FORM_PARTS)
        take_parts(header, shape);
}

/* run(kernel) of the plan's form, the pairs of its rows and its axes; an invalid value: there is
 * none. */
template <typename T, class Run>
static cudaError_t with_kernel(const struct plan *plan, const Run &run)
{
    const table_header *header = table_of(plan);
    int a = AXIS_X; /* the first active axis; the rows of all have as many pairs */
    while (!(header->active >> a & 1))
        a++;
    const int pairs = centred_row(plan, TABLE_ROWS_OF_FACTORS, a).count;
    const int axes = active_below(header, AXIS_COUNT);
    switch (header->form) {
    case TABLE_FORM_PARTS:
        return with_number<1, MOST_PAIRS>(pairs, [&](auto R) {
            return run(interior_kernel<T, interior_parts<decltype(R)::value>>);
        });
    case TABLE_FORM_SUM: /* of an interpolation */
        return axes > 1 ? cudaErrorInvalidValue : with_number<1, SUM_PAIRS>(pairs, [&](auto R) {
            return run(interior_kernel<T, interior_sum<decltype(R)::value, 1>>);
        });
    case TABLE_FORM_BIHARMONIC:
        return with_number<1, 2>(axes, [&](auto A) {
            return with_number<1, SUM_PAIRS - 1>(pairs - 1, [&](auto R) {
                return run(
                    interior_kernel<T,
                                    interior_biharmonic<decltype(R)::value, decltype(A)::value>>);
            });
        });
    default: /* that of an error estimate is left to the boundary */
        return with_number<1, 2>(axes, [&](auto A) {
            return with_number<1, TABLE_RADIUS - 1>(pairs, [&](auto R) {
                return run(
                    interior_kernel<T,
                                    interior_divergence<decltype(R)::value, decltype(A)::value>>);
            });
        });
    }
}

extern "C" bool interior_takes(const struct plan *plan)
{
    return with_kernel<float>(plan, [](auto) { return cudaSuccess; }) == cudaSuccess;
}

template <typename T>
static cudaError_t launch_interior(const struct geometry *g, const struct table_pass *pass)
{
    const uint32_t most = 65535; /* blocks along y: threads go on from there */
    int64_t size[AXIS_COUNT];
    interior_shape<T> shape;
    memset(&shape, 0, sizeof shape);
    take_pass<T>(g, pass, &shape);
    for (int a = 0; a < AXIS_COUNT; a++)
        size[a] = g->high[a] - g->low[a];
    shape.begin_x = g->low[AXIS_X] / WARP * WARP;
    size[AXIS_X] += g->low[AXIS_X] - shape.begin_x;
    dim3 threads;
    threads.z = power_of_two(size[AXIS_Z], 4);
    threads.y = power_of_two(size[AXIS_Y], threads.z > 1 ? 4 : 8);
    threads.x = power_of_two(size[AXIS_X], (threads.z > 1 ? MOST_THREADS : MOST_THREADS / 2) /
                                               threads.y / threads.z);
    const int64_t columns = blocks_of(size[AXIS_X], threads.x);
    const int64_t blocks_y = blocks_of(size[AXIS_Y], threads.y);
    const int64_t blocks_z = blocks_of(size[AXIS_Z], threads.z);
    if (columns > INT32_MAX || blocks_y > UINT32_MAX || blocks_z > UINT32_MAX)
        return cudaErrorInvalidConfiguration;
    shape.blocks_y = (uint32_t)blocks_y;
    shape.blocks_z = (uint32_t)blocks_z;
    shape.blocks = (uint64_t)blocks_z * g->plan->batch;
    /* Enough for the device, some times over: what one reads along z it finds in its first cache
     * again. */
    const uint64_t planes = (uint64_t)columns * (shape.blocks_y < most ? shape.blocks_y : most);
    const uint64_t enough = (uint64_t)g->units * BLOCKS_EACH / planes + 1;
    shape.length = (uint64_t)blocks_of((int64_t)shape.blocks, (int64_t)enough);
    const dim3 blocks((unsigned)columns, shape.blocks_y < most ? shape.blocks_y : most,
                      (unsigned)blocks_of((int64_t)shape.blocks, (int64_t)shape.length));
    return with_kernel<T>(g->plan, [&](auto kernel) {
        return launch_grid(kernel, blocks, threads, 0, g->stream, shape);
    });
}

extern "C" cudaError_t interior_launch(const struct geometry *g, const struct table_pass *pass)
{
    return with_type(g->plan, [&](auto type) { return launch_interior<decltype(type)>(g, pass); });
}
