/* div(k grad u) in 3D, and the diffusion of a field k: both fields are read once. A thread has the
 * column of 2R + 1 points of each field that its pack is in the middle of in registers. What flows
 * between two points is computed once along x and z, and counts for both with either sign. The
 * order of roundings is that of numerics/table_point.h. */
#include "gpu/cuda/column.cuh"
#include "gpu/cuda/point_sum.cuh"

template <typename T, int R, bool ALIGNED>
using flux_column =
    table_column<T, R, (R == 1 ? 12 : 8), 2, ALIGNED>; /* fewer threads, more registers */

template <typename T, int R> struct flux_shape {
    column_grid grid;
    const T *u, *k;
    T w[AXIS_COUNT][R], across[R * R + 1];
    point_terms<T> terms;
    int32_t adds_self; /* the sum begins with u */
};

/* Where the ratios of points m apart begin. */
static constexpr __device__ __host__ int across_of(int r, int m)
{
    return m == 1 ? 0 : across_of(r, m - 1) + (m - 1) / 2 + r - (m - 1);
}

/* The conductance of points m apart; k(j): at j points from the first one towards the other. */
template <int R, int M, typename T, class K>
static __device__ __forceinline__ auto conductance(const T *across, const K &k)
{
    auto acc = k(0) + k(M);
    const T *ratio = across + across_of(R, M);
#pragma unroll
    for (int e = 1; 2 * e <= M; e++)
        acc = fused(*ratio++, 2 * e == M ? k(e) : k(e) + k(M - e), acc);
#pragma unroll
    for (int e = 1; M + e <= R; e++)
        acc = fused(*ratio++, k(-e) + k(M + e), acc);
    return acc;
}

template <typename T, int V>
static __device__ __forceinline__ pack<T, V> operator*(const pack<T, V> &a, const pack<T, V> &b)
{
    return pack_of<T, V>([&](int v) { return a.v[v] * b.v[v]; });
}

/* run(m), a constant, of 1 … R. */
template <int R, int M = 1, class Run>
static __device__ __forceinline__ void distances(const Run &run)
{
    if constexpr (M <= R) {
        run(std::integral_constant<int, M>());
        distances<R, M + 1>(run);
    }
}

template <int R> static constexpr int BLOCKS = R <= 2 ? 2 : 1; /* of a multiprocessor */

template <typename T, int R, bool ALIGNED>
static __global__ void __launch_bounds__(flux_column<T, R, ALIGNED>::THREADS, BLOCKS<R>)
    divergence_kernel(const __grid_constant__ flux_shape<T, R> shape, T *__restrict__ out)
{
    using Column = flux_column<T, R, ALIGNED>;
    constexpr int V = Column::V, HALO = Column::HALO;
    extern __shared__ __align__(128) unsigned char shared_memory[];
    column_thread<T, Column> column(shape.grid, (T *)shared_memory);
    const T *const fields[] = {shape.u, shape.k};
    const int first = column.first;
#pragma unroll 1
    for (int i = 0; i < R + Column::AHEAD; i++)
        column.copy(fields, first + i, i, R);

    pack<T, V> u[2 * R + 1], c[2 * R + 1]; /* u and k at z − R … z + R */
    /* Along z between points m apart, the latest first. Set although the march fills it: ptxas may
     * join two that are not. */
    pack<T, V> flux[R][R] = {};
#pragma unroll
    for (int i = 0; i < R; i++) {
        u[i] = column.load(shape.u, first - R + i);
        c[i] = column.load(shape.k, first - R + i);
    }
    __pipeline_wait_prior(Column::AHEAD);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < R; i++) {
        u[R + i] = shared_pack(column.at(i, 0) + column.own);
        c[R + i] = shared_pack(column.at(i, 1) + column.own);
    }
    /* What flows from the point j planes on to the one m further. */
    auto flow_z = [&](auto m, int j) {
        constexpr int M = decltype(m)::value;
        return conductance<R, M>(shape.across, [&](int i) { return c[R + j + i]; }) *
               (u[R + j + M] - u[R + j]);
    };
#pragma unroll 1
    for (int z = first; z < column.last; z++) {
        pack<T, V> acc = {}, source = {};
        if (shape.terms.base) /* which may be the array that is written */
            acc = column.load((const T *)shape.terms.base, z);
        if (shape.terms.source)
            source = column.load(shape.terms.source, z);
        __pipeline_wait_prior(Column::AHEAD - 1);
        __syncthreads();
        column.copy(fields, z + R + Column::AHEAD, column.slot(R + Column::AHEAD), R);
        const T *const f = column.at(column.here, 0) + column.own, *const g = f + Column::PLANE;
        const T *const ahead = column.at(column.slot(R), 0) + column.own;
        column.here = column.slot(1);
        u[2 * R] = shared_pack(ahead);
        c[2 * R] = shared_pack(ahead + Column::PLANE);
        if (z == first)
            distances<R>([&](auto m) {
                constexpr int M = decltype(m)::value;
#pragma unroll
                for (int j = 0; j < M; j++)
                    flux[M - 1][j] = flow_z(m, -1 - j);
            });
        if (shape.adds_self)
            acc = u[R];
        { /* along x */
            const row_around<T, V, R> of_u(
                [&](int i) { return i == 0 ? u[R] : shared_pack(f + i * V); });
            const row_around<T, V, R> of_k(
                [&](int i) { return i == 0 ? c[R] : shared_pack(g + i * V); });
            const auto &a = of_u.point, &b = of_k.point;
            distances<R>([&](auto m) {
                constexpr int M = decltype(m)::value;
                T flow[V + M]; /* from the points −M … V − 1 */
#pragma unroll
                for (int i = 0; i < V + M; i++) {
                    const int s = HALO - M + i;
                    flow[i] = conductance<R, M>(shape.across, [&](int j) { return b[s + j]; }) *
                              (a[s + M] - a[s]);
                }
#pragma unroll
                for (int v = 0; v < V; v++)
                    acc.v[v] = fused(shape.w[AXIS_X][M - 1], flow[v + M] - flow[v], acc.v[v]);
            });
        }
        { /* along y */
            pack<T, V> b[2 * R + 1];
#pragma unroll
            for (int i = 0; i <= 2 * R; i++)
                b[i] = i == R ? c[R] : shared_pack(g + (i - R) * Column::PITCH);
            distances<R>([&](auto m) {
                constexpr int M = decltype(m)::value;
                const pack<T, V> above = shared_pack(f + M * Column::PITCH);
                const pack<T, V> below = shared_pack(f - M * Column::PITCH);
                auto up = [&](int j) { return b[R + j]; };
                auto down = [&](int j) { return b[R - j]; };
                const pack<T, V> rises = conductance<R, M>(shape.across, up) * (above - u[R]);
                const pack<T, V> falls = conductance<R, M>(shape.across, down) * (below - u[R]);
                acc = fused(shape.w[AXIS_Y][M - 1], rises + falls, acc);
            });
        }
        distances<R>([&](auto m) { /* along z */
                                   constexpr int M = decltype(m)::value;
                                   const pack<T, V> flow = flow_z(m, 0);
                                   acc = fused(shape.w[AXIS_Z][M - 1], flow - flux[M - 1][M - 1],
                                               acc);
#pragma unroll
                                   for (int j = M - 1; j > 0; j--)
                                       flux[M - 1][j] = flux[M - 1][j - 1];
                                   flux[M - 1][0] = flow;
        });
#pragma unroll
        for (int v = 0; v < V; v++)
            acc.v[v] = end_sum(shape.terms, acc.v[v], source.v[v]);
        column.store(out, z, acc);
#pragma unroll
        for (int i = 0; i < 2 * R; i++) {
            u[i] = u[i + 1];
            c[i] = c[i + 1];
        }
    }
}

template <typename T, int R, bool ALIGNED> struct divergence_of {
    using Column = flux_column<T, R, ALIGNED>;
    static constexpr size_t BYTES = sizeof(T) * Column::ELEMENTS;

    static cudaError_t run(const struct geometry *g, const struct table_pass *pass)
    {
        const struct plan *plan = g->plan;
        const struct table_header *header = table_of(plan);
        flux_shape<T, R> shape = {};
        shape.u = (const T *)pass->in[0];
        shape.k = (const T *)pass->operand[OPERAND_COEFFICIENT];
        for (int a = 0; a < AXIS_COUNT; a++) {
            const struct table_row_f64 row =
                centred_row(plan, TABLE_ROWS_OF_FACTORS + pass->set, a);
            for (int m = 0; m < R; m++)
                shape.w[a][m] = (T)row.w[m];
        }
        for (int i = 0; i < across_of(R, R + 1); i++)
            shape.across[i] = (T)header->across[i];
        shape.terms = terms_of<T>(plan, pass);
        shape.adds_self = header->identity || (shape.terms.has_base && !shape.terms.base);
        const int64_t blocks = divide_columns<Column>(g, BLOCKS<R>, R + Column::AHEAD, &shape.grid);
        return launch_kernel(divergence_kernel<T, R, ALIGNED>, g, blocks, dim3(Column::THREADS),
                             BYTES, shape, (T *)pass->out[0]);
    }
};

extern "C" bool divergence_takes(struct geometry *g)
{
    return table_of(g->plan)->form == TABLE_FORM_DIVERGENCE && columns_of<divergence_of>(g);
}

extern "C" cudaError_t divergence_launch(const struct geometry *g, const struct table_pass *pass)
{
    return launch_columns_of<divergence_of>(g, pass);
}
