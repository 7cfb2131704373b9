/* What kernels made by kernel_source() have in common: a block marches through planes of the grid,
 * brings them by asynchronous copies to a ring in shared memory, through the maps at the edges, and
 * hands each to the sums of its stencil. In 3D a plane is one of z; in 2D it is a tile of rows, and
 * the march goes along y. Compiled by nvcc and by NVRTC, which has no headers: it includes none
 * there. */
#pragma once

#ifdef __CUDACC_RTC__
typedef long long int64_t;
typedef unsigned int uint32_t;
static __device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}
static __device__ __forceinline__ void __pipeline_memcpy_async(void *to, const void *from,
                                                               size_t bytes)
{
    if (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)),
                     "l"(from));
    else if (bytes == 8)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(shared_address(to)),
                     "l"(from));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)),
                     "l"(from));
}
static __device__ __forceinline__ void __pipeline_commit()
{
    asm volatile("cp.async.commit_group;");
}
template <int N> static __device__ __forceinline__ void pipeline_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N));
}
#else
#include <cuda_pipeline.h>
#include <cuda_runtime_api.h>
#include <stdint.h>
template <int N> static __device__ __forceinline__ void pipeline_wait()
{
    __pipeline_wait_prior(N);
}
#endif

/* How an index beyond an edge is brought back; the launcher translates enum side_map. MAP_PADDED:
 * it is in the padding. */
enum stencil_map {
    MAP_NONE,
    MAP_PERIODIC,
    MAP_ENDPOINT,
    MAP_FACE,
    MAP_NODE,
    MAP_NEAREST,
    MAP_PADDED
};

/* The arguments of a kernel but its weights, which follow. */
struct stencil_grid {
    int64_t field;        /* elements of a field of the batch */
    int n[3];             /* points */
    int low[3], high[3];  /* what is computed: [low, high) */
    int map[3][2];        /* enum stencil_map, by axis and side */
    int length;           /* planes of a march */
    int tiles_x, tiles_y; /* tiles_y: 1 in 2D */
    int marches;
};

/* Where the values beyond padded sides lie, in 3D: apart from the field, in the order of padding it
 * along x, then y, then z. In the padding are also the outermost points where these are not read as
 * they are (a node that holds a value): the layers [0, inner[a][0]) and [n − inner[a][1], n), along
 * x whole packs. What a plane has beside the field's own points lies apart from them:
 *
 *   each plane z:   `rows_y` rows beyond y, of `pitch`: row_x points beside the row, then its own;
 *                   then what is beside each row y of the field: row_x points, low and high ones
 *   then:           planes beyond z, of `z_plane`: as above, then as the field's own */
struct stencil_padding {
    const void *values;
    union {
        float f32;
        double f64;
    } number[3][2]; /* what the outermost held[a][side] points are, which are no sums */
    int held[3][2];
    int64_t field; /* elements of a field's */
    int64_t plane, z_first,
        z_plane;      /* elements: of each plane; where those along z begin; of each */
    int beyond[3][2]; /* layers beyond each side; 0 where it is not padded */
    int inner[3][2];
    int start[3]; /* beyond[a][0], along x rounded up to a pack */
    int pitch, rows_y, row_x;
};

/* The place of a point along an axis among the layers of the padding; −1: it is not one of them. */
static __device__ __forceinline__ int padding_layer(const stencil_padding &padding, int axis, int n,
                                                    int i)
{
    const int low = padding.inner[axis][0], high = n - padding.inner[axis][1];
    return i < low     ? i + padding.start[axis]
           : i >= high ? i - high + low + padding.start[axis]
                       : -1;
}

/* What is known at compile time. Offsets along an axis are from LOW to HIGH, both included, which
 * enclose 0 along x and y. GATHER: the sums of a plane are made when all planes that they read have
 * come; else an arriving plane is added to all sums that read it. */
template <typename Type, int AXES_, bool ALIGNED_, int WIDE_, int HIGH_, int ROWS_, int X_LOW_,
          int X_HIGH_, int Y_LOW_, int Y_HIGH_, int Z_LOW_, int Z_HIGH_, bool GATHER_, int AHEAD_,
          bool PADDED_>
struct stencil_shape {
    typedef Type T;
    static constexpr int AXES = AXES_, WIDE = WIDE_, ROWS = ROWS_, V = 16 / sizeof(T), X = WIDE * V,
                         Y = HIGH_ * ROWS, THREADS = WIDE * HIGH_;
    static constexpr int X_LOW = X_LOW_, X_HIGH = X_HIGH_, Y_LOW = Y_LOW_, Y_HIGH = Y_HIGH_,
                         Z_LOW = Z_LOW_, Z_HIGH = Z_HIGH_;
    static constexpr bool ALIGNED = ALIGNED_, PADDED = PADDED_;
    static constexpr int AHEAD = AHEAD_, HELD = GATHER_ ? Z_HIGH - Z_LOW + 1 : 1,
                         RING = HELD + AHEAD;
    static constexpr int LINE = 128 / sizeof(T), HEIGHT = Y + Y_HIGH - Y_LOW, PITCH = X + LINE,
                         PLANE = PITCH * HEIGHT;
    static constexpr int UNIT = ALIGNED ? V : 1, INNER = X * HEIGHT / UNIT,
                         INNER_COPIES = (INNER + THREADS - 1) / THREADS,
                         SIDE = (X_HIGH - X_LOW) * HEIGHT,
                         SIDE_COPIES = (SIDE + THREADS - 1) / THREADS;
};

static __device__ __forceinline__ int stencil_source(const stencil_grid &grid, int axis, int i)
{
    const int n = grid.n[axis];
    while ((unsigned)i >= (unsigned)n) {
        const bool below = i < 0;
        const int map = grid.map[axis][!below];
        if (map == MAP_PERIODIC)
            i += below ? n : -n;
        else if (map == MAP_ENDPOINT)
            i += below ? n - 1 : 1 - n;
        else if (map == MAP_FACE)
            i = (below ? -1 : 2 * n - 1) - i;
        else if (map == MAP_NODE && n > 1)
            i = (below ? 0 : 2 * n - 2) - i;
        else if (map == MAP_PADDED)
            break;
        else
            i = below ? 0 : n - 1; /* MAP_NEAREST, what nobody uses, or the only node */
    }
    return i;
}

template <class S> struct stencil_march {
    typedef typename S::T T;
    const stencil_grid &grid;
    T *const ring; /* of the first plane, where the tile's first row has x0 */
    const T *in;
    T *out;                  /* PADDED: the thread's first point in the first plane */
    int x0, y0, first, last; /* of the tile; planes that are computed */
    int plane;               /* that next() gave */
    int slot;
    uint32_t from[S::INNER_COPIES], side_from[S::SIDE_COPIES > 0 ? S::SIDE_COPIES : 1];
    const stencil_padding *padding;       /* PADDED: */
    const T *padded;                      /* of the field */
    uint32_t in_padding, side_in_padding; /* bit j: copy j reads what is beside the plane */
    uint32_t held;    /* of the thread's own points, by a side of x: bit v; of y: bit V + row */
    T held_x, held_y; /* what that side holds */

    /* Of copy j, the first of them past the tile, too. */
    __device__ __forceinline__ static int row_of(int j)
    {
        static_assert(S::THREADS * S::UNIT % S::X == 0, "a thread's copies lie below one another");
        return (int)threadIdx.x * S::UNIT / S::X + j * (S::THREADS * S::UNIT / S::X);
    }
    __device__ __forceinline__ static int x_of()
    {
        return (int)threadIdx.x * S::UNIT % S::X;
    }
    __device__ __forceinline__ static int side_row(int j)
    {
        const int row = ((int)threadIdx.x + j * S::THREADS) / (S::X_HIGH - S::X_LOW);
        return row < S::HEIGHT ? row : S::HEIGHT - 1;
    }
    __device__ __forceinline__ static int side_x(int j)
    {
        const int i = ((int)threadIdx.x + j * S::THREADS) % (S::X_HIGH - S::X_LOW);
        return i < -S::X_LOW ? i + S::X_LOW : S::X + i + S::X_LOW;
    }
    /* The thread's first point in the tile. */
    __device__ __forceinline__ static int own_x()
    {
        return (int)threadIdx.x % S::WIDE * S::V;
    }
    __device__ __forceinline__ static int own_y()
    {
        return (int)threadIdx.x / S::WIDE * S::ROWS;
    }
    /* Past the last point that is read, that one again. */
    __device__ __forceinline__ int column(int x) const
    {
        return stencil_source(grid, 0, min(x, grid.n[0] - 1 + S::X_HIGH));
    }
    __device__ __forceinline__ int row_read(int row, int p) const
    {
        const int y = (S::AXES == 2 ? p * S::Y : y0) + row + S::Y_LOW;
        return stencil_source(grid, 1, min(y, grid.n[1] - 1 + S::Y_HIGH));
    }
    /* Elements from a plane's first to the row's, in 2D from the tile's. */
    __device__ __forceinline__ uint32_t line(int row) const
    {
        return (uint32_t)(S::AXES == 2 ? row : row_read(row, 0)) * (uint32_t)grid.n[0];
    }

    /* PADDED: a point's place in its plane or, with *outside set, beside it. */
    __device__ __forceinline__ uint32_t place(int x, int y, bool *outside) const
    {
        const int along_x = padding_layer(*padding, 0, grid.n[0], x);
        const int along_y = padding_layer(*padding, 1, grid.n[1], y);
        *outside = along_x >= 0 || along_y >= 0;
        if (along_y >= 0)
            return (uint32_t)(along_y * padding->pitch +
                              (along_x >= 0 ? along_x : padding->row_x + x));
        if (along_x >= 0)
            return (uint32_t)(padding->rows_y * padding->pitch + y * padding->row_x + along_x);
        return (uint32_t)y * (uint32_t)grid.n[0] + (uint32_t)x;
    }
    __device__ __forceinline__ int inner_x() const
    {
        return S::ALIGNED ? x0 + x_of() : column(x0 + x_of());
    }
    __device__ __forceinline__ void find_places()
    {
        bool outside;
        in_padding = side_in_padding = 0;
#pragma unroll
        for (int j = 0; j < S::INNER_COPIES; j++) {
            from[j] = place(inner_x(), row_read(row_of(j), 0), &outside);
            in_padding |= (uint32_t)outside << j;
        }
#pragma unroll
        for (int j = 0; j < S::SIDE_COPIES; j++) {
            side_from[j] = place(column(x0 + side_x(j)), row_read(side_row(j), 0), &outside);
            side_in_padding |= (uint32_t)outside << j;
        }
    }

    __device__ __forceinline__ T held_number(int axis, bool high) const
    {
        if constexpr (sizeof(T) == sizeof(float))
            return padding->number[axis][high].f32;
        else
            return padding->number[axis][high].f64;
    }
    __device__ __forceinline__ bool is_held(int axis, int i) const
    {
        return i < padding->held[axis][0] || i >= grid.n[axis] - padding->held[axis][1];
    }
    /* A thread's points lie next to one side of an axis at most: axes are longer (can_pad()). */
    __device__ __forceinline__ void find_held()
    {
        const int x = x0 + own_x(), y = y0 + own_y();
        held = 0;
#pragma unroll
        for (int v = 0; v < S::V; v++)
            held |= (uint32_t)is_held(0, x + v) << v;
#pragma unroll
        for (int row = 0; row < S::ROWS; row++)
            held |= (uint32_t)is_held(1, y + row) << (S::V + row);
        held_x = held_number(0, x >= padding->held[0][0]);
        held_y = held_number(1, y >= padding->held[1][0]);
    }

    __device__ __forceinline__ stencil_march(const stencil_grid &grid_, T *shared, const T *in_,
                                             T *out_, const stencil_padding *padding_ = nullptr)
        : grid(grid_), ring(shared + S::LINE), in(in_), out(out_), slot(0), padding(padding_)
    {
        uint32_t block = blockIdx.x;
        x0 = (int)(block % grid.tiles_x) * S::X;
        block /= grid.tiles_x;
        if (S::ALIGNED)
            x0 = min(x0, grid.n[0] - S::X); /* the last tile ends with the row */
        y0 = grid.low[1] + (int)(block % grid.tiles_y) * S::Y;
        block /= grid.tiles_y;
        const int begin = S::AXES == 2 ? grid.low[1] / S::Y : grid.low[2];
        const int end = S::AXES == 2 ? (grid.high[1] + S::Y - 1) / S::Y : grid.high[2];
        first = begin + (int)(block % grid.marches) * grid.length;
        last = min(first + grid.length, end);
        in += (int64_t)(block / grid.marches) * grid.field;
        out += (int64_t)(block / grid.marches) * grid.field;
        if constexpr (S::PADDED) {
            padded = (const T *)padding->values + (int64_t)(block / grid.marches) * padding->field;
            find_places();
            find_held();
            out += (int64_t)(y0 + own_y()) * grid.n[0] + x0 + own_x();
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
            asm volatile("griddepcontrol.wait;" ::: "memory"); /* for the padding */
#endif
        } else {
#pragma unroll
            for (int j = 0; j < S::INNER_COPIES; j++)
                from[j] = inner_x() + line(row_of(j));
#pragma unroll
            for (int j = 0; j < S::SIDE_COPIES; j++)
                side_from[j] = column(x0 + side_x(j)) + line(side_row(j));
        }
        plane = first + S::Z_LOW - 1;
        for (int i = 0; i < S::RING - 1; i++) {
            copy(first + S::Z_LOW + i, i);
            __pipeline_commit();
        }
        plane += S::HELD - 1;
    }

    __device__ __forceinline__ void copy(int p, int to)
    {
        if (p >= last + S::Z_HIGH)
            return;
        const int y = p * S::Y + S::Y_LOW; /* in 2D: of its first row */
        const int z = S::AXES == 3 ? stencil_source(grid, 2, p) : 0;
        /* 32 bits hold what a plane has. */
        const T *f =
            in + (S::AXES == 3 ? (int64_t)z * (grid.n[0] * grid.n[1]) : (int64_t)y * grid.n[0]);
        const T *beside = f;
        if constexpr (S::PADDED) {
            const int layer = padding_layer(*padding, 2, grid.n[2], z);
            beside = padded + (int64_t)z * (int)padding->plane;
            if (layer >= 0) {
                beside = padded + padding->z_first + (int64_t)layer * (int)padding->z_plane;
                f = beside + padding->plane;
            }
        }
        T *const target = ring + to * S::PLANE;
        if (S::AXES == 3 || (y >= 0 && y + S::HEIGHT <= grid.n[1]))
            copy_rows(f, beside, target, [](int) { return 0; });
        else
            copy_rows(f, beside, target,
                      [&](int row) { return (int64_t)(row_read(row, p) - (y + row)) * grid.n[0]; });
    }

    /* A plane whose rows come from f, in the padding from `beside`, or from as many elements away
     * as away(row). */
    template <class Away>
    __device__ __forceinline__ void copy_rows(const T *f, const T *beside, T *target,
                                              const Away &away) const
    {
#pragma unroll
        for (int j = 0; j < S::INNER_COPIES; j++)
            if ((j + 1) * S::THREADS <= S::INNER || (int)threadIdx.x + j * S::THREADS < S::INNER)
                __pipeline_memcpy_async(target + row_of(j) * S::PITCH + x_of(),
                                        (S::PADDED && in_padding >> j & 1 ? beside : f) + from[j] +
                                            away(row_of(j)),
                                        S::UNIT * sizeof(T));
#pragma unroll
        for (int j = 0; j < S::SIDE_COPIES; j++)
            if ((j + 1) * S::THREADS <= S::SIDE || (int)threadIdx.x + j * S::THREADS < S::SIDE)
                __pipeline_memcpy_async(target + side_row(j) * S::PITCH + side_x(j),
                                        (S::PADDED && side_in_padding >> j & 1 ? beside : f) +
                                            side_from[j] + away(side_row(j)),
                                        sizeof(T));
    }

    /* The next plane has come, the newest of HELD; false: there is none. */
    __device__ __forceinline__ bool next()
    {
        if (++plane >= last + S::Z_HIGH)
            return false;
        pipeline_wait<S::AHEAD - 1>();
        __syncthreads();
        int to = slot + S::RING - 1;
        copy(plane + S::AHEAD, to < S::RING ? to : to - S::RING);
        __pipeline_commit();
        slot = slot + 1 == S::RING ? 0 : slot + 1;
        return true;
    }

    /* The thread's first pack in the plane `age` planes before the newest. */
    __device__ __forceinline__ const T *own(int age) const
    {
        int at = slot - 1 + S::HELD - 1 - age;
        at += at < 0 ? S::RING : 0;
        at -= at >= S::RING ? S::RING : 0;
        return ring + at * S::PLANE + (own_y() - S::Y_LOW) * S::PITCH + own_x();
    }

    /* Is the plane whose sums are ready one of those to compute? */
    __device__ __forceinline__ bool ready() const
    {
        return plane - S::Z_HIGH >= first;
    }

    /* PADDED: what sides hold is no sum. The first axis decides. */
    __device__ __forceinline__ void hold(int p, int row, T (&q)[S::V]) const
    {
        const bool low = p < padding->held[2][0];
        if (low || p >= grid.n[2] - padding->held[2][1])
#pragma unroll
            for (int v = 0; v < S::V; v++)
                q[v] = held_number(2, !low);
        if (held >> (S::V + row) & 1)
#pragma unroll
            for (int v = 0; v < S::V; v++)
                q[v] = held_y;
#pragma unroll
        for (int v = 0; v < S::V; v++)
            if (held >> v & 1)
                q[v] = held_x;
    }

    __device__ __forceinline__ void store(int row, T (&q)[S::V])
    {
        const int p = plane - S::Z_HIGH, x = x0 + own_x();
        const int y = (S::AXES == 2 ? p * S::Y : y0) + own_y() + row;
        T *const to =
            out + (S::PADDED ? (int64_t)p * (grid.n[0] * grid.n[1]) + row * grid.n[0]
                             : ((S::AXES == 2 ? 0 : (int64_t)p * grid.n[1]) + y) * grid.n[0] + x);
        if (y < grid.low[1] || y >= grid.high[1])
            return;
        if constexpr (S::PADDED)
            hold(p, row, q);
        if (S::ALIGNED && x >= grid.low[0] && x + S::V <= grid.high[0]) {
            if constexpr (sizeof(T) == 4)
                __stcg((float4 *)to, make_float4(q[0], q[1], q[2], q[3]));
            else
                __stcg((double2 *)to, make_double2(q[0], q[1]));
            return;
        }
#pragma unroll
        for (int v = 0; v < S::V; v++)
            if (x + v >= grid.low[0] && x + v < grid.high[0])
                to[v] = q[v];
    }
};

static __device__ __forceinline__ void stencil_load(const float *p, float &a, float &b, float &c,
                                                    float &d)
{
    const float4 q = *(const float4 *)p;
    a = q.x;
    b = q.y;
    c = q.z;
    d = q.w;
}
static __device__ __forceinline__ void stencil_load(const double *p, double &a, double &b)
{
    const double2 q = *(const double2 *)p;
    a = q.x;
    b = q.y;
}
static __device__ __forceinline__ float stencil_fma(float a, float b, float c)
{
    return __fmaf_rn(a, b, c);
}
static __device__ __forceinline__ double stencil_fma(double a, double b, double c)
{
    return __fma_rn(a, b, c);
}
static __device__ __forceinline__ float stencil_product(float a, float b)
{
    return __fmul_rn(a, b);
}
static __device__ __forceinline__ double stencil_product(double a, double b)
{
    return __dmul_rn(a, b);
}
