/* The edges of own planes (numerics/subdomain.h): a centred step of two slabs of four planes, which
 * are too thin to march through. A march of streaming_3d is mostly its start there: 16 µs a slab of
 * 512², radius 4, float32, on an H200, of which 3 are the bytes'.
 *
 * A thread has a pack of points along x in all planes of a slab, with those of the R planes around
 * it in registers, all loaded at once; what lies about it along x and y comes through the L1.
 *
 *   acc = c0 f;  equal weights on all axes: acc = fma(cm, (x pair + y pair) + z pair, acc),
 *   else axis by axis: x, y, z;  m = 1 … R */
#include "gpu/cuda/point_sum.cuh"

enum { EDGE_PLANES = SUBDOMAIN_EDGE, EDGE_WIDE = 32, EDGE_HIGH = 8 };

template <typename T, int R> struct edges_shape {
    point_weights<T, R> weights;
    int64_t plane;               /* elements */
    axis_images<int32_t> x, y;   /* x: of whole packs */
    int32_t shared, first, step; /* planes: the first of a slab, and from there to the other one */
};

/* Where in a plane a thread's pack lies, and what is read about it: packs along x, and that one of
 * other rows. */
template <typename T, int R> struct edges_place {
    enum { V = 16 / sizeof(T), PACKS = (R + V - 1) / V, SIDE = PACKS * V };
    int32_t own, beside[2 * PACKS], rows[2 * R];

    __device__ __forceinline__ void find(const edges_shape<T, R> &shape, int32_t x, int32_t y)
    {
        const int32_t n = shape.x.n;
        own = y * n + x;
#pragma unroll
        for (int i = 0; i < PACKS; i++) {
            beside[i] = y * n + shape.x.source(x - SIDE + i * V);
            beside[PACKS + i] = y * n + shape.x.source(x + V + i * V);
        }
#pragma unroll
        for (int m = 1; m <= R; m++) {
            rows[m - 1] = shape.y.source(y - m) * n + x;
            rows[R + m - 1] = shape.y.source(y + m) * n + x;
        }
    }
};

/* The step's result; z: the pack in the planes −R … R from this one. */
template <typename T, int R, int V>
static __device__ __forceinline__ pack<T, V> edges_sum(const edges_shape<T, R> &shape,
                                                       const edges_place<T, R> &place,
                                                       const T *plane, const pack<T, V> *z)
{
    constexpr int PACKS = edges_place<T, R>::PACKS;
    const row_around<T, V, R> x([&](int i) {
        return i == 0 ? z[R]
                      : load_pack<V>(plane + place.beside[i < 0 ? i + PACKS : PACKS + i - 1]);
    });
    auto x_pair = [&](int m) { return x.at(m) + x.at(-m); };
    auto y_pair = [&](int m) {
        return load_pack<V>(plane + place.rows[R + m - 1]) +
               load_pack<V>(plane + place.rows[m - 1]);
    };
    auto z_pair = [&](int m) { return z[R + m] + z[R - m]; };
    const auto &weights = shape.weights;
    pack<T, V> acc = weights.centre * z[R];
    auto add = [&](int axis, const auto &pair) {
#pragma unroll
        for (int m = 1; m <= R; m++)
            acc = fused(weights.c[axis][m], pair(m), acc);
    };
    if (shape.shared) {
        add(AXIS_X, [&](int m) { return x_pair(m) + y_pair(m) + z_pair(m); });
    } else {
        add(AXIS_X, x_pair);
        add(AXIS_Y, y_pair);
        add(AXIS_Z, z_pair);
    }
    return acc;
}

template <typename T, int R>
__global__ void __launch_bounds__(EDGE_WIDE *EDGE_HIGH, 2)
    edges_kernel(const __grid_constant__ edges_shape<T, R> shape, const T *__restrict__ in,
                 T *__restrict__ out)
{
    constexpr int V = edges_place<T, R>::V;
    const int32_t x = (int32_t)(blockIdx.x * EDGE_WIDE + threadIdx.x) * V;
    const int32_t y = (int32_t)(blockIdx.y * EDGE_HIGH + threadIdx.y);
    if (x >= shape.x.n || y >= shape.y.n)
        return;
    const int64_t first = (shape.first + (int64_t)blockIdx.z * shape.step) * shape.plane;
    edges_place<T, R> place;
    place.find(shape, x, y);
    in += first;
    out += first;
    pack<T, V> f[EDGE_PLANES + 2 * R]; /* along z */
#pragma unroll
    for (int k = 0; k < EDGE_PLANES + 2 * R; k++)
        f[k] = load_pack<V>(in + (k - R) * shape.plane + place.own);
#pragma unroll
    for (int p = 0; p < EDGE_PLANES; p++)
        store_pack(out + p * shape.plane + place.own,
                   edges_sum<T, R, V>(shape, place, in + p * shape.plane, f + p));
}

extern "C" bool edges_take(const struct geometry *g)
{
    const struct plan *plan = g->plan;
    const struct plan_axis *x = &plan->axis[AXIS_X], *y = &plan->axis[AXIS_Y];
    const int64_t begin = g->begin[AXIS_Z], end = g->end[AXIS_Z];
    bool takes = plan->parity == PLAN_EVEN && g->boundary.points == 0 && packs_go_on(plan);
    for (int side = 0; side < SIDE_COUNT; side++) {
        const int32_t map = y->side[side].map;
        takes = takes && (map == SIDE_MAP_PERIODIC || map == SIDE_MAP_NODE);
    }
    return takes && end - begin == EDGE_PLANES && begin >= plan->radius && /* nothing beyond z's */
           end + plan->radius <= plan->axis[AXIS_Z].n && x->active && y->active &&
           x->n >= 2 * PLAN_RADIUS && y->n >= 2 * PLAN_RADIUS &&
           plan->axis[AXIS_Z].stride <= INT32_MAX;
}

extern "C" cudaError_t edges_launch(const struct geometry *g, const struct table_pass *pass)
{
    return with_type_and_radius<PLAN_RADIUS>(g, [&](auto type, auto radius) {
        using T = decltype(type);
        constexpr int R = decltype(radius)::value;
        const struct table_axis *axis = table_of(g->plan)->axis_of;
        edges_shape<T, R> shape = {};
        shape.weights = weights_of<T, R>(g->plan, pass);
        shape.plane = g->plan->axis[AXIS_Z].stride;
        shape.x = images_of<int32_t>(axis[AXIS_X].side, axis[AXIS_X].n);
        shape.y = images_of<int32_t>(axis[AXIS_Y].side, axis[AXIS_Y].n);
        shape.shared = g->plan->shared;
        shape.first = (int32_t)g->begin[AXIS_Z];
        shape.step = (int32_t)g->apart;
        const dim3 blocks((unsigned)blocks_of(shape.x.n, EDGE_WIDE * (16 / sizeof(T))),
                          (unsigned)blocks_of(shape.y.n, EDGE_HIGH), g->apart ? 2 : 1);
        return launch_grid(edges_kernel<T, R>, blocks, dim3(EDGE_WIDE, EDGE_HIGH), 0, g->stream,
                           shape, (const T *)pass->in[0], (T *)pass->out[0]);
    });
}
