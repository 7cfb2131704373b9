/* Copies of boxes to shared memory by the copy engine of a multiprocessor, from sm_90 on: one
 * thread asks for a box, and no thread's instructions or registers carry it. Threads learn what has
 * come, and what is no longer needed, from barriers in shared memory (PTX ISA, mbarrier and
 * cp.async.bulk.tensor) that count arrivals, and for copies also bytes, in phases 0, 1, 0, … */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#include "gpu/cuda/driver.h"

#include <cuda.h>
#endif

struct arrivals {
    uint64_t word;
};

/* A box of X × Y points of planes: what bulk_box copies of an array of planes. */
#ifdef __CUDACC__
struct bulk_map {
    CUtensorMap map;
};
#else
struct bulk_map {
    const unsigned char *array;
    uint64_t element;
    int64_t n[3];
    int box[2];
};
#endif

#ifdef __CUDACC__

/* false: the device, or its driver, cannot. element: 4 (float) or 8 (double) bytes; the array, its
 * rows of n[0] elements and the box's rows: multiples of 16 bytes; n[2] planes. */
static inline bool bulk_map_init(struct bulk_map *map, const void *array, size_t element,
                                 const int64_t n[3], const int box[2])
{
    typedef CUresult encode(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                            const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                            const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                            CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    static encode *const encodes = (encode *)driver_find("cuTensorMapEncodeTiled", 12000);
    const cuuint64_t size[] = {(cuuint64_t)n[0], (cuuint64_t)n[1], (cuuint64_t)n[2]};
    const cuuint64_t row = size[0] * element, pitch[] = {row, row * size[1]};
    const cuuint32_t boxes[] = {(cuuint32_t)box[0], (cuuint32_t)box[1], 1}, each[] = {1, 1, 1};
    return encodes &&
           encodes(&map->map,
                   element == 4 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
                   3, const_cast<void *>(array), size, pitch, boxes, each,
                   CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                   CU_TENSOR_MAP_L2_PROMOTION_NONE,
                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

static __device__ __forceinline__ unsigned bulk_address(const void *shared)
{
    return (unsigned)__cvta_generic_to_shared(shared);
}

/* A phase ends after `count` arrivals and the bytes they expect. By one thread, before a
 * __syncthreads that lets others use it. */
static __device__ __forceinline__ void arrivals_begin(struct arrivals *arrivals, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n"
                 "fence.mbarrier_init.release.cluster;\n"
                 "fence.proxy.async.shared::cta;" ::"r"(bulk_address(arrivals)),
                 "r"(count)
                 : "memory");
}

static __device__ __forceinline__ void arrivals_arrive(struct arrivals *arrivals)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bulk_address(arrivals))
                 : "memory");
}

/* Arrive, and let the phase last until so many bytes of bulk_box have come, too. */
static __device__ __forceinline__ void arrivals_expect(struct arrivals *arrivals, unsigned bytes)
{
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bulk_address(arrivals)),
        "r"(bytes)
        : "memory");
}

/* Until the phase of that parity has ended. */
static __device__ __forceinline__ void arrivals_wait(struct arrivals *arrivals, unsigned parity)
{
    asm volatile("{\n"
                 ".reg .pred ended;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
                 "@!ended bra again;\n"
                 "}" ::"r"(bulk_address(arrivals)),
                 "r"(parity)
                 : "memory");
}

/* The box from (x, y) of a plane on, its rows one after another; zeros for what is not in the
 * array. The map is a kernel's parameter; shared: a multiple of 128. What other threads read from
 * there before must have been waited for by `arrivals`. */
static __device__ __forceinline__ void bulk_box(void *shared, const struct bulk_map *map, int x,
                                                int y, int plane, struct arrivals *arrivals)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(bulk_address(shared)),
                 "l"(map), "r"(x), "r"(y), "r"(plane), "r"(bulk_address(arrivals))
                 : "memory");
}

#endif
#else /* on the host: tests/lib/cuda_on_host/block.cpp */

void arrivals_begin(struct arrivals *arrivals, int count);
void arrivals_arrive(struct arrivals *arrivals);
void arrivals_expect(struct arrivals *arrivals, unsigned bytes);
void arrivals_wait(struct arrivals *arrivals, unsigned parity);
bool bulk_map_init(struct bulk_map *map, const void *array, size_t element, const int64_t n[3],
                   const int box[2]);
void bulk_box(void *shared, const struct bulk_map *map, int x, int y, int plane,
              struct arrivals *arrivals);

#endif
