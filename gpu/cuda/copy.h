/* Copies by a kernel, between the device's memory and clients' memory that it can address: they
 * keep their place among the kernels of a stream, and pass the queue of the copy engines by. */
#pragma once

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <sys/cdefs.h>

__BEGIN_DECLS

enum { COPY_MOST = 48 };

/* Of bytes that do not overlap; both ends are multiples of 16. */
struct copy_arrays {
    void *to;
    const void *from;
    uint64_t bytes;
};

struct copies {
    struct copy_arrays arrays[COPY_MOST];
    uint32_t count;
};

/* Put all of them, in no order among each other, on the stream. */
cudaError_t copy_launch(const struct copies *copies, cudaStream_t stream);

__END_DECLS
