/* Device memory that other processes map: allocations of their own by the driver's functions for
 * virtual memory. None of it is kept when it is released. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The device is open. Allocations are multiples of so many bytes; 0: the device, or its driver,
 * cannot export any. */
uint64_t export_open(int device);

/* What an array of `bytes` takes. */
uint64_t export_rounded(uint64_t bytes);

/* *descriptor: the caller's, with which other processes map it. It may hold anything. NULL where
 * there is none. */
void *export_allocate(uint64_t bytes, int *descriptor);
/* Nothing is under way with it. It goes when no other process has it mapped. */
void export_release(void *memory, uint64_t bytes);

/* Map what another process, or this one, has allocated so, by its descriptor, which stays the
 * caller's; bytes: all of it. NULL: it cannot be reached from this device. */
void *export_import(int descriptor, uint64_t bytes);
void export_unimport(void *memory, uint64_t bytes);
