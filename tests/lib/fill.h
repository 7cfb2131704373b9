/* Input for arrays of gigabytes, for which random_field() is too slow. */
#pragma once

#include "numerics/job.h"

/* Numbers in [−1, 1), different at every point and for every key, by the pool's threads. */
void fill_array(enum dtype dtype, uint64_t points, uint64_t key, void *array);
