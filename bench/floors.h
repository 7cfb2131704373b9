/* The machine's floors, to which every figure of a benchmark is a ratio, measured in the same run.
 * Bandwidths in bytes per microsecond (MB/s) count bytes read plus bytes written. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

uint64_t floors_now_ns(void);

/* Median of n samples; sorts them. */
double floors_median(double *samples, int n);

/* Time to copy `bytes` from one array to another with all threads, microseconds: with ordinary
 * stores or past the caches, whichever is faster. */
double floors_host_copy_us(size_t bytes);
/* The same with one thread's memcpy, out of cache where `bytes` is. */
double floors_memcpy_us(size_t bytes);
/* Time to send `bytes` one way through a Unix stream socket into a buffer that is reused, and a
 * round trip of 64 bytes, microseconds. */
double floors_socket_us(size_t bytes);
double floors_socket_round_trip_us(void);

/* On the open device (in a build with CUDA): a copy within its memory; from and to pinned memory;
 * both directions at once. Negative without a device. */
double floors_device_copy_us(size_t bytes);
double floors_pinned_up_us(size_t bytes);
double floors_pinned_down_us(size_t bytes);
double floors_pinned_both_us(size_t bytes);
/* The launch of an empty kernel and the wait for it. */
double floors_launch_us(void);

#ifdef __cplusplus
}
#endif
