/* The biharmonic operator in 3D. When a plane comes into reach, its second derivatives along x are
 * computed once, in the rows around the block too, and stay in a ring in shared memory until that
 * plane is the middle one: derivatives along y are taken of them there, and along z of a thread's
 * own in registers. The order of roundings is that of numerics/table_point.h. */
#include "gpu/cuda/column.cuh"

/* Of second derivatives of radius R; those of order 4 reach one further. */
template <typename T, int R, bool ALIGNED> struct biharmonic_column {
    using Column = table_column<T, R + 1, (R == 1 ? 12 : 16), 1, ALIGNED>;
    enum {
        ROWS = Column::HIGH + 2 * R, /* of second derivatives along x */
        PLANE = Column::X * ROWS,
        RING = R + 1,
        BLOCKS = R == 1 ? 2 : 1 /* of a multiprocessor */
    };
    static constexpr size_t BYTES = sizeof(T) * (Column::ELEMENTS + RING * PLANE);
};

template <typename T, int R> struct biharmonic_shape {
    column_grid grid;
    const T *u;
    /* Fourth derivatives, second ones, and twice these, which are taken of second ones. */
    T centre, w[AXIS_COUNT][R + 1];
    T inner_centre[AXIS_COUNT], inner[AXIS_COUNT][R];
    T outer_centre[AXIS_COUNT], outer[AXIS_COUNT][R];
    int32_t shared; /* all axes have one w: pairs are added first */
};

template <typename T, int V>
static __device__ __forceinline__ pack<T, V> sum_of(const pack<T, V> &a, const pack<T, V> &b)
{
    pack<T, V> sum;
#pragma unroll
    for (int v = 0; v < V; v++)
        sum.v[v] = a.v[v] + b.v[v];
    return sum;
}

/* acc + w times q. */
template <typename T, int V>
static __device__ __forceinline__ void add(pack<T, V> &acc, T w, const pack<T, V> &q)
{
#pragma unroll
    for (int v = 0; v < V; v++)
        acc.v[v] = fused(w, q.v[v], acc.v[v]);
}

/* … and of N pairs, each by its weight. */
template <int N, typename T, int V, class Pair>
static __device__ __forceinline__ void add_pairs(pack<T, V> &acc, const T *w, const Pair &pair)
{
#pragma unroll
    for (int m = 1; m <= N; m++)
        add(acc, w[m - 1], pair(m));
}

template <int N, typename T, int V, class Pair>
static __device__ __forceinline__ pack<T, V> derive(T centre, const T *w, const pack<T, V> &own,
                                                    const Pair &pair)
{
    pack<T, V> result;
#pragma unroll
    for (int v = 0; v < V; v++)
        result.v[v] = centre * own.v[v];
    add_pairs<N>(result, w, pair);
    return result;
}

/* A pack of a row in shared memory, with N points on each side of it. */
template <typename T, int V, int N> struct row_part {
    enum { PACKS = (N + V - 1) / V };
    T at[(2 * PACKS + 1) * V];

    __device__ __forceinline__ explicit row_part(const T *own)
    {
#pragma unroll
        for (int i = -PACKS; i <= PACKS; i++) {
            const pack<T, V> q = shared_pack(own + i * V);
#pragma unroll
            for (int v = 0; v < V; v++)
                at[(i + PACKS) * V + v] = q.v[v];
        }
    }
    __device__ __forceinline__ pack<T, V> own() const
    {
        pack<T, V> q;
#pragma unroll
        for (int v = 0; v < V; v++)
            q.v[v] = at[PACKS * V + v];
        return q;
    }
    __device__ __forceinline__ pack<T, V> pair(int m) const
    {
        pack<T, V> q;
#pragma unroll
        for (int v = 0; v < V; v++)
            q.v[v] = at[PACKS * V + v + m] + at[PACKS * V + v - m];
        return q;
    }
};

/* The pair m rows away from a pack in shared memory. */
template <int PITCH, int V, typename T>
static __device__ __forceinline__ pack<T, V> pair_of_rows(const T *own, int m)
{
    return sum_of(shared_pack(own + m * PITCH), shared_pack(own - m * PITCH));
}

template <typename T, int R, bool ALIGNED>
static __global__ void __launch_bounds__(biharmonic_column<T, R, ALIGNED>::Column::THREADS,
                                         biharmonic_column<T, R, ALIGNED>::BLOCKS)
    biharmonic_kernel(const __grid_constant__ biharmonic_shape<T, R> shape, T *__restrict__ out)
{
    using Biharmonic = biharmonic_column<T, R, ALIGNED>;
    using Column = typename Biharmonic::Column;
    constexpr int V = Column::V, REACH = R + 1, PITCH = Column::PITCH, X = Column::X;
    extern __shared__ __align__(128) unsigned char shared_memory[];
    column_thread<T, Column> column(shape.grid, (T *)shared_memory);
    const T *const fields[] = {shape.u};
    const int ty = threadIdx.x / Column::WIDE;
    T *const planes_xx =
        (T *)shared_memory + Column::ELEMENTS + (ty + R) * X + threadIdx.x % Column::WIDE * V;

    /* The thread's own points of u at z − R − 1 … z, of its second derivatives along x at
     * z − R … z, along y at z − R … z + R; what lies above is in shared memory. */
    pack<T, V> u[REACH + 1], xx[R + 1], yy[2 * R + 1];
    /* The march begins 2R planes early, with what second derivatives need. */
    const int first = column.first, begin = first - 2 * R;
#pragma unroll 1
    for (int i = 0; i < REACH + Column::AHEAD; i++)
        column.copy(fields, i < R - 1 ? column.last + REACH : begin + i, i, REACH);
    int slot_xx = 0; /* of plane z in that ring */
#pragma unroll 1
    for (int z = begin; z < column.last; z++) {
        __pipeline_wait_prior(Column::AHEAD - 1);
        __syncthreads();
        column.copy(fields, z + REACH + Column::AHEAD, column.slot(REACH + Column::AHEAD), REACH);
        auto plane = [&](int m) { return column.at(column.slot(m), 0) + column.own; };
        auto plane_xx = [&](int m) {
            const int slot = slot_xx + m <= R ? slot_xx + m : slot_xx + m - (R + 1);
            return planes_xx + slot * Biharmonic::PLANE;
        };
        const T *const f = plane(0), *const next = plane(R), *const middle = plane_xx(0);
        u[REACH] = shared_pack(f);
        xx[R] = shared_pack(middle);
        yy[2 * R] = derive<R>(shape.inner_centre[AXIS_Y], shape.inner[AXIS_Y], shared_pack(next),
                              [&](int m) { return pair_of_rows<PITCH, V>(next, m); });
        /* Where plane z − 1's were; the block's own rows, then those around it. */
        T *const newest = plane_xx(R);
        for (int i = ty; i < Biharmonic::ROWS; i += Column::HIGH) {
            const int row = i < Column::HIGH       ? i
                            : i < Column::HIGH + R ? i - Column::HIGH - R
                                                   : i - R;
            const row_part<T, V, R> part(next + (row - ty) * PITCH);
            store_shared(newest + (row - ty) * X,
                         derive<R>(shape.inner_centre[AXIS_X], shape.inner[AXIS_X], part.own(),
                                   [&](int m) { return part.pair(m); }));
        }
        if (z >= first) {
            const row_part<T, V, REACH> part(f);
            auto along_x = [&](int m) { return part.pair(m); };
            auto along_y = [&](int m) { return pair_of_rows<PITCH, V>(f, m); };
            auto along_z = [&](int m) { return sum_of(shared_pack(plane(m)), u[REACH - m]); };
            pack<T, V> acc;
            if (shape.shared) {
                acc = derive<REACH>(shape.centre, shape.w[AXIS_X], u[REACH], [&](int m) {
                    return sum_of(sum_of(along_x(m), along_y(m)), along_z(m));
                });
            } else {
                acc = derive<REACH>(shape.centre, shape.w[AXIS_X], u[REACH], along_x);
                add_pairs<REACH>(acc, shape.w[AXIS_Y], along_y);
                add_pairs<REACH>(acc, shape.w[AXIS_Z], along_z);
            }
            add(acc, shape.outer_centre[AXIS_Y], xx[R]);
            add_pairs<R>(acc, shape.outer[AXIS_Y],
                         [&](int m) { return pair_of_rows<X, V>(middle, m); });
            add(acc, shape.outer_centre[AXIS_Z], xx[R]);
            add_pairs<R>(acc, shape.outer[AXIS_Z],
                         [&](int m) { return sum_of(shared_pack(plane_xx(m)), xx[R - m]); });
            add(acc, shape.outer_centre[AXIS_Z], yy[R]);
            add_pairs<R>(acc, shape.outer[AXIS_Z],
                         [&](int m) { return sum_of(yy[R + m], yy[R - m]); });
            column.store(out, z, acc);
        }
        column.here = column.slot(1);
        slot_xx = slot_xx == R ? 0 : slot_xx + 1;
#pragma unroll
        for (int i = 0; i < REACH; i++)
            u[i] = u[i + 1];
#pragma unroll
        for (int i = 0; i < 2 * R; i++) {
            if (i < R)
                xx[i] = xx[i + 1];
            yy[i] = yy[i + 1];
        }
    }
}

template <typename T, int R, bool ALIGNED> struct biharmonic_of {
    using Biharmonic = biharmonic_column<T, R, ALIGNED>;
    using Column = typename Biharmonic::Column;
    static constexpr size_t BYTES = Biharmonic::BYTES;

    static cudaError_t run(const struct geometry *g, const struct table_pass *pass)
    {
        const struct plan *plan = g->plan;
        const struct table_header *header = table_of(plan);
        biharmonic_shape<T, R> shape = {};
        shape.u = (const T *)pass->in[0];
        shape.centre = (T)header->centre[pass->set][header->active];
        shape.shared = header->shared;
        for (int a = 0; a < AXIS_COUNT; a++) {
            const struct table_row_f64 row = centred_row(plan, TABLE_ROWS_OF_FACTORS, a);
            const struct table_row_f64 inner = centred_row(plan, TABLE_ROWS_INNER, a);
            const struct table_row_f64 outer = centred_row(plan, TABLE_ROWS_OUTER, a);
            for (int m = 0; m <= R; m++)
                shape.w[a][m] = (T)row.w[m];
            for (int m = 0; m < R; m++) {
                shape.inner[a][m] = (T)inner.w[m];
                shape.outer[a][m] = (T)outer.w[m];
            }
            shape.inner_centre[a] = (T)header->inner_centre[a];
            shape.outer_centre[a] = (T)header->outer_centre[a];
        }
        const int64_t blocks =
            divide_columns<Column>(g, Biharmonic::BLOCKS, 3 * R + 1 + Column::AHEAD, &shape.grid);
        return launch_columns(biharmonic_kernel<T, R, ALIGNED>, &shape, (T *)pass->out[0], blocks,
                              Column::THREADS, BYTES, g->stream);
    }
};

extern "C" bool biharmonic_takes(struct geometry *g)
{
    return table_of(g->plan)->form == TABLE_FORM_BIHARMONIC && columns_of<biharmonic_of>(g);
}

extern "C" cudaError_t biharmonic_launch(const struct geometry *g, const struct table_pass *pass)
{
    return launch_columns_of<biharmonic_of>(g, pass);
}
