/* Asynchronous copies to shared memory. In every other block they take effect only when they are
 * waited for, so that a kernel that does not wait reads the former contents; in the others at once,
 * so that one which asks too early loses what it still needs. */
#pragma once

#include <stddef.h>

/* bytes: 4, 8 or 16, both addresses aligned to it; zfill: the number of trailing zeros. */
void __pipeline_memcpy_async(void *shared, const void *global, size_t bytes, size_t zfill = 0);
void __pipeline_commit();
/* Wait until at most `prior` of the thread's last commits are in flight. */
void __pipeline_wait_prior(size_t prior);
