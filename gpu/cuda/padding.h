/* The padding of a field in 3D: the values beyond sides whose points have no images, and those of
 * nodes that hold a value, computed once a pass by numerics/stencil_point.h, from which a stencil's
 * kernel reads them (struct stencil_padding). */
#pragma once

#include "gpu/compile/source.h"
#include "gpu/compile/stencil_kernel.cuh"
#include "numerics/stencil_plan.h"

#include <cuda_runtime_api.h>

/* Lay it out for fields of that table, for packs of so many points along x, all but `values`.
 * Returns its bytes for a batch; 0: it has too many points. */
uint64_t padding_init(stencil_padding *padding, const struct stencil_table *table, int pack,
                      uint64_t batch, uint64_t element_bytes);

/* Compute it, from the fields `in`. table: on the device; NULL: that of the slot. operands: by enum
 * operand. */
cudaError_t padding_fill(const stencil_padding *padding, const struct stencil_table *host_table,
                         const struct stencil_table *table, int slot,
                         const void *const operands[OPERANDS], enum dtype dtype, uint64_t batch,
                         const void *in, cudaStream_t stream);
