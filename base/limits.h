/* What a peer may make us hold or do, whatever it sends. The reasons are here; the numbers that an
 * operator may change are options of the server (server/config/options.inc). */
#pragma once

enum {
    LIMIT_DEPTH = 16,      /* containers inside each other; a chain of vector maps needs 8 */
    LIMIT_ELEMENTS = 4096, /* objects in one message; bounds what msgpack-c allocates */
    LIMIT_CONTROL_BYTES = 64 << 10, /* of one message once its large bins are diverted */
    LIMIT_DIVERT_BYTES = 4 << 10,   /* a bin or str from here up is payload: it goes to the arena */
    LIMIT_PAYLOADS = 256,    /* diverted bins in one message; 1024³ float64 as 2^31-byte bins: 4 */
    LIMIT_ARRAYS = 24,       /* inline arrays in one message: f, operands, faces of all sides */
    LIMIT_DIMENSIONS = 8,    /* of an array: up to three of space, the rest are a batch */
    LIMIT_METHOD_BYTES = 32, /* of a method's name, so that an error can quote it */
};

/* Of an axis of a diffusion: more would keep the server too long, which looks at all of them for
 * the largest stable step, or the worker. */
enum { LIMIT_STABLE_COORDINATES = 2048 };

enum { LIMIT_LISTED = 4096 }; /* fields in one answer of list: some 400 KB */

/* Of a parameter of many numbers, and of all of a job together (struct job's block). */
enum { LIMIT_BLOCK_BYTES = 8 << 20 };

enum {
    LIMIT_PROBES = 1024,   /* points of a job whose value each step is answered */
    LIMIT_PROBED = 1 << 24 /* … and all of these values together */
};

/* Points in an array: sizes in bytes then stay far inside 64 bits (2^50 float64 are 8 PiB). */
#define LIMIT_POINTS (UINT64_C(1) << 50)
