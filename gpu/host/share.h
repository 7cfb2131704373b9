/* How the host's cores share the work of a pass. One caller at a time. */
#ifndef GPU_HOST_SHARE_H
#define GPU_HOST_SHARE_H

#include <stdint.h>

/* Threads that a large launch runs on; which of them this is. */
int share_threads(void);
int share_thread(void);

/* Do units [0, units) of work over so many points in all: part by part, on all threads where that
 * pays. */
typedef void share_part(void *work, int64_t from, int64_t to);
void share_units(int64_t units, int64_t points, share_part *part, void *work);

#endif
