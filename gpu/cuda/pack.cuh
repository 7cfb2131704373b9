/* Points that a thread has side by side along x: how they are loaded and stored, and their
 * arithmetic, point by point. */
#pragma once

#include <stdint.h>

/* One spelling for both types. */
static __device__ __forceinline__ float fused(float a, float b, float c)
{
    return __fmaf_rn(a, b, c);
}
static __device__ __forceinline__ double fused(double a, double b, double c)
{
    return __fma_rn(a, b, c);
}

/* V neighbours along x that one thread computes: 16 bytes where rows are aligned, else one point.
 */
template <typename T, int V> struct pack {
    T v[V];
};

template <int V> static __device__ __forceinline__ pack<float, V> load_pack(const float *p)
{
    if constexpr (V == 4) {
        const float4 q = __ldg((const float4 *)p);
        return {{q.x, q.y, q.z, q.w}};
    } else if constexpr (V == 2) {
        const float2 q = __ldg((const float2 *)p);
        return {{q.x, q.y}};
    } else {
        return {{__ldg(p)}};
    }
}
template <int V> static __device__ __forceinline__ pack<double, V> load_pack(const double *p)
{
    if constexpr (V == 2) {
        const double2 q = __ldg((const double2 *)p);
        return {{q.x, q.y}};
    } else {
        return {{__ldg(p)}};
    }
}
/* In shared memory: 16 bytes. */
static __device__ __forceinline__ pack<float, 4> shared_pack(const float *p)
{
    const float4 q = *(const float4 *)p;
    return {{q.x, q.y, q.z, q.w}};
}
static __device__ __forceinline__ pack<double, 2> shared_pack(const double *p)
{
    const double2 q = *(const double2 *)p;
    return {{q.x, q.y}};
}
static __device__ __forceinline__ void store_shared(float *p, const pack<float, 4> &q)
{
    *(float4 *)p = make_float4(q.v[0], q.v[1], q.v[2], q.v[3]);
}
static __device__ __forceinline__ void store_shared(double *p, const pack<double, 2> &q)
{
    *(double2 *)p = make_double2(q.v[0], q.v[1]);
}
/* In one store: the compiler splits plain ones where another branch stores single points. */
static __device__ __forceinline__ void store_pack(float *p, const pack<float, 4> &q)
{
    __stcg((float4 *)p, make_float4(q.v[0], q.v[1], q.v[2], q.v[3]));
}
static __device__ __forceinline__ void store_pack(float *p, const pack<float, 2> &q)
{
    *(float2 *)p = make_float2(q.v[0], q.v[1]);
}
static __device__ __forceinline__ void store_pack(double *p, const pack<double, 2> &q)
{
    __stcg((double2 *)p, make_double2(q.v[0], q.v[1]));
}
template <typename T> static __device__ __forceinline__ void store_pack(T *p, const pack<T, 1> &q)
{
    *p = q.v[0];
}

/* Store the points of a pack that lie in [low, high). */
template <typename T, int V>
static __device__ __forceinline__ void store_between(T *row, int64_t x0, const pack<T, V> &q,
                                                     int64_t low, int64_t high)
{
    if (x0 >= low && x0 + V <= high) {
        store_pack(row + x0, q);
    } else {
#pragma unroll
        for (int v = 0; v < V; v++)
            if (x0 + v >= low && x0 + v < high)
                row[x0 + v] = q.v[v];
    }
}

/* The pack of of(0), of(1), … */
template <typename T, int V, class Of>
static __device__ __forceinline__ pack<T, V> pack_of(const Of &of)
{
    pack<T, V> q;
#pragma unroll
    for (int v = 0; v < V; v++)
        q.v[v] = of(v);
    return q;
}
template <typename T, int V>
static __device__ __forceinline__ pack<T, V> operator+(const pack<T, V> &a, const pack<T, V> &b)
{
    return pack_of<T, V>([&](int v) { return a.v[v] + b.v[v]; });
}
template <typename T, int V>
static __device__ __forceinline__ pack<T, V> operator-(const pack<T, V> &a, const pack<T, V> &b)
{
    return pack_of<T, V>([&](int v) { return a.v[v] - b.v[v]; });
}
template <typename T, int V>
static __device__ __forceinline__ pack<T, V> operator*(T w, const pack<T, V> &f)
{
    return pack_of<T, V>([&](int v) { return w * f.v[v]; });
}
template <typename T, int V>
static __device__ __forceinline__ pack<T, V> fused(T w, const pack<T, V> &f, const pack<T, V> &acc)
{
    return pack_of<T, V>([&](int v) { return fused(w, f.v[v], acc.v[v]); });
}
/* … or w × f where there is no acc (not `begun`). */
template <typename T, int V>
static __device__ __forceinline__ pack<T, V> fused(T w, const pack<T, V> &f, const pack<T, V> &acc,
                                                   bool begun)
{
    return pack_of<T, V>([&](int v) { return begun ? fused(w, f.v[v], acc.v[v]) : w * f.v[v]; });
}

/* V times the same. */
template <int V, typename T> static __device__ __forceinline__ pack<T, V> pack_all(T value)
{
    pack<T, V> q;
#pragma unroll
    for (int v = 0; v < V; v++)
        q.v[v] = value;
    return q;
}

/* A row about a pack, N points and more on each side of it: load(i) gives the pack i packs from it.
 */
template <typename T, int V, int N> struct row_around {
    enum { PACKS = (N + V - 1) / V };
    T point[(2 * PACKS + 1) * V];

    template <class Load> __device__ __forceinline__ explicit row_around(const Load &load)
    {
#pragma unroll
        for (int i = -PACKS; i <= PACKS; i++) {
            const pack<T, V> q = load(i);
#pragma unroll
            for (int v = 0; v < V; v++)
                point[(i + PACKS) * V + v] = q.v[v];
        }
    }
    /* The points m from those of the pack. */
    __device__ __forceinline__ pack<T, V> at(int m) const
    {
        return pack_of<T, V>([&](int v) { return point[PACKS * V + v + m]; });
    }
};
