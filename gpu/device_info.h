/* What a backend says of its device, and a worker to the front: plain data. */
#pragma once

#include <stdint.h>

enum { DEVICE_KERNELS = 64 }; /* slots of compiled kernels */

struct device_info {
    char kind[8];          /* "host" or "cuda" */
    char name[64];         /* as its maker calls it */
    uint64_t free_bytes;   /* when it was opened: what fields may take */
    uint32_t units;        /* multiprocessors, or threads */
    uint32_t count;        /* devices of this kind on the machine */
    uint32_t direct;       /* 1: computes in regions themselves, without a copy */
    uint32_t driver;       /* CUDA driver's version (13000 for 13.0); 0 on the host */
    uint32_t architecture; /* 10 × major + minor compute capability; 0: no kernels are compiled */
    uint32_t arrays_most;  /* that it can hold at once; 0: any number */
    uint32_t own_planes;   /* 1: computes own planes, their edges first (numerics/subdomain.h) */
    uint32_t communicates; /* 1: it has NCCL, for arrays that go to devices of other nodes */
    uint64_t export_bytes; /* exported memory is a multiple of it; 0: there can be none */
    uint8_t uuid[16];      /* of a GPU; else 0 */
};
