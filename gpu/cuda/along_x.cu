/* Stencils along x alone: the first and second derivative along x, the 1D Laplacian and diffusion.
 *
 *   odd:   acc = c1 (f+1 − f−1);  acc = fma(cm, f+m − f−m, acc), m = 2 … R
 *   even:  acc = c0 f;            acc = fma(cm, f+m + f−m, acc), m = 1 … R
 *
 * The array is one sequence of points, whatever its rows: f±m is m points before or after. A block
 * copies a tile of it into shared memory with the packs (16 bytes) beside it, so that every point
 * comes from device memory once and no register waits for it. A thread takes a pack and those
 * beside it from the tile: for R = 4 in float32 3 loads and one store for 4 points, in float64 5
 * and one for 2. Both the tile and its packs are aligned, however long the rows are.
 *
 * Points nearer than R to an end of their row are left out there: a few threads of the block
 * compute them one by one, with their closure or from the other end of the row. A tile is a number
 * of whole rows where they fit, so that these find all they need in shared memory; rows longer than
 * that are cut. 4 rows are whole packs, even where one is not. */
#include "gpu/cuda/point_sum.cuh"

#include <cuda_pipeline.h>
#include <string.h>

#define FAR ((int64_t)1 << 29) /* more points than a tile has */

enum {
    ALONG_X_THREADS = 128,
    ALONG_X_PACKS = 256,      /* of a tile: 4 KiB, two for each thread */
    ALONG_X_PACKS_MOST = 1280 /* where 1 … 4 rows take more than ALONG_X_PACKS */
};

/* What a tile is. */
enum along_x_tile {
    ROUND, /* periodic rows of whole packs: packs beyond an end are those at the other */
    WHOLE, /* rows */
    CUT    /* a part of one row or two */
};

template <typename T, int R> struct along_x_shape {
    int64_t total;  /* points of all rows */
    int64_t n;      /* … of a row */
    int64_t period; /* 0: the edges have closures, or are no business of this kernel */
    double per_row; /* 1 / n */
    int32_t points; /* of a tile */
    int32_t rows;   /* of a tile; 0: it is a part of one or two */
    uint32_t magic; /* x magic >> 32 = x / n for a point x of a tile of whole rows */
    int32_t odd;
    int32_t closure_points;
    int32_t edges; /* points nearer than R to an end are computed one by one */
    /* TERMS: points next to an end that no pack stores. They may be those of the base. */
    int64_t apart[SIDE_COUNT];
    T centre, c[R + 1];
    point_terms<T> terms;
    T closure[R][2 * R + 2];
};

/* The V points at `place` of an array of terms, of which some may lie past its end. */
template <int V, typename T>
static __device__ __forceinline__ pack<T, V> load_term(const T *term, int64_t place, int64_t total)
{
    pack<T, V> loaded = {};
    if (term && place + V <= total)
        return load_once(term + place, &loaded);
#pragma unroll
    for (int v = 0; v < V; v++)
        if (term && place + v < total)
            loaded.v[v] = __ldcs(term + place + v);
    return loaded;
}

/* Point i of a row of n, nearer than R to an end of it; `place`: in the array. Index is what n
 * fits. */
template <enum point_kind KIND, typename Index, typename T, int R>
static __device__ __forceinline__ T along_x_edge(const along_x_shape<T, R> &shape, const T *row,
                                                 Index i, int64_t place)
{
    const Index n = (Index)shape.n, period = (Index)shape.period;
    T acc = shape.odd ? -T(0) : T(0); /* −0 + a product is the product */
    if (period == 0) {
        const bool high = i >= R;
        const int distance = (int)(high ? n - 1 - i : i), step = high ? -1 : 1;
        const T *f = high ? row + n - 1 : row;
        for (int k = 0; k < shape.closure_points; k++, f += step) {
            const T w = shape.closure[distance][k];
            acc = fused(high && shape.odd ? -w : w, *f, acc);
        }
        return acc;
    }
    if (!shape.odd)
        acc = shape.centre * row[i];
    if constexpr (KIND == TERMS)
        acc = begin_sum(shape.terms, shape.centre, row[i],
                        load_term<1>(shape.terms.base, place, shape.total).v[0]);
#pragma unroll
    for (int m = 1; m <= R; m++) {
        const T above = row[i + m < n ? i + m : i + m - period];
        const T below = row[i - m >= 0 ? i - m : i - m + period];
        acc = fused(shape.c[m], shape.odd ? above - below : above + below, acc);
    }
    if constexpr (KIND == TERMS)
        acc = end_sum(shape.terms, acc, load_term<1>(shape.terms.source, place, shape.total).v[0]);
    return acc;
}

template <typename T, int R, enum along_x_tile TILE, enum point_kind KIND, class Jobs>
__global__ void __launch_bounds__(ALONG_X_THREADS, sizeof(T) == 4 ? 12 : 10)
    along_x_kernel(const __grid_constant__ along_x_shape<T, R> shape, const T *__restrict__ in,
                   T *__restrict__ out, const __grid_constant__ Jobs jobs)
{
    constexpr int V = 16 / sizeof(T), REACH = (R + V - 1) / V;
    extern __shared__ __align__(128) unsigned char shared_memory[];
    own_arrays(in, out, jobs);
    T *const tile = (T *)shared_memory + REACH * V;
    const int64_t begin = (int64_t)blockIdx.x * shape.points, left = shape.total - begin;
    const int points = (int)min((int64_t)shape.points, left);
    for (int x = threadIdx.x * V; x + V <= points; x += ALONG_X_THREADS * V)
        __pipeline_memcpy_async(tile + x, in + begin + x, 16);
    if (points % V != 0 && (int)threadIdx.x < points % V) /* the array's last */
        tile[points - 1 - (int)threadIdx.x] = in[begin + points - 1 - (int)threadIdx.x];
    if (TILE == CUT && (int)threadIdx.x < 2 * REACH * V) { /* beside the tile */
        const int k = (int)threadIdx.x, x = k < REACH * V ? k - REACH * V : points + k - REACH * V;
        if (x < left && x + begin >= 0)
            tile[x] = in[begin + x];
    }
    __pipeline_commit();

    /* CUT: points of the first row before the tile, 0 or n where it begins with the row: below 2^52
     * points the quotient is rounded down from a whole number at most, and n stands for 0 below.
     * For its packs a row need be no longer than a tile can tell. */
    int64_t before = 0;
    if (TILE == CUT)
        before = begin - (int64_t)((double)begin * shape.per_row) * shape.n;
    const int n = TILE == CUT ? (int)(min(before, FAR) + min(shape.n - before, FAR)) : (int)shape.n;
    __pipeline_wait_prior(0);
    __syncthreads();

    for (int x = threadIdx.x * V; x < points; x += ALONG_X_THREADS * V) {
        int i = x + (int)min(before, FAR); /* in the row */
        i -= TILE != CUT ? (int)((uint64_t)(uint32_t)x * shape.magic >> 32) * n : i >= n ? n : 0;
        pack<T, V> packs[2 * REACH + 1], result;
#pragma unroll
        for (int k = -REACH; k <= REACH; k++) {
            int at = k * V;
            if (TILE == ROUND && k != 0)
                at += k < 0 && i + at < 0 ? n : k > 0 && i + at >= n ? -n : 0;
            packs[k + REACH] = shared_pack(tile + x + at);
        }
        const auto f = [&](int v) { return packs[(v + REACH * V) / V].v[(v + REACH * V) % V]; };
        if (shape.odd) {
#pragma unroll
            for (int v = 0; v < V; v++) {
                T acc = shape.c[1] * (f(v + 1) - f(v - 1));
#pragma unroll
                for (int m = 2; m <= R; m++)
                    acc = fused(shape.c[m], f(v + m) - f(v - m), acc);
                result.v[v] = acc;
            }
        } else {
            pack<T, V> base, source;
            if constexpr (KIND == TERMS) {
                base = load_term<V>(shape.terms.base, begin + x, shape.total);
                source = load_term<V>(shape.terms.source, begin + x, shape.total);
            }
#pragma unroll
            for (int v = 0; v < V; v++) {
                T acc;
                if constexpr (KIND == TERMS)
                    acc = begin_sum(shape.terms, shape.centre, f(v), base.v[v]);
                else
                    acc = shape.centre * f(v);
#pragma unroll
                for (int m = 1; m <= R; m++)
                    acc = fused(shape.c[m], f(v + m) + f(v - m), acc);
                if constexpr (KIND == TERMS)
                    acc = end_sum(shape.terms, acc, source.v[v]);
                result.v[v] = acc;
            }
        }
        T *const target = out + begin + x;
        const int64_t low = KIND == TERMS ? shape.apart[SIDE_LOW] : R;
        const int64_t high = KIND == TERMS ? shape.apart[SIDE_HIGH] : R;
        if (TILE == ROUND || (i >= low && i + V + high <= n)) {
            store_pack(target, result);
        } else {
#pragma unroll
            for (int v = 0; v < V; v++) {
                const int j = i + v < n ? i + v : i + v - n;
                if (j >= low && j + high < n && x + v < points)
                    target[v] = result.v[v];
            }
        }
    }
    if (TILE == ROUND || !shape.edges)
        return;

    /* The last warp first: it has no more packs than the others. */
    const int rows = TILE == CUT ? 2 : points / n;
    for (int e = ALONG_X_THREADS - 1 - (int)threadIdx.x; e < rows * 2 * R; e += ALONG_X_THREADS) {
        const int row = e / (2 * R), k = e % (2 * R);
        if (TILE == CUT) {
            const int64_t start = row * shape.n - before, i = k < R ? k : shape.n - 2 * R + k;
            if (start + i >= 0 && start + i < points)
                out[begin + start + i] =
                    along_x_edge<KIND, int64_t>(shape, in + begin + start, i, begin + start + i);
        } else {
            const int start = row * n, i = k < R ? k : n - 2 * R + k;
            if (i >= (k < R ? 0 : R) && i < n) /* once: its base may be what is written */
                out[begin + start + i] =
                    along_x_edge<KIND, int>(shape, tile + start, i, begin + start + i);
        }
    }
}

/* How many rows make a tile: enough to be whole packs, and blocks for the whole device. */
template <typename T, int R> static void choose_tile(along_x_shape<T, R> *shape, int units)
{
    constexpr int V = 16 / sizeof(T);
    const int64_t packs = blocks_of(shape->total, V);
    int64_t together = V, wanted = packs / (4 * units);
    while (together > 1 && shape->n * (together / 2) % V == 0)
        together /= 2;
    const int64_t least = ALONG_X_THREADS, most = ALONG_X_PACKS;
    wanted = wanted < least ? least : wanted > most ? most : wanted;
    wanted = wanted / ALONG_X_THREADS * ALONG_X_THREADS;
    const int64_t group = shape->n * together / V; /* packs */
    if (group > ALONG_X_PACKS_MOST) {
        shape->points = (int32_t)((wanted < shape->n / V ? wanted : shape->n / V) * V);
        return;
    }
    shape->rows = (int32_t)(together * (wanted > group ? wanted / group : 1));
    shape->points = (int32_t)(shape->rows * shape->n);
    shape->magic = shape->n == 1 ? UINT32_MAX : (uint32_t)((((uint64_t)1 << 32) / shape->n) + 1);
}

/* Are the edges in the plan's boundary, which others compute? */
static bool leaves_edges(const struct plan *plan)
{
    return !plan->plain && plan->axis[AXIS_X].side[SIDE_LOW].map == SIDE_MAP_NONE;
}

/* Periodic rows of whole packs, as long as those beside a pack reach. */
static bool is_round(const struct plan *plan)
{
    const struct plan_axis *axis = &plan->axis[AXIS_X];
    const int64_t pack = 16 / (int64_t)plan_element_bytes(plan);
    return axis->side[SIDE_LOW].map == SIDE_MAP_PERIODIC && axis->n % pack == 0 &&
           axis->n >= (plan->radius + pack - 1) / pack * pack;
}

/* Does the kernel compute them? */
static bool takes_edges(const struct plan *plan)
{
    const struct plan_axis *axis = &plan->axis[AXIS_X];
    const int low = axis->side[SIDE_LOW].map, high = axis->side[SIDE_HIGH].map;
    if (low == SIDE_MAP_PERIODIC || low == SIDE_MAP_ENDPOINT)
        return axis->n > plan->radius + 1 || is_round(plan);
    return plan->plain && !plan->identity && low == SIDE_MAP_NONE && high == SIDE_MAP_NONE;
}

template <typename T, int R, enum along_x_tile TILE>
static kernel_pair<along_x_shape<T, R>, T> along_x_kernels(bool has_terms)
{
    if constexpr (R <= TABLE_RADIUS) /* second derivatives */
        if (has_terms)
            return {along_x_kernel<T, R, TILE, TERMS, one_job>, nullptr};
    if constexpr (R > PLAN_RADIUS) /* of no plain plan */
        return {along_x_kernel<T, R, TILE, CENTRED, one_job>, nullptr};
    else
        return {along_x_kernel<T, R, TILE, CENTRED, one_job>,
                along_x_kernel<T, R, TILE, CENTRED, job_arrays>};
}

template <typename T, int R>
static cudaError_t launch_along_x(const struct geometry *g, const struct table_pass *pass)
{
    constexpr int V = 16 / sizeof(T), REACH = (R + V - 1) / V;
    const struct plan *plan = g->plan;
    const struct plan_axis *axis = &plan->axis[AXIS_X];
    const int32_t map = axis->side[SIDE_LOW].map;
    along_x_shape<T, R> shape = {};
    shape.n = axis->n;
    shape.total = (int64_t)(plan->points * plan->batch);
    shape.per_row = 1.0 / (double)axis->n;
    shape.odd = plan->parity == PLAN_ODD;
    shape.period = map == SIDE_MAP_PERIODIC ? axis->n : map == SIDE_MAP_ENDPOINT ? axis->n - 1 : 0;
    const bool closed = shape.period == 0;
    const point_weights<T, R> weights = weights_of<T, R>(plan, pass);
    shape.centre = weights.centre;
    memcpy(shape.c, weights.c[AXIS_X], sizeof shape.c);
    shape.terms = terms_of<T>(plan, pass);
    shape.closure_points = axis->row_points;
    for (int d = 0; d < R && closed && plan->plain; d++)
        for (int k = 0; k < axis->row_points; k++)
            shape.closure[d][k] = (T)axis->row[d][k];
    choose_tile(&shape, g->units);
    shape.edges = takes_edges(plan);
    shape.apart[SIDE_LOW] = leaves_edges(plan) ? g->low[AXIS_X] : R;
    shape.apart[SIDE_HIGH] = leaves_edges(plan) ? axis->n - g->high[AXIS_X] : R;
    const int64_t blocks = blocks_of(shape.total, shape.points);
    const size_t bytes = (shape.points + 2 * REACH * V) * sizeof(T);
    const bool added = has_terms(plan, pass);
    const auto kernel = shape.rows == 0  ? along_x_kernels<T, R, CUT>(added)
                        : is_round(plan) ? along_x_kernels<T, R, ROUND>(added)
                                         : along_x_kernels<T, R, WHOLE>(added);
    return launch_blocks(kernel, blocks, dim3(ALONG_X_THREADS), g, shape, pass, bytes);
}

/* The edges of diffusion in 1D, of mirrors, and of rows so short that a stencil goes around them
 * twice. */
static cudaError_t launch_edges(const struct geometry *g, const struct table_pass *pass)
{
    const int64_t n = g->plan->axis[AXIS_X].n, radius = g->plan->radius;
    struct geometry edges = *g;
    edges.low[AXIS_X] = n < radius ? n : radius;
    edges.high[AXIS_X] = n - radius > edges.low[AXIS_X] ? n - radius : edges.low[AXIS_X];
    geometry_boundary(&edges);
    if (edges.boundary.points == 0)
        return cudaSuccess;
    return g->plan->plain ? boundary_launch(&edges, pass) : rows_launch(&edges, pass);
}

extern "C" cudaError_t along_x_launch(const struct geometry *g, const struct table_pass *pass)
{
    const cudaError_t error = with_type_and_radius<CENTRED_RADIUS>(g, [&](auto type, auto radius) {
        return launch_along_x<decltype(type), decltype(radius)::value>(g, pass);
    });
    return error != cudaSuccess || takes_edges(g->plan) || leaves_edges(g->plan)
               ? error
               : launch_edges(g, pass);
}
