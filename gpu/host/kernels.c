#include "gpu/host/kernels.h"

#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#ifndef KERNELS
#define KERNELS kernels_baseline
#endif

/* Points that are worked on at a time, so that what is written and read again stays in the first
 * cache. */
#define BLOCK 1024
/* Points that are sooner copied whole beside their neighbours than split from their edges. */
#define SHORT 160

/* Input and output never overlap, which the compiler cannot know of the many rows that are read. */
#ifdef __clang__
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define UNROLL _Pragma("clang loop unroll(full)")
#pragma clang diagnostic ignored "-Wpass-failed" /* the baseline calls libm */
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#define UNROLL _Pragma("GCC unroll 4")
#endif
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* memcpy past the caches: the lines of `to` are not read first, which saves a third of the traffic.
 */
static void stream_copy(void *to, const void *from, size_t bytes)
{
    char *target = to;
    const char *source = from;
#ifdef __x86_64__
    size_t head = -(uintptr_t)target & 63;
    if (head > bytes)
        head = bytes;
    memcpy(target, source, head);
    target += head;
    source += head;
    bytes -= head;
    for (; bytes >= 64; bytes -= 64, target += 64, source += 64) {
#if defined(__AVX512F__)
        _mm512_stream_si512((void *)target, _mm512_loadu_si512(source));
#elif defined(__AVX__)
        for (int k = 0; k < 64; k += 32)
            _mm256_stream_si256((void *)(target + k),
                                _mm256_loadu_si256((const void *)(source + k)));
#else
        for (int k = 0; k < 64; k += 16)
            _mm_stream_si128((void *)(target + k), _mm_loadu_si128((const void *)(source + k)));
#endif
    }
#endif
    memcpy(target, source, bytes);
}

/* Streamed lines are ordered before what the thread does next. */
static void stream_end(void)
{
#ifdef __x86_64__
    _mm_sfence();
#endif
}

#define POINT_FUNCTION static inline __attribute__((unused))

#define REAL float
#define REAL_FMA(a, b, c) __builtin_fmaf(a, b, c)
#define POINT_NAME(name) point_##name##_f32
#define NAME(name) name##_f32
#include "gpu/point.h"
#include "gpu/host/nabla.h"
#include "gpu/host/loops.h"
#undef REAL
#undef REAL_FMA
#undef POINT_NAME
#undef NAME

#define REAL double
#define REAL_FMA(a, b, c) __builtin_fma(a, b, c)
#define POINT_NAME(name) point_##name##_f64
#define NAME(name) name##_f64
#include "gpu/point.h"
#include "gpu/host/nabla.h"
#include "gpu/host/loops.h"

#define STRINGIFY(x) #x
#define NAME_OF(x) STRINGIFY(x)
const struct kernels KERNELS = {NAME_OF(KERNELS), {tile_f32, tile_f64}};
