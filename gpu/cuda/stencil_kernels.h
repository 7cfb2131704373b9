/* The kernels of common stencils that the build makes (gpu/compile/generate.c), and passes by them
 * or by compiled ones (stencil_own.cu). */
#pragma once

#include "gpu/compile/source.h"
#include "gpu/cuda/geometry.h"
#include "numerics/stencil_plan.h"

#include <cuda_runtime_api.h>

__BEGIN_DECLS

/* arguments: those of the kernel, as for cudaLaunchKernel(). Invalid configuration: blocks of this
 * device have too little shared memory. */
struct stencil_kernel {
    struct kernel_key key;
    cudaError_t (*launch)(unsigned blocks, void **arguments, cudaStream_t stream);
};

enum { STENCIL_SHAPES = 8, STENCIL_KERNELS_EACH = 4 };

extern const struct stencil_kernel stencil_kernels_0[], stencil_kernels_1[], stencil_kernels_2[],
    stencil_kernels_3[], stencil_kernels_4[], stencil_kernels_5[], stencil_kernels_6[],
    stencil_kernels_7[];

enum {
    KERNEL_LARGE_THREADS = 512,    /* of a block that keeps a multiprocessor's memory busy alone */
    KERNEL_ALONE_BYTES = 116 << 10 /* more than half of a multiprocessor's */
};

/* The shared memory that a launch asks for: of large blocks so much that one of the next job does
 * not share the multiprocessor, where both would read what the other displaces; on devices that
 * have less, what the tile takes. */
static inline int64_t kernel_asks(int threads, int64_t bytes)
{
    const bool widens = threads >= KERNEL_LARGE_THREADS && bytes < KERNEL_ALONE_BYTES &&
                        block_shared_bytes() >= KERNEL_ALONE_BYTES;
    return widens ? (int64_t)KERNEL_ALONE_BYTES : bytes;
}

/* The stencil's key, padded where its kernel reads a padding. False: no kernel is made for it. */
bool own_kernel_key(struct kernel_key *key, const struct stencil_table *table, int dtype);

/* A pass by the stencil's own kernel, of all points but those that sides hold or, where these are
 * not padded, that read beyond them: g's boundary is set to these. operands: by enum operand.
 * Invalid configuration: there is no kernel, or the grid is not for it. */
cudaError_t own_kernel_launch(const struct stencil_table *table, struct geometry *g,
                              const void *const operands[OPERANDS], const void *in, void *out);

__END_DECLS
