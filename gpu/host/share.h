/* How a launch's work of equal units is shared by the pool's threads (base/thread_pool.h). */
#pragma once

#include <stdint.h>

/* Do units [0, units) of work over so many points in all: part by part, with the threads that are
 * free where that pays. From any thread. */
typedef void share_part(void *work, int64_t from, int64_t to);
void share_units(int64_t units, int64_t points, share_part *part, void *work);
