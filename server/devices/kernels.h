/* Kernels that are compiled for the stencils of jobs, while the general evaluation gives the same
 * bits more slowly:
 *
 *   a RUN that would use one ─► admitted ─► file, or compiler ─► kept ─► KERNEL to the workers
 *
 * Each user's use of the compiler is bounded: one kernel at a time, at most KERNELS_AT_ONCE in a
 * burst and else one every KERNELS_EVERY_NS. KERNELS_OF_USER are kept, charged to the user who
 * asked first. All users share the kept kernels; the longest unused is dropped first. A kernel that
 * is not admitted is asked for again by the next RUN.
 *
 * All on the loop's thread, but for files, which libuv's threads read and write. */
#pragma once

#include "gpu/worker/channel.h"
#include "server/devices/compiler.h"
#include "server/users/user.h"

struct device;
struct devices;
struct kernel;

enum { KERNELS_OF_USER = DEVICE_KERNELS / 4, KERNELS_AT_ONCE = 16 };
#define KERNELS_EVERY_NS UINT64_C(2000000000)
#define KERNELS_TRIAL_NS UINT64_C(5000000000)

struct kernels {
    struct devices *devices;
    struct compiler compiler;
    const char *folder;                   /* --kernel-cache; NULL: none, or none that can be used */
    struct kernel *slots[DEVICE_KERNELS]; /* as in the workers; NULL: free */
    uint64_t clock;                       /* uses so far, and kernels so far: */
    uint64_t last;
};

/* What a worker has in its slots: 0 or numbers of kernels. */
struct kernels_sent {
    uint64_t number[DEVICE_KERNELS];
    uint64_t at_ns[DEVICE_KERNELS]; /* when */
};

void kernels_open(struct kernels *kernels, struct devices *devices);
/* Once the loop has ended. */
void kernels_free(struct kernels *kernels);

/* Call before the user's job is sent to the device's worker: sends the job's kernel, or begins to
 * obtain it. block: the job's. */
void kernels_use(struct device *device, struct user *user, const struct job *job,
                 const uint8_t *block);

/* The device's worker has ended. A kernel that it got less than KERNELS_TRIAL_NS before may be the
 * reason: its file is removed, and after the second time its stencil gets no kernel. */
void kernels_worker_lost(struct device *device);

/* How many the worker was sent. */
uint32_t kernels_count(const struct device *device);
