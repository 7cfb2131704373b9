/* The values of a field at some points, kept: a thread for each. */
#include "gpu/cuda/grid.cuh"

enum { THREADS = 128 };

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    probes_kernel(int slot, const T *__restrict__ field, T *__restrict__ values)
{
    const struct passes_constants *constants = &table[slot];
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t *places =
        (const int64_t *)((const char *)constants->rows + constants->plan.probes_at);
    if (i < constants->plan.probes)
        values[i] = field[places[i]];
}

extern "C" cudaError_t probes_launch(const struct plan *plan, int slot, const void *field,
                                     void *values, uint64_t row, cudaStream_t stream)
{
    const dim3 grid((unsigned)blocks_of((int64_t)plan->probes, THREADS));
    return with_type(plan, [&](auto type) {
        using T = decltype(type);
        return launch_grid(probes_kernel<T>, grid, dim3(THREADS), 0, stream, slot, (const T *)field,
                           (T *)values + row * plan->probes);
    });
}
