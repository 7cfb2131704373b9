#include "gpu/host/kernels.h"

#include "gpu/host/adi_pass.h"
#include "gpu/host/stencil_pass.h"

#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#ifndef KERNELS
#define KERNELS kernels_baseline
#endif

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define SIMD_PREFIX _mm512_
#elif defined(__AVX2__) && defined(__FMA__)
#define VECTOR_BYTES 32
#define SIMD_PREFIX _mm256_
#else
#define VECTOR_BYTES 16
#define SIMD_PREFIX _mm_
#endif
#define JOIN3(a, b, c) a##b##_##c
#define JOIN(a, b, c) JOIN3(a, b, c)
#define SIMD(name) JOIN(SIMD_PREFIX, name, SIMD_SUFFIX)

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define ALWAYS_INLINE static inline __attribute__((always_inline))

#define PAGE 4096
/* Points of a line that are worked on at a time, so that what is written and read again stays in
 * the first cache. */
#define STRIP ((int)(PAGE / sizeof(REAL)))
/* Rows between those that are computed and those that are fetched. */
#define AHEAD 4
/* Vectors in a row that is sooner brought beside its neighbours as a whole than in parts. */
#define SHORT 8
#define FEW 8 /* points that are sooner done one by one than as a strip by their table */
/* Room for a strip, wherever in a page; beside a row for neighbours; for rows that hold a strip. */
#define WAITING (STRIP + (int)(PAGE / sizeof(REAL)))
#define MARGIN 16
#define ROW (WAITING + 2 * MARGIN)
/* Terms of a sum: a centre, a row of each axis, data of the sides of two of them, and a source. */
#define TERMS (3 * TABLE_POINTS + 6)
/* Scratch lines at a time: rows of two axes, or of one and the face's row of a `mixed` side, lines
 * of a mixed derivative, and a few beside them. */
#define TABLE_SCRATCH (4 * TABLE_POINTS + 8)
/* Vectors whose sums are under way at the same time. */
#define GROUP 4
/* Lines of ADI side by side. */
#define ADI_LANES ((int64_t)(2048 / sizeof(REAL)))

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
#define TABLE_FUNCTION static inline __attribute__((unused))
#define TABLE_LOAD(pointer) (*(pointer))

/* Names of an element type: NAME(tile) is tile_f32 or tile_f64. */
#define NAME(name) JOIN(, name, SUFFIX)
#define POINT_NAME(name) JOIN(point_, name, SUFFIX)
#define TABLE_NAME(name) JOIN(table_point_, name, SUFFIX)
#define STENCIL_NAME(name) JOIN(stencil_, name, SUFFIX)
#define TABLE_ROW struct NAME(table_row)
#define STENCIL_WEIGHT SUFFIX

#define REAL float
#define SUFFIX f32
#define SIMD_SUFFIX ps
#define REAL_FMA(a, b, c) __builtin_fmaf(a, b, c)
#include "gpu/host/loops.h"

#define REAL double
#define SUFFIX f64
#define SIMD_SUFFIX pd
#define REAL_FMA(a, b, c) __builtin_fma(a, b, c)
#include "gpu/host/loops.h"

#define STRINGIFY(x) #x
#define NAME_OF(x) STRINGIFY(x)
const struct kernels KERNELS = {NAME_OF(KERNELS),
                                {tile_f32, tile_f64},
                                {stencil_run_f32, stencil_run_f64},
                                {table_lines_f32, table_lines_f64},
                                {adi_units_f32, adi_units_f64},
                                {adi_stage_f32, adi_stage_f64}};
