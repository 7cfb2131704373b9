#include "tests/lib/fill.h"

#include "gpu/host/share.h"
#include "tests/lib/random_job.h"

struct filling {
    enum dtype dtype;
    uint64_t key;
    void *array;
};

static void fill_part(void *context, int64_t from, int64_t to)
{
    const struct filling *filling = context;
    for (int64_t i = from; i < to; i++) {
        uint64_t h = ((uint64_t)i + filling->key) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
        h *= UINT64_C(0xbf58476d1ce4e5b9);
        element_set(filling->dtype, filling->array, (uint64_t)i, (double)(h >> 11) * 0x1p-52 - 1);
    }
}

void fill_array(enum dtype dtype, uint64_t points, uint64_t key, void *array)
{
    struct filling filling = {dtype, key, array};
    share_units((int64_t)points, (int64_t)points, fill_part, &filling);
}
