/* The weights that kernels read, resident in constant memory. */
#include "gpu/cuda/grid.cuh"

__constant__ struct passes_constants table[PASSES_SLOTS];

static_assert(sizeof table <= 64 << 10, "constant memory is 64 KiB");

extern "C" cudaError_t passes_load(int slot, const struct passes_constants *constants,
                                   cudaStream_t stream)
{
    return cudaMemcpyToSymbolAsync(table, constants, sizeof *constants,
                                   (size_t)slot * sizeof *constants, cudaMemcpyHostToDevice,
                                   stream);
}
