/* What faces leave of a boundary: rims, where two or three axes have closures or sides that are
 * mapped. A thread has a point and finds each axis's row by its index; all that a row reads is
 * under way at once. */
#include "gpu/cuda/faces_plan.cuh"

template <typename T, int R, int FORM> struct rim_point : face_sums<T, R, 1, FORM> {
    using sums = face_sums<T, R, 1, FORM>;
    using sums::combined, sums::join, sums::LINE, sums::paired;
    using typename sums::value;
    using row_type = table_row_of<T>;

    const rim_plan<T> &plan;
    const struct plan_axis *maps; /* where indices beyond an axis lie */
    int64_t at[AXIS_COUNT], place;
    const row_type *row[AXIS_COUNT];
    int centred, high; /* bit a: the point's row along axis a is; … is of the high side */
    int stated;        /* bit a: the point itself has a value that a side of axis a states */

    __device__ __forceinline__ rim_point(const rim_plan<T> &plan, int slot,
                                         const int64_t (&where)[AXIS_COUNT])
        : plan(plan), maps(table[slot].plan.axis), place(0), centred(0), high(0), stated(0)
    {
#pragma unroll
        for (int a = 0; a < AXIS_COUNT; a++) {
            const rim_axis<T> &axis = plan.axis[a];
            const int64_t below = where[a], above = axis.n - 1 - below;
            const bool is_low = below < axis.low, is_high = !is_low && above < axis.high;
            at[a] = below;
            place += below * axis.stride;
            row[a] = (const row_type *)((const char *)table[slot].rows + axis.rows) +
                     (is_low    ? below
                      : is_high ? axis.low + above
                                : axis.low + axis.high);
            centred |= (plan.active >> a & 1 && !is_low && !is_high) << a;
            high |= is_high << a;
            stated |=
                ((below == 0 && axis.imposed[SIDE_LOW]) || (above == 0 && axis.imposed[SIDE_HIGH]))
                << a;
        }
    }
    /* The value that the side of axis a states at that end. */
    __device__ __forceinline__ T stated_at(int a, int64_t i) const
    {
        return plan.axis[a].value[i == 0 ? SIDE_LOW : SIDE_HIGH];
    }
    /* f at index j, inside, of the line along axis a: of all sides that state a value there the one
     * of the first axis counts. */
    __device__ __forceinline__ value read(const T *f, int a, int64_t j) const
    {
        const rim_axis<T> &axis = plan.axis[a];
        T of = __ldg(f + place + (j - at[a]) * axis.stride);
        if (!plan.imposes)
            return {{of}};
#pragma unroll
        for (int b = AXIS_COUNT - 1; b >= 0; b--) {
            const bool is_stated = b != a ? stated >> b & 1
                                          : (j == 0 && axis.imposed[SIDE_LOW]) ||
                                                (j == axis.n - 1 && axis.imposed[SIDE_HIGH]);
            of = is_stated ? stated_at(b, b == a ? j : at[b]) : of;
        }
        return {{of}};
    }
    /* The pairs about the point along axis a. */
    __device__ __forceinline__ void pairs(const T *f, int a, value (&pair)[R]) const
    {
        const bool inside = at[a] >= R && at[a] + R < plan.axis[a].n;
#pragma unroll
        for (int m = 1; m <= R; m++)
            pair[m - 1] = paired(read(f, a, inside ? at[a] + m : source(maps + a, at[a] + m)),
                                 read(f, a, inside ? at[a] - m : source(maps + a, at[a] - m)));
    }
    /* acc + the products of a centred row, … */
    static __device__ __forceinline__ void fold(const row_type *centred, const value (&pair)[R],
                                                bool begun, value &acc)
    {
#pragma unroll
        for (int m = 0; m < R; m++)
            acc = fused(__ldg(&centred->w[m]), pair[m], acc, begun || m > 0);
    }
    /* … and of a closure. */
    __device__ __forceinline__ void close(const T *f, int a, bool begun, value &acc) const
    {
        const rim_axis<T> &axis = plan.axis[a];
        const int s = high >> a & 1, count = __ldg(&row[a]->count);
        const int64_t edge = s == SIDE_LOW ? 0 : axis.n - 1;
        const T datum = __ldg(&row[a]->data[s]);
#pragma unroll
        for (int k = 0; k < LINE; k++)
            if (k < count)
                acc = fused(__ldg(&row[a]->w[k]), read(f, a, s == SIDE_LOW ? k : edge - k), acc,
                            begun || k > 0);
        if (datum == (T)0)
            return;
        const T given = axis.mixed[s]
                            ? fused(-axis.value[s], read(f, a, edge).v[0], axis.constant[s])
                            : axis.value[s];
        acc = fused(datum, value{{given}}, acc, begun || count > 0);
    }
    /* acc + the derivative along axis a. */
    __device__ __forceinline__ void along(const T *f, int a, bool begun, value &acc) const
    {
        if (centred >> a & 1) {
            value pair[R];
            pairs(f, a, pair);
            fold(row[a], pair, begun, acc);
        } else {
            close(f, a, begun, acc);
        }
    }
    __device__ __forceinline__ T sum(const T *f) const
    {
        value acc = {}, total[R], pair[R];
        if (centred || plan.identity)
            acc = plan.centre[centred] * read(f, AXIS_X, at[AXIS_X]);
        const bool together = plan.shared && centred == plan.active;
        const row_type *first = NULL;
#pragma unroll
        for (int a = 0; a < AXIS_COUNT; a++) {
            if (!(plan.active >> a & 1))
                continue;
            if (together) {
                pairs(f, a, pair);
                join(total, pair, first != NULL);
                first = first ? first : row[a];
            } else {
                along(f, a, true, acc);
            }
        }
        if (together)
            fold(first, total, true, acc);
        return acc.v[0];
    }
    __device__ __forceinline__ T parts(const T *const in[AXIS_COUNT], int c) const
    {
        value sum = {};
#pragma unroll
        for (int k = 0; k < face_parts(FORM); k++) {
            value part = {};
            along(in[face_of(FORM, c, k)], face_along(FORM, c, k), false, part);
            sum = combined(sum, part, k);
        }
        return sum.v[0];
    }
    /* Is the point held? Then *held is its value. */
    __device__ __forceinline__ bool is_held(const T *f, T *held) const
    {
#pragma unroll
        for (int a = 0; a < AXIS_COUNT; a++)
#pragma unroll
            for (int s = 0; s < SIDE_COUNT; s++) {
                const rim_axis<T> &axis = plan.axis[a];
                if ((s == SIDE_LOW ? at[a] : axis.n - 1 - at[a]) >= axis.held[s])
                    continue;
                *held = axis.halo[s] ? axis.value[s] * __ldg(f + place) : axis.value[s];
                return true;
            }
        return false;
    }
};

template <typename T, int R, int FORM>
static __device__ __forceinline__ void rim_compute(const rim_plan<T> &plan,
                                                   const boundary_rest &rest)
{
    int64_t at[AXIS_COUNT];
    uint64_t field;
    if (!boundary_find(rest, (uint64_t)blockIdx.x * FACE_THREADS + threadIdx.x, at, &field))
        return;
    const int64_t begin = (int64_t)field * plan.points;
    const T *in[AXIS_COUNT];
#pragma unroll
    for (int c = 0; c < AXIS_COUNT; c++)
        in[c] = plan.in[c] + to_input(plan.jobs, c) + begin;
    const rim_point<T, R, FORM> point(plan, rest.slot, at);
    T held;
    if (plan.holds && point.is_held(in[0], &held)) {
        plan.out[0][to_output(plan.jobs, 0) + begin + point.place] = held;
        return;
    }
#pragma unroll
    for (int c = 0; c < face_outputs(FORM); c++) {
        T *const out = plan.out[c] + to_output(plan.jobs, c) + begin + point.place;
        if constexpr (FORM == FACE_SUM)
            *out = point.sum(in[0]);
        else
            *out = point.parts(in, c);
    }
}

template <typename T, int R, int FORM>
static __global__ void __launch_bounds__(FACE_THREADS)
    faces_rims_kernel(const __grid_constant__ rim_plan<T> plan,
                      const __grid_constant__ boundary_rest rest)
{
    let_next_begin();
    rim_compute<T, R, FORM>(plan, rest);
    face_end();
}

/* --- on the host --- */

template <typename T, int R, int FORM>
static cudaError_t launch_rims(face_launcher *launch, struct boundary_rest *left)
{
    const struct geometry *g = launch->g;
    const struct table_pass *pass = launch->pass;
    const face_maker<T, R> maker = {g, table_of(g->plan), TABLE_ROWS_OF_FACTORS + pass->set, FORM};
    const int64_t blocks = blocks_of(left->points * left->batch, FACE_THREADS);
    rim_plan<T> plan;
    if (blocks == 0 || !maker.make_rims(pass, &plan))
        return cudaSuccess;
    struct boundary_rest rims = *left;
    left->points = 0;
    return (*launch)(faces_rims_kernel<T, R, FORM>, blocks, 0, plan, rims);
}

cudaError_t faces_rims_launch(face_launcher *launch, struct boundary_rest *left)
{
    return with_face_kinds(*launch, [&](auto type, auto radius, auto form) {
        return launch_rims<decltype(type), decltype(radius)::value, decltype(form)::value>(launch,
                                                                                           left);
    });
}
