/* The biharmonic operator in 3D. When a plane comes into reach, its second derivatives along x are
 * computed once, in the rows around the block too, and stay in a ring in shared memory until that
 * plane is the middle one: derivatives along y are taken of them there, and along z of a thread's
 * own in registers. The order of roundings is that of numerics/table_point.h. */
#include "gpu/cuda/column.cuh"

/* Of second derivatives of radius R; those of order 4 reach one further. */
template <typename T, int R, bool ALIGNED> struct biharmonic_column {
    using Column = table_column<T, R + 1, (R == 1 ? 12 : 8), 1, ALIGNED>;
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

/* The sum of R pairs about the middle of q, each by its weight, from acc on. */
template <int R, typename T, class Pair>
static __device__ __forceinline__ T add_pairs(const T *w, T acc, const Pair &pair)
{
#pragma unroll
    for (int m = 1; m <= R; m++)
        acc = fused(w[m - 1], pair(m), acc);
    return acc;
}

template <typename T, int R, bool ALIGNED>
static __global__ void __launch_bounds__(biharmonic_column<T, R, ALIGNED>::Column::THREADS,
                                         biharmonic_column<T, R, ALIGNED>::BLOCKS)
    biharmonic_kernel(const __grid_constant__ biharmonic_shape<T, R> shape, T *__restrict__ out)
{
    using Biharmonic = biharmonic_column<T, R, ALIGNED>;
    using Column = typename Biharmonic::Column;
    constexpr int V = Column::V, WIDE = Column::WIDE, REACH = R + 1, PACKS_XX = (R + V - 1) / V,
                  HALO_XX = PACKS_XX * V;
    extern __shared__ __align__(128) unsigned char shared_memory[];
    column_thread<T, Column> column(shape.grid, (T *)shared_memory);
    T *const planes_xx = (T *)shared_memory + Column::ELEMENTS;
    const T *const fields[] = {shape.u};
    const int first = column.first, tx = threadIdx.x % WIDE * V, ty = threadIdx.x / WIDE;

    /* u at z − R − 1 … z + R + 1, its second derivatives at z − R … z + R. */
    pack<T, V> u[2 * REACH + 1], xx[2 * R + 1], yy[2 * R + 1];
    /* The second derivatives of a row of packs along x, and of a thread's own along y. */
    auto derive_x = [&](auto load) {
        T a[V + 2 * HALO_XX];
        pack<T, V> result;
#pragma unroll
        for (int i = -PACKS_XX; i <= PACKS_XX; i++) {
            const pack<T, V> p = load(i * V);
#pragma unroll
            for (int v = 0; v < V; v++)
                a[(i + PACKS_XX) * V + v] = p.v[v];
        }
#pragma unroll
        for (int v = 0; v < V; v++)
            result.v[v] =
                add_pairs<R>(shape.inner[AXIS_X], shape.inner_centre[AXIS_X] * a[HALO_XX + v],
                             [&](int m) { return a[HALO_XX + v + m] + a[HALO_XX + v - m]; });
        return result;
    };
    auto derive_y = [&](const pack<T, V> &own, auto load) {
        pack<T, V> result;
#pragma unroll
        for (int v = 0; v < V; v++)
            result.v[v] = shape.inner_centre[AXIS_Y] * own.v[v];
#pragma unroll
        for (int m = 1; m <= R; m++) {
            const pack<T, V> above = load(m), below = load(-m);
#pragma unroll
            for (int v = 0; v < V; v++)
                result.v[v] =
                    fused(shape.inner[AXIS_Y][m - 1], above.v[v] + below.v[v], result.v[v]);
        }
        return result;
    };
    /* The march begins 2R planes early, with what second derivatives need. */
    const int begin = first - 2 * R;
#pragma unroll 1
    for (int i = 0; i < REACH + Column::AHEAD; i++)
        column.copy(fields, i < R ? column.last + REACH : begin + i, i, REACH);
#pragma unroll
    for (int i = 2 * R; i < 2 * REACH; i++)
        u[i] = column.load(shape.u, begin - REACH + i);
    int slot_xx = 0; /* of plane z in that ring */
#pragma unroll 1
    for (int z = begin; z < column.last; z++) {
        __pipeline_wait_prior(Column::AHEAD - 1);
        __syncthreads();
        column.copy(fields, z + REACH + Column::AHEAD, column.slot(REACH + Column::AHEAD), REACH);
        const T *const f = column.at(column.here, 0) + column.own;
        const T *const next = column.at(column.slot(R), 0) + column.own;
        u[2 * REACH] = shared_pack(column.at(column.slot(REACH), 0) + column.own);
        column.here = column.slot(1);

        T *const middle = planes_xx + slot_xx * Biharmonic::PLANE + (ty + R) * Column::X + tx;
        /* That of plane z + R was plane z − 1's. */
        T *const newest = planes_xx + (slot_xx == 0 ? R : slot_xx - 1) * Biharmonic::PLANE + tx;
        slot_xx = slot_xx == R ? 0 : slot_xx + 1;
        const pack<T, V> &own = u[REACH + R];
        xx[2 * R] = derive_x([&](int at) { return shared_pack(next + at); });
        yy[2 * R] = derive_y(own, [&](int row) { return shared_pack(next + row * Column::PITCH); });
        store_shared(newest + (ty + R) * Column::X, xx[2 * R]);
        for (int i = ty; i < 2 * R; i += Column::HIGH) {
            const int row = i < R ? i : i + Column::HIGH;
            const T *const from = next + (row - R - ty) * Column::PITCH;
            store_shared(newest + row * Column::X,
                         derive_x([&](int at) { return shared_pack(from + at); }));
        }
        if (z >= first) {
            pack<T, V> acc;
            T a[V + 2 * Column::HALO];
#pragma unroll
            for (int i = -Column::PACKS; i <= Column::PACKS; i++) {
                const pack<T, V> p = i == 0 ? u[REACH] : shared_pack(f + i * V);
#pragma unroll
                for (int v = 0; v < V; v++)
                    a[(i + Column::PACKS) * V + v] = p.v[v];
            }
#pragma unroll
            for (int v = 0; v < V; v++)
                acc.v[v] = shape.centre * u[REACH].v[v];
            auto along_x = [&](int m, int v) {
                return a[Column::HALO + v + m] + a[Column::HALO + v - m];
            };
            auto along_z = [&](int m, int v) { return u[REACH + m].v[v] + u[REACH - m].v[v]; };
            if (!shape.shared)
#pragma unroll
                for (int v = 0; v < V; v++)
                    acc.v[v] = add_pairs<REACH>(shape.w[AXIS_X], acc.v[v],
                                                [&](int m) { return along_x(m, v); });
#pragma unroll
            for (int m = 1; m <= REACH; m++) {
                const pack<T, V> above = shared_pack(f + m * Column::PITCH);
                const pack<T, V> below = shared_pack(f - m * Column::PITCH);
#pragma unroll
                for (int v = 0; v < V; v++) {
                    const T along_y = above.v[v] + below.v[v];
                    acc.v[v] = shape.shared
                                   ? fused(shape.w[AXIS_X][m - 1],
                                           along_x(m, v) + along_y + along_z(m, v), acc.v[v])
                                   : fused(shape.w[AXIS_Y][m - 1], along_y, acc.v[v]);
                }
            }
#pragma unroll
            for (int v = 0; v < V; v++) {
                if (!shape.shared)
                    acc.v[v] = add_pairs<REACH>(shape.w[AXIS_Z], acc.v[v],
                                                [&](int m) { return along_z(m, v); });
                acc.v[v] = fused(shape.outer_centre[AXIS_Y], xx[R].v[v], acc.v[v]);
            }
#pragma unroll
            for (int m = 1; m <= R; m++) {
                const pack<T, V> above = shared_pack(middle + m * Column::X);
                const pack<T, V> below = shared_pack(middle - m * Column::X);
#pragma unroll
                for (int v = 0; v < V; v++)
                    acc.v[v] = fused(shape.outer[AXIS_Y][m - 1], above.v[v] + below.v[v], acc.v[v]);
            }
#pragma unroll
            for (int v = 0; v < V; v++) {
                acc.v[v] = fused(shape.outer_centre[AXIS_Z], xx[R].v[v], acc.v[v]);
                acc.v[v] = add_pairs<R>(shape.outer[AXIS_Z], acc.v[v],
                                        [&](int m) { return xx[R + m].v[v] + xx[R - m].v[v]; });
                acc.v[v] = fused(shape.outer_centre[AXIS_Z], yy[R].v[v], acc.v[v]);
                acc.v[v] = add_pairs<R>(shape.outer[AXIS_Z], acc.v[v],
                                        [&](int m) { return yy[R + m].v[v] + yy[R - m].v[v]; });
            }
            column.store(out, z, acc);
        }
#pragma unroll
        for (int i = 0; i < 2 * REACH; i++)
            u[i] = u[i + 1];
#pragma unroll
        for (int i = 0; i < 2 * R; i++) {
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
