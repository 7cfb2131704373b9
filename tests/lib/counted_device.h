/* A device that is a counter, for tests of what gpu/cuda/ holds of one. */
#pragma once

#include <stdint.h>

/* All bytes 0 but for what it has, and a test begins. */
extern struct counted_device {
    uint64_t has_bytes;
    uint64_t bytes, made, freed; /* taken now, in all, and given back */
} counted_device;
