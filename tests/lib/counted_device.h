/* An emulated device that counts allocations, for tests of the resources that gpu/cuda/ holds. */
#pragma once

#include <stdint.h>

/* Reset everything except its memory, at the beginning of a test. */
extern struct counted_device {
    uint64_t has_bytes;
    uint64_t bytes, made, freed; /* taken now, in all, and given back */
} counted_device;
