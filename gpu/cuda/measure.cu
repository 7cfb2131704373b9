/* Measures: a warp for each block, a thread for each lane; then the same over what these gave,
 * until one is left. Reads each element once, in order. */
#include "gpu/cuda/grid.cuh"

#define MEASURE_FUNCTION static __host__ __device__ __forceinline__
#include "numerics/measure.h"

enum { THREADS = 256, WARPS = THREADS / MEASURE_LANES, BLOCKS_MOST = 1 << 20 };

/* How an element is taken: of one array, of two, and of results. */
struct values {
    template <typename T>
    static __device__ __forceinline__ void take(struct measured *all, const T *a, const T *,
                                                uint64_t i)
    {
        measured_value(all, (double)a[i]);
    }
};

struct distances {
    template <typename T>
    static __device__ __forceinline__ void take(struct measured *all, const T *a, const T *b,
                                                uint64_t i)
    {
        measured_distance(all, (double)a[i], (double)b[i]);
    }
};

struct results {
    static __device__ __forceinline__ void take(struct measured *all, const struct measured *a,
                                                const struct measured *, uint64_t i)
    {
        const struct measured other = a[i];
        measured_join(all, &other);
    }
};

template <typename How, typename T>
static __global__ void __launch_bounds__(THREADS)
    measure_kernel(const T *a, const T *b, uint64_t count, struct measured *to)
{
    const uint64_t blocks = measure_blocks(count);
    const unsigned lane = threadIdx.x % MEASURE_LANES;
    for (uint64_t block = (uint64_t)blockIdx.x * WARPS + threadIdx.x / MEASURE_LANES;
         block < blocks; block += (uint64_t)gridDim.x * WARPS) {
        const uint64_t from = block * MEASURE_BLOCK;
        const uint64_t end = count - from < MEASURE_BLOCK ? count : from + MEASURE_BLOCK;
        struct measured all = measured_none();
#pragma unroll 4
        for (uint64_t i = from + lane; i < end; i += MEASURE_LANES)
            How::take(&all, a, b, i);
#pragma unroll
        for (int apart = MEASURE_LANES / 2; apart; apart /= 2) {
            struct measured other;
            other.min = __shfl_down_sync(~0u, all.min, apart);
            other.max = __shfl_down_sync(~0u, all.max, apart);
            other.sum = __shfl_down_sync(~0u, all.sum, apart);
            other.nan = __shfl_down_sync(~0u, all.nan, apart);
            measured_join(&all, &other);
        }
        if (lane == 0)
            to[block] = all;
    }
}

template <typename How, typename T>
static cudaError_t put_measure(const void *a, const void *b, uint64_t count, struct measured *to,
                               cudaStream_t stream)
{
    const uint64_t needed = (measure_blocks(count) + WARPS - 1) / WARPS;
    const unsigned blocks = (unsigned)min(needed, (uint64_t)BLOCKS_MOST);
    return launch_grid(measure_kernel<How, T>, dim3(blocks), dim3(THREADS), 0, stream, (const T *)a,
                       (const T *)b, count, to);
}

extern "C" cudaError_t measure_launch(const struct launch *launch, cudaStream_t stream)
{
    const struct plan *plan = launch->plan;
    const void *a = launch->in[0], *b = launch->in[1];
    struct measured *to = (struct measured *)launch->even[0];
    uint64_t count = plan->points;
    cudaError_t error;
    if (plan->inputs == 0) {
        const struct measured *given = to;
        to += count;
        error = put_measure<results, struct measured>(given, NULL, count, to, stream);
    } else {
        error = with_type(plan, [&](auto type) {
            using T = decltype(type);
            return plan->inputs == 2 ? put_measure<distances, T>(a, b, count, to, stream)
                                     : put_measure<values, T>(a, b, count, to, stream);
        });
    }
    for (uint64_t blocks = measure_blocks(count); blocks > 1 && error == cudaSuccess;
         blocks = measure_blocks(count)) {
        const struct measured *from = to;
        to += blocks;
        count = blocks;
        error = put_measure<results, struct measured>(from, NULL, count, to, stream);
    }
    return error;
}
