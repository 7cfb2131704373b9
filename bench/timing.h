/* A measured time, and the kernel that it is of. */
#pragma once

/* From the CUDA runtime; all zero on the host. */
struct timing_kernel {
    char name[80];
    int launches; /* of kernels, this one and others, each time */
    int blocks, threads, registers, shared_bytes;
    double occupancy; /* predicted: resident threads over those a multiprocessor can hold */
};

struct timing {
    double us;                   /* each time: the median of the samples */
    double spread;               /* (slowest − fastest) / median */
    struct timing_kernel kernel; /* the one with the most threads */
};
