/* The biharmonic operator in 3D. Where a plane is the middle of what u itself adds to its sums, its
 * second derivatives are taken of the same pairs: along x in the rows around the block, too, and
 * they stay in a ring in shared memory. R planes later, when those above it have them, derivatives
 * along y and z of these complete its sums. What a thread needs of its own points above is read
 * from shared memory, and what lies below is kept in registers, so that twice as many warps have
 * room. The order of roundings is that of numerics/table_point.h. */
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

/* A pack of a row in shared memory, with N points on each side of it. */
template <typename T, int V, int N> struct row_part {
    enum { PACKS = (N + V - 1) / V };
    pack<T, V> q[2 * PACKS + 1];

    __device__ __forceinline__ explicit row_part(const T *own)
    {
#pragma unroll
        for (int i = -PACKS; i <= PACKS; i++)
            q[i + PACKS] = shared_pack(own + i * V);
    }
    __device__ __forceinline__ T at(int i) const
    {
        return q[(i + PACKS * V) / V].v[(i + PACKS * V) % V];
    }
    __device__ __forceinline__ pack<T, V> pair(int m) const
    {
        return pack_of<T, V>([&](int v) { return at(v + m) + at(v - m); });
    }
    /* Its second derivatives. */
    __device__ __forceinline__ pack<T, V> derived(T centre, const T *w) const
    {
        pack<T, V> acc = centre * q[PACKS];
#pragma unroll
        for (int m = 1; m <= N; m++)
            acc = fused(w[m - 1], pair(m), acc);
        return acc;
    }
};

/* The pair m rows away from a pack in shared memory. */
template <int PITCH, int V, typename T>
static __device__ __forceinline__ pack<T, V> pair_of_rows(const T *own, int m)
{
    return shared_pack(own + m * PITCH) + shared_pack(own - m * PITCH);
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

    /* The thread's own points: of u at z − R − 1 … z; of its second derivatives along x at
     * z − 2R … z − R, along y at z − 2R … z; of the sums' first part at z − R … z. What lies above
     * is in shared memory. Set although the march fills them: of what is not, ptxas may join two.
     */
    pack<T, V> u[REACH + 1] = {}, xx[R + 1] = {}, yy[2 * R + 1] = {}, part[R + 1] = {};
    const int begin = column.first - REACH;
#pragma unroll 1
    for (int i = 0; i < REACH + Column::AHEAD; i++)
        column.copy(fields, begin + i, i, REACH);
    int slot_xx = 0; /* of plane z − R in that ring */
#pragma unroll 1
    for (int z = begin; z < column.last + R; z++) {
        __pipeline_wait_prior(Column::AHEAD - 1);
        __syncthreads();
        column.copy(fields, z + REACH + Column::AHEAD, column.slot(REACH + Column::AHEAD), REACH);
        auto plane = [&](int m) { return column.at(column.slot(m), 0) + column.own; };
        auto plane_xx = [&](int m) {
            const int slot = slot_xx + m <= R ? slot_xx + m : slot_xx + m - (R + 1);
            return planes_xx + slot * Biharmonic::PLANE;
        };
        /* Plane z: second derivatives along x and y, and u's part of the sums. */
        const T *const f = plane(0);
        const row_part<T, V, REACH> row(f);
        const pack<T, V> own = row.q[row_part<T, V, REACH>::PACKS];
        u[REACH] = own;
        pack<T, V> newest = shape.inner_centre[AXIS_X] * own;
        yy[2 * R] = shape.inner_centre[AXIS_Y] * own;
        part[R] = shape.centre * own;
        auto along_x = [&](int m) {
            const pack<T, V> pair = row.pair(m);
            if (m <= R)
                newest = fused(shape.inner[AXIS_X][m - 1], pair, newest);
            return pair;
        };
        auto along_y = [&](int m) {
            const pack<T, V> pair = pair_of_rows<PITCH, V>(f, m);
            if (m <= R)
                yy[2 * R] = fused(shape.inner[AXIS_Y][m - 1], pair, yy[2 * R]);
            return pair;
        };
        auto along_z = [&](int m) { return shared_pack(plane(m)) + u[REACH - m]; };
        auto add_pairs = [&](const T *w, const auto &pair) {
#pragma unroll
            for (int m = 1; m <= REACH; m++)
                part[R] = fused(w[m - 1], pair(m), part[R]);
        };
        if (shape.shared) {
            add_pairs(shape.w[AXIS_X], [&](int m) {
                const pack<T, V> pair = along_x(m);
                return pair + along_y(m) + along_z(m);
            });
        } else {
            add_pairs(shape.w[AXIS_X], along_x);
            add_pairs(shape.w[AXIS_Y], along_y);
            add_pairs(shape.w[AXIS_Z], along_z);
        }
        T *const top = plane_xx(R);
        store_shared(top, newest);
        for (int i = ty; i < 2 * R; i += Column::HIGH) { /* and of the rows around the block */
            const int beside = (i < R ? i - R : i - R + Column::HIGH) - ty;
            const row_part<T, V, R> other(f + beside * PITCH);
            store_shared(top + beside * X,
                         other.derived(shape.inner_centre[AXIS_X], shape.inner[AXIS_X]));
        }
        /* Plane z − R: the rest. */
        const T *const middle = plane_xx(0);
        xx[R] = shared_pack(middle);
        if (z - R >= column.first) {
            pack<T, V> acc = part[0];
            acc = fused(shape.outer_centre[AXIS_Y], xx[R], acc);
#pragma unroll
            for (int m = 1; m <= R; m++)
                acc = fused(shape.outer[AXIS_Y][m - 1], pair_of_rows<X, V>(middle, m), acc);
            acc = fused(shape.outer_centre[AXIS_Z], xx[R], acc);
#pragma unroll
            for (int m = 1; m <= R; m++)
                acc = fused(shape.outer[AXIS_Z][m - 1],
                            (m == R ? newest : shared_pack(plane_xx(m))) + xx[R - m], acc);
            acc = fused(shape.outer_centre[AXIS_Z], yy[R], acc);
#pragma unroll
            for (int m = 1; m <= R; m++)
                acc = fused(shape.outer[AXIS_Z][m - 1], yy[R + m] + yy[R - m], acc);
            column.store(out, z - R, acc);
        }
        column.here = column.slot(1);
        slot_xx = slot_xx == R ? 0 : slot_xx + 1;
#pragma unroll
        for (int i = 0; i < 2 * R; i++) {
            yy[i] = yy[i + 1];
            if (i < R)
                xx[i] = xx[i + 1], part[i] = part[i + 1];
            if (i < REACH)
                u[i] = u[i + 1];
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
            divide_columns<Column>(g, Biharmonic::BLOCKS, 2 * R + 1 + Column::AHEAD, &shape.grid);
        return launch_kernel(biharmonic_kernel<T, R, ALIGNED>, g, blocks, dim3(Column::THREADS),
                             BYTES, shape, (T *)pass->out[0]);
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
