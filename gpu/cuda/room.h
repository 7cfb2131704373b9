/* Device memory that passes use for a moment, one after another: paddings. It is allocated when
 * first asked for, and stays. The worker's main thread. */
#pragma once

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <sys/cdefs.h>

__BEGIN_DECLS

#define ROOM_MOST (UINT64_C(256) << 20)

/* Of a device with so much memory: none is taken yet. */
cudaError_t room_open(uint64_t memory_bytes);
void room_close(void);

/* So many bytes for what comes next on the stream, until room_give() of the stream. NULL: there is
 * less, or no memory. */
void *room_take(uint64_t bytes, cudaStream_t stream);
void room_give(cudaStream_t stream);

__END_DECLS
