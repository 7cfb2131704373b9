#include "gpu/host/share.h"

#ifdef _OPENMP
#include <omp.h>
#endif

enum {
    SMALL_POINTS = 1 << 13, /* waking the other threads costs more */
    PARTS = 8               /* of a thread's share: one of them may be held up */
};

int share_threads(void)
{
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

int share_thread(void)
{
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

void share_units(int64_t units, int64_t points, share_part *part, void *work)
{
    const int64_t threads = points > SMALL_POINTS ? share_threads() : 1;
    const int64_t parts = units < threads * PARTS ? units : threads == 1 ? 1 : threads * PARTS;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1) num_threads((int)threads) if (threads > 1)
#endif
    for (int64_t i = 0; i < parts; i++)
        part(work, units * i / parts, units * (i + 1) / parts);
}
