/* Input for arrays of gigabytes, which random_field() takes too long for. */
#pragma once

#include "numerics/job.h"

/* Numbers in [−1, 1), different at every point and for every key, by the pool's threads. */
void fill_array(enum dtype dtype, uint64_t points, uint64_t key, void *array);
