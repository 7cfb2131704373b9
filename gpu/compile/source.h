/* The CUDA source of a kernel made for one stencil: of its offsets, their order, the type and the
 * tile. Weights, sizes and boundaries are arguments of the kernel, so they need no new one. The
 * build makes the kernels of common stencils, fdcompile those that jobs ask for. */
#pragma once

#include "numerics/side.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

__BEGIN_DECLS

enum {
    KERNEL_POINTS = 343, /* more would be compiled for seconds */
    KERNEL_RADIUS = 4,   /* of offsets along any axis */
    KERNEL_NAME_BYTES = 16,
    KERNEL_SOURCE_BYTES = 1 << 20,
    /* Fields of no more points (with the batch) are computed without: their launches may be part of
     * a graph, and take no longer than launching does. */
    KERNEL_LEAST_POINTS = 1 << 18,
    KERNEL_COMMON = 8 * 4 /* keys of stencils that the build makes kernels for */
};

/* Integers alone, without padding, and zero where nothing is: keys are compared by memcmp(). */
struct kernel_key {
    uint8_t dtype;   /* enum dtype */
    uint8_t axes;    /* of space: 2 or 3 */
    uint8_t aligned; /* 1: rows are whole packs of 16 bytes, and no shorter than a tile */
    uint8_t padded;  /* 1: beyond some sides it reads a padding (3D); else there are images */
    uint16_t points;
    int8_t offsets[KERNEL_POINTS][AXIS_COUNT]; /* in the order of the sum; by enum axis */
    uint8_t end;
};

/* The code of a kernel that was compiled, as it goes to a worker and into files. */
struct kernel_image {
    struct kernel_key key;
    uint8_t zero[4];
    uint8_t code[]; /* a cubin, at a multiple of 16 bytes */
};

#define KERNEL_ASKED "asked_stencil" /* the name of the kernel in it */

/* The block and the tile of a plane that it computes. */
struct kernel_tile {
    int wide, high, rows; /* threads along x and y; rows of a pack each that a thread computes */
    int pack;             /* points along x */
    int ahead;            /* planes that are on their way */
    int before;           /* planes that are read before the first result */
    int64_t shared_bytes;
};

/* Does a kernel that can read a padding do so beyond this side? */
bool kernel_pads(const struct side *side);

/* The key of a stencil of so many points on fields of n points. pads: of some side, kernel_pads();
 * it is padded where the fields are large enough. False: no kernel is made for such stencils. */
bool kernel_key_init(struct kernel_key *key, int dtype, const int64_t n[AXIS_COUNT], bool pads,
                     uint64_t points, const int32_t (*offsets)[AXIS_COUNT]);

/* The keys that the build makes kernels for, by number below KERNEL_COMMON: shape by shape, each
 * with rows of whole packs and without, of both types. And is it one of them? */
void kernel_common_key(struct kernel_key *key, int number);
bool kernel_is_common(const struct kernel_key *key);

/* Is it a key that kernel_source() takes? Trusts nothing in it. */
bool kernel_key_check(const struct kernel_key *key);

struct kernel_tile kernel_tile_of(const struct kernel_key *key);

/* The points along x and y that a block computes of a plane. */
static inline int kernel_tile_x(const struct kernel_tile *tile)
{
    return tile->wide * tile->pack;
}
static inline int kernel_tile_y(const struct kernel_tile *tile)
{
    return tile->high * tile->rows;
}

/* Write the source of the kernel `name` for a key that passed kernel_key_check(), with a NUL behind
 * it: it includes "stencil_kernel.cuh". Returns its bytes without the NUL; 0: there is no room. */
size_t kernel_source(const struct kernel_key *key, const char *name, char *text, size_t room);

/* The text of that header, for compilers without its file. */
extern const char kernel_header[];

__END_DECLS
