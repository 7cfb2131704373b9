/* Asynchronous copies to shared memory: they land when they are waited for, and no sooner, so that
 * a kernel that does not wait reads what was there before. */
#pragma once

#include <stddef.h>

/* bytes: 4, 8 or 16, both ends aligned to it; zfill: the last of them are zeros. */
void __pipeline_memcpy_async(void *shared, const void *global, size_t bytes, size_t zfill = 0);
void __pipeline_commit();
/* Until at most `prior` of the thread's last commits are under way. */
void __pipeline_wait_prior(size_t prior);
