/* The textbook kernels for finite differences on GPUs, for comparison with the product. */
#pragma once

#include "gpu/backend.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct classic {
    const char *name;
    bool (*takes)(const struct job *job); /* whether it computes this job */
    /* Put the launch's whole passes on the stream; its plan was loaded last. */
    cudaError_t (*enqueue)(const struct launch *launch, cudaStream_t stream);
};

extern const struct classic classics[];
extern const int classics_count;

/* The weights, into constant memory: no classical kernel may be under way. */
cudaError_t classics_load(const struct plan *plan);

#ifdef __cplusplus
}
#endif
