#include "bench/floors.h"
#include "bench/runner.h"
#include "gpu/host/pass.h"
#include "base/thread_pool.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ARENA_BYTES = 1 << 20, OWNER = 1, SAMPLES = 9, SAMPLES_LONG = 3 };

static const double SAMPLE_US = 20000; /* short work is repeated until a sample takes this long */
static const double LONG_US = 200000;  /* longer work is sampled less often */

static struct device_info info;
static const struct kernels *kernels;

static void open_host(int index)
{
    struct failure failure = {0};
    void *arena =
        mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const struct kernels *found[PASS_KERNELS];
    pass_kernels(found);
    kernels = found[0];
    if (arena != MAP_FAILED && thread_pool_open(0, &failure) &&
        backend_host()->open(index, arena, ARENA_BYTES, -1, &info, &failure))
        return;
    fprintf(stderr, "the host backend does not open: %s\n", failure.message);
    exit(1);
}

static const char *name(void)
{
    return info.name;
}

static void describe(char *text, size_t size)
{
    snprintf(text, size, "\"driver\": null, \"units\": %" PRIu32 ", \"clocks\": null", info.units);
}

static uint64_t free_bytes(void)
{
    return info.free_bytes;
}

static void *allocate(uint64_t bytes)
{
    void *memory = backend_host()->allocate(bytes, OWNER);
    if (memory)
        return memory;
    fprintf(stderr, "no memory for %" PRIu64 " bytes\n", bytes);
    exit(1);
}

static void release(void *memory, uint64_t bytes)
{
    backend_host()->release(memory, bytes, OWNER);
}

static void poison(void *memory, uint64_t bytes)
{
    memset(memory, 0xa5, bytes);
}

static void copy(void *to, const void *from, uint64_t bytes)
{
    memcpy(to, from, bytes);
}

static const char *classic(int which, const struct job *job)
{
    (void)which;
    (void)job;
    return NULL;
}

/* What the backend's threads do, led by this one. */
static void run(int which, const struct launch *launch)
{
    (void)which;
    pass_launch(kernels, launch, pass_stream_bytes());
}

static double sample_us(const struct launch *launch, int times)
{
    const uint64_t start = floors_now_ns();
    for (int i = 0; i < times; i++)
        run(RUNNER_PRODUCT, launch);
    return (double)(floors_now_ns() - start) / 1000 / times;
}

static struct timing time_host(int which, const struct launch *launch)
{
    double samples[SAMPLES];
    run(which, launch); /* warm */
    const double once_us = sample_us(launch, 1);
    const int times = (int)fmax(1, ceil(SAMPLE_US / once_us));
    const int count = once_us > LONG_US ? SAMPLES_LONG : SAMPLES;
    for (int i = 0; i < count; i++)
        samples[i] = sample_us(launch, times);
    const double us = floors_median(samples, count); /* and sorts them */
    return (struct timing){.us = us, .spread = (samples[count - 1] - samples[0]) / us};
}

static struct timing_kernel kernel(int which, const struct launch *launch)
{
    (void)which;
    (void)launch;
    return (struct timing_kernel){0};
}

static double copy_us(uint64_t bytes)
{
    return floors_host_copy_us(bytes);
}

const struct runner runner_host = {.kind = "host",
                                   .open = open_host,
                                   .name = name,
                                   .describe = describe,
                                   .free_bytes = free_bytes,
                                   .allocate = allocate,
                                   .release = release,
                                   .poison = poison,
                                   .put = copy,
                                   .get = copy,
                                   .classic = classic,
                                   .run = run,
                                   .time = time_host,
                                   .kernel = kernel,
                                   .copy_us = copy_us};
