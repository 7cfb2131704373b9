/* Barriers of some warps of a block (PTX ISA, barrier.sync), 1 to 15; __syncthreads is 0. */
#pragma once

#ifdef __CUDACC__

/* Wait until `count` threads, of whole warps, have come. */
static __device__ __forceinline__ void barrier_wait(int barrier, int count)
{
    asm volatile("barrier.sync %0, %1;" ::"r"(barrier), "r"(count) : "memory");
}

#else /* on the host: tests/lib/cuda_on_host/block.cpp */

void barrier_wait(int barrier, int count);

#endif
