/* What the streaming kernels sum at a point: rows of an axis that all points share, or that each
 * index has of its own, and what the pass adds. */
#pragma once

#include "gpu/cuda/grid.cuh"

/* What is read once. */
static __device__ __forceinline__ pack<float, 4> load_once(const float *p, pack<float, 4> *)
{
    const float4 q = __ldcs((const float4 *)p);
    return {{q.x, q.y, q.z, q.w}};
}
static __device__ __forceinline__ pack<double, 2> load_once(const double *p, pack<double, 2> *)
{
    const double2 q = __ldcs((const double2 *)p);
    return {{q.x, q.y}};
}
template <typename T>
static __device__ __forceinline__ pack<T, 1> load_once(const T *p, pack<T, 1> *)
{
    return {{__ldcs(p)}};
}

/* What a kernel's points are: a constant, so that what is simpler has no instruction of the rest.
 */
enum point_kind {
    CENTRED, /* a sum of centred rows */
    TERMS,   /* … and point_terms */
    INDEXED  /* … of index_rows */
};

/* What is added at each point beside the sum of its rows: before it a base, after it the pass's
 * part of dt times a source. A base may be the array that is written: a thread reads no point of it
 * but its own, before that is written. */
template <typename T> struct point_terms {
    const T *base, *source; /* NULL: none, or a number */
    T source_value, dt;
    int32_t has_base, has_source; /* a base without an array is the input */
    int32_t has_centre;           /* the point's own weight is not among its rows' */
};

/* The sum's first value at a point with the value f, by the weight of the point itself. */
template <typename T>
static __device__ __forceinline__ T begin_sum(const point_terms<T> &terms, T centre, T f, T base)
{
    const T own = terms.base ? base : f;
    if (!terms.has_centre)
        return terms.has_base ? own : T(0);
    return terms.has_base ? fused(centre, f, own) : centre * f;
}
template <typename T>
static __device__ __forceinline__ T end_sum(const point_terms<T> &terms, T acc, T source)
{
    return terms.has_source ? fused(terms.dt, terms.source ? source : terms.source_value, acc)
                            : acc;
}

/* The terms of points that have a weight of their own, for kernels that ask nothing at each point:
 * what stands for a base or a source that is not there changes no bit of a sum. */
template <typename T> struct centred_terms {
    bool input_is_base;
    T dt, base, source;

    __device__ __forceinline__ explicit centred_terms(const point_terms<T> &terms)
        : input_is_base(terms.has_base && !terms.base), dt(terms.has_source ? terms.dt : T(0)),
          base(-T(0)), source(terms.has_source ? terms.source_value : -T(0))
    {
    }
};

/* The rows of axes with coordinates: of 2R + 1 taps, those of the points −R … R from a row's own,
 * of which rows of an even number of points leave the first or the last out; in closures of points
 * that lie further inside. Along other axes they are pairs, fewer than R where both are mixed. */
struct index_rows {
    uint64_t at[AXIS_COUNT]; /* bytes from the table's first */
    int32_t axes;            /* bit a: axis a has them */
    int32_t pairs[AXIS_COUNT];
    int32_t slot;
};

template <typename T> struct index_row {
    const T *taps;
    bool first, last; /* has it these? */
    int shift;        /* of a closure's points, from −R … R inwards */
};

static __device__ __forceinline__ const table_row_f32 *table_row_at(const void *rows, int64_t i,
                                                                    float)
{
    return (const table_row_f32 *)rows + i;
}
static __device__ __forceinline__ const table_row_f64 *table_row_at(const void *rows, int64_t i,
                                                                    double)
{
    return (const table_row_f64 *)rows + i;
}

/* The row of index i along axis a … */
template <typename T>
static __device__ __forceinline__ auto index_row_at(const index_rows &rows, int a, int64_t i)
{
    return table_row_at((const char *)table[rows.slot].rows + rows.at[a], i, T());
}

/* … and its taps, about another index where it is in a window that lies inside the grid. A closure
 * of points alone that is not in its window has as many: at the low side from the first one on, at
 * the high side up to the last one. Of other rows next to a side, which these kernels do not sum,
 * they are any. */
template <typename T, int R>
static __device__ __forceinline__ index_row<T> row_of(const index_rows &rows, int a, int64_t i,
                                                      int64_t about)
{
    const auto *const row = index_row_at<T>(rows, a, i);
    const int skip = (int)(__ldg(&row->first) - (about - R)), count = __ldg(&row->count);
    const bool inside = skip == 0 || (skip == 1 && count <= 2 * R);
    const int without = inside ? skip : skip < 0 && count == 2 * R;
    return {row->w - without, without == 0, without + count == 2 * R + 1,
            inside ? 0 : skip - without};
}
template <typename T, int R>
static __device__ __forceinline__ index_row<T> row_of(const index_rows &rows, int a, int64_t i)
{
    return row_of<T, R>(rows, a, i, i);
}

/* Tap t, 0 where it has none. */
template <typename T, int R>
static __device__ __forceinline__ T tap_of(const index_row<T> &row, int t)
{
    const bool has = t == 0 ? row.first : t == 2 * R ? row.last : true;
    return has ? __ldg(row.taps + t) : T(0);
}

/* acc + what lies about each of a thread's points times its taps: weight(t, r, v) and value(t, r,
 * v) of the point v of its row r; has(t, r, v): of the first and the last. */
template <int R, int ROWS, int V, typename T, class Weight, class Value, class Has>
static __device__ __forceinline__ void add_taps(pack<T, V> (&acc)[ROWS], const Weight &weight,
                                                const Value &value, const Has &has)
{
#pragma unroll
    for (int t = 0; t <= 2 * R; t++)
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int v = 0; v < V; v++)
                if ((t > 0 && t < 2 * R) || has(t, r, v))
                    acc[r].v[v] = fused(weight(t, r, v), value(t, r, v), acc[r].v[v]);
}

/* The same of an axis that has pairs: value(t, r, v) + value(2R − t, r, v). */
template <int R, int ROWS, int V, typename T, class Value>
static __device__ __forceinline__ void add_pairs(pack<T, V> (&acc)[ROWS], const T (&c)[R + 1],
                                                 int pairs, const Value &value)
{
#pragma unroll
    for (int m = 1; m <= R; m++)
        if (m <= pairs) {
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int v = 0; v < V; v++)
                    acc[r].v[v] = fused(c[m], value(R + m, r, v) + value(R - m, r, v), acc[r].v[v]);
        }
}

/* --- launching --- */

/* The weights of a centred point in a pass, of the plan's radius: by axis and distance, and its
 * own. */
template <typename T, int R> struct point_weights {
    T centre, c[AXIS_COUNT][R + 1];
};

template <typename T, int R>
static point_weights<T, R> weights_of(const struct plan *plan, const struct table_pass *pass)
{
    const struct table_header *header = table_of(plan);
    point_weights<T, R> weights = {};
    weights.centre = (T)header->centre[pass->set][header->active & ~plan->indexed];
    for (int a = 0; a < AXIS_COUNT; a++) {
        if (!plan->axis[a].active || plan->indexed >> a & 1)
            continue;
        const struct table_row_f64 row = centred_row(plan, TABLE_ROWS_OF_FACTORS + pass->set, a);
        for (int m = 1; m <= R; m++)
            weights.c[a][m] = (T)row.w[m - 1];
    }
    return weights;
}

static inline index_rows index_rows_of(const struct geometry *g, const struct table_pass *pass)
{
    const struct plan *plan = g->plan;
    const int use = TABLE_ROWS_OF_FACTORS + pass->set;
    index_rows made = {};
    made.axes = plan->indexed;
    made.slot = g->slot;
    for (int a = 0; a < AXIS_COUNT; a++) {
        made.at[a] = table_of(plan)->rows[use][a].at;
        if (plan->axis[a].active && !(plan->indexed >> a & 1))
            made.pairs[a] = centred_row(plan, use, a).count;
    }
    return made;
}

static inline bool has_terms(const struct plan *plan, const struct table_pass *pass)
{
    return pass->base || table_of(plan)->source != TABLE_SOURCE_NONE;
}

template <typename T>
static point_terms<T> terms_of(const struct plan *plan, const struct table_pass *pass)
{
    const struct table_header *header = table_of(plan);
    point_terms<T> terms = {};
    terms.has_base = pass->base != NULL;
    terms.has_centre = (header->active & ~plan->indexed) != 0 || header->identity;
    terms.base = (const T *)(pass->base == pass->in[0] ? NULL : pass->base);
    terms.has_source = header->source != TABLE_SOURCE_NONE;
    terms.source =
        (const T *)(header->source == TABLE_SOURCE_FIELD ? pass->operand[OPERAND_SOURCE] : NULL);
    terms.source_value = (T)header->source_value;
    terms.dt = (T)header->factor[pass->set];
    return terms;
}
