/* The widest vectors of a processor generation, for one element type: REAL, NAME and SIMD_SUFFIX
 * (of intrinsics: ps, pd) are defined by kernels.c. Sums and products are the compiler's own
 * operators on vectors. */

typedef REAL NAME(vector) __attribute__((vector_size(VECTOR_BYTES)));
typedef REAL NAME(unaligned)
    __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(REAL)), may_alias));

enum { NAME(LANES) = VECTOR_BYTES / sizeof(REAL) };

ALWAYS_INLINE NAME(vector) NAME(load)(const REAL *from)
{
    return (NAME(vector)) * (const NAME(unaligned) *)from;
}

ALWAYS_INLINE NAME(vector) NAME(fill)(REAL value)
{
#ifdef __x86_64__
    return SIMD(set1)(value);
#else
    NAME(vector) v;
    for (int k = 0; k < NAME(LANES); k++)
        v[k] = value;
    return v;
#endif
}

ALWAYS_INLINE void NAME(store)(REAL *to, NAME(vector) v)
{
    *(NAME(unaligned) *)to = (NAME(unaligned))v;
}

/* Past the caches: the line of `to` is not read first. `to` is aligned to the vector. */
ALWAYS_INLINE void NAME(stream)(REAL *to, NAME(vector) v)
{
#ifdef __x86_64__
    SIMD(stream)(to, v);
#else
    NAME(store)(to, v);
#endif
}

ALWAYS_INLINE NAME(vector) NAME(fma)(NAME(vector) a, NAME(vector) b, NAME(vector) c)
{
#ifdef __FMA__
    return SIMD(fmadd)(a, b, c);
#else
    for (int k = 0; k < NAME(LANES); k++)
        c[k] = REAL_FMA(a[k], b[k], c[k]);
    return c;
#endif
}

/* a where `which` is not 0, else b. */
ALWAYS_INLINE NAME(vector) NAME(select)(NAME(vector) which, NAME(vector) a, NAME(vector) b)
{
    const __typeof__(a != b) bits = which != NAME(fill)(0);
    return (NAME(vector))((bits & (__typeof__(bits))a) | (~bits & (__typeof__(bits))b));
}

/* The first `count` lanes and nothing beyond them: loaded as 0, or left alone. */
#if VECTOR_BYTES == 64
ALWAYS_INLINE NAME(vector) NAME(load_some)(const REAL *from, int count)
{
    return SIMD(maskz_loadu)((1u << count) - 1, from);
}

ALWAYS_INLINE void NAME(store_some)(REAL *to, NAME(vector) v, int count)
{
    SIMD(mask_storeu)(to, (1u << count) - 1, v);
}
#elif VECTOR_BYTES == 32
ALWAYS_INLINE __m256i NAME(mask)(int count)
{
    static const int64_t lanes[8] = {-1, -1, -1, -1, 0, 0, 0, 0};
    const char *end = (const char *)(lanes + 4);
    return _mm256_loadu_si256((const void *)(end - count * (int)sizeof(REAL)));
}

ALWAYS_INLINE NAME(vector) NAME(load_some)(const REAL *from, int count)
{
    return SIMD(maskload)(from, NAME(mask)(count));
}

ALWAYS_INLINE void NAME(store_some)(REAL *to, NAME(vector) v, int count)
{
    SIMD(maskstore)(to, NAME(mask)(count), v);
}
#else
ALWAYS_INLINE NAME(vector) NAME(load_some)(const REAL *from, int count)
{
    NAME(vector) v = {0};
    for (int k = 0; k < count; k++)
        v[k] = from[k];
    return v;
}

ALWAYS_INLINE void NAME(store_some)(REAL *to, NAME(vector) v, int count)
{
    for (int k = 0; k < count; k++)
        to[k] = v[k];
}
#endif

/* The first `count` lanes, which may be all. */
ALWAYS_INLINE NAME(vector) NAME(read)(const REAL *from, int count)
{
    return count == NAME(LANES) ? NAME(load)(from) : NAME(load_some)(from, count);
}

ALWAYS_INLINE void NAME(write)(REAL *to, NAME(vector) v, int count)
{
    if (count == NAME(LANES))
        NAME(store)(to, v);
    else
        NAME(store_some)(to, v, count);
}
