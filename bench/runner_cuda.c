/* The product's kernels without the backend (gpu/cuda/passes.h), and the classical kernels, on one
 * stream. */
#include "bench/classics.h"
#include "bench/floors.h"
#include "bench/runner.h"
#include "bench/timed.h"
#include "gpu/cuda/compiled.h"
#include "gpu/cuda/passes.h"
#include "gpu/cuda/room.h"
#include "tests/lib/compile_stencil.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUSY_BYTES = 256 << 20, BUSY_COPIES = 64, WARM_ROUNDS = 100, SLOT = 0 };

static struct {
    char name[64], bus[32];
    int units, driver;
    uint32_t architecture;
    cudaStream_t stream;
    struct passes_constants *constants; /* pinned */
    void *rows;                         /* the table of the plan, where it has one */
} cuda;

#define MUST(call) timed_must(call, #call)

/* A few milliseconds of copies within twice BUSY_BYTES at `memory`. */
static void keep_busy(char *memory)
{
    for (int i = 0; i < BUSY_COPIES; i++)
        MUST(cudaMemcpyAsync(memory + BUSY_BYTES, memory, BUSY_BYTES, cudaMemcpyDeviceToDevice,
                             cuda.stream));
    MUST(cudaStreamSynchronize(cuda.stream));
}

static void *busy_memory(void)
{
    void *memory;
    MUST(cudaMalloc(&memory, 2 * (size_t)BUSY_BYTES));
    return memory;
}

/* About a second of work, to raise the clocks. */
static void warm_up(void)
{
    void *memory = busy_memory();
    for (int i = 0; i < WARM_ROUNDS; i++)
        keep_busy(memory);
    MUST(cudaFree(memory));
}

/* nvidia-smi's description of the device during copies, because clocks drop when it is idle. Empty
 * without nvidia-smi. */
static void ask_while_busy(const char *query, char *answer, size_t size)
{
    char command[256];
    snprintf(command, sizeof command,
             "nvidia-smi -i %s --query-gpu=%s --format=csv,noheader,nounits 2>/dev/null", cuda.bus,
             query);
    void *memory = busy_memory();
    FILE *pipe = popen(command, "r");
    struct pollfd ready = {.fd = pipe ? fileno(pipe) : -1, .events = POLLIN};
    while (pipe && poll(&ready, 1, 0) == 0)
        keep_busy(memory);
    if (!pipe || !fgets(answer, (int)size, pipe))
        answer[0] = 0;
    answer[strcspn(answer, "\n")] = 0;
    if (pipe)
        pclose(pipe);
    MUST(cudaFree(memory));
}

static void open_cuda(int index)
{
    struct cudaDeviceProp properties;
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    MUST(cudaSetDevice(index));
    MUST(cudaGetDeviceProperties(&properties, index));
    MUST(cudaDriverGetVersion(&cuda.driver));
    MUST(cudaDeviceGetPCIBusId(cuda.bus, sizeof cuda.bus, index));
    MUST(cudaStreamCreateWithFlags(&cuda.stream, cudaStreamNonBlocking));
    MUST(cudaHostAlloc((void **)&cuda.constants, sizeof *cuda.constants, cudaHostAllocDefault));
    snprintf(cuda.name, sizeof cuda.name, "%.*s", (int)sizeof cuda.name - 1, properties.name);
    cuda.units = properties.multiProcessorCount;
    cuda.architecture = (uint32_t)(10 * properties.major + properties.minor);
    MUST(room_open(properties.totalGlobalMem));
    if (!compiled_open(index, cuda.units))
        fprintf(stderr, "no thread to load compiled kernels\n");
    warm_up();
}

static const char *name(void)
{
    return cuda.name;
}

/* "580.159.04": the version of the kernel module. */
static void read_driver(char *driver, size_t size)
{
    FILE *file = fopen("/proc/driver/nvidia/version", "r");
    char line[256] = "";
    if (file) {
        if (!fgets(line, sizeof line, file))
            line[0] = 0;
        fclose(file);
    }
    driver[0] = 0;
    for (char *word = strtok(line, " "); word && !driver[0]; word = strtok(NULL, " "))
        if (word[0] >= '0' && word[0] <= '9' && strchr(word, '.'))
            snprintf(driver, size, "%s", word);
}

static void describe(char *text, size_t size)
{
    char answer[128], driver[32];
    int sm = 0, memory = 0, sm_most = 0, memory_most = 0;
    read_driver(driver, sizeof driver);
    ask_while_busy("clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem", answer, sizeof answer);
    sscanf(answer, "%d, %d, %d, %d", &sm, &memory, &sm_most, &memory_most);
    snprintf(text, size,
             "\"driver\": \"%s\", \"cuda\": \"%d.%d\", \"units\": %d, \"clocks\": {\"sm_mhz\": %d, "
             "\"memory_mhz\": %d, \"sm_most_mhz\": %d, \"memory_most_mhz\": %d}",
             driver, cuda.driver / 1000, cuda.driver % 1000 / 10, cuda.units, sm, memory, sm_most,
             memory_most);
}

static uint64_t free_bytes(void)
{
    size_t free_bytes, total_bytes;
    MUST(cudaMemGetInfo(&free_bytes, &total_bytes));
    return free_bytes;
}

static void *allocate(uint64_t bytes)
{
    void *memory;
    MUST(cudaMalloc(&memory, bytes));
    return memory;
}

static void release(void *memory, uint64_t bytes)
{
    (void)bytes;
    MUST(cudaFree(memory));
}

static void poison(void *memory, uint64_t bytes)
{
    MUST(cudaMemset(memory, 0xa5, bytes));
    MUST(cudaDeviceSynchronize());
}

static void copy(void *to, const void *from, uint64_t bytes)
{
    MUST(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
}

static const char *classic(int which, const struct job *job)
{
    if (which >= classics_count)
        return NULL;
    return classics[which].takes(job) ? classics[which].name : "";
}

struct work {
    int which;
    const struct launch *launch;
};

static cudaError_t enqueue(const void *what, cudaStream_t stream)
{
    const struct work *work = what;
    if (work->which == RUNNER_PRODUCT)
        return passes_launch(&work->launch, 1, SLOT, cuda.units, stream);
    return classics[work->which].enqueue(work->launch, stream);
}

static void load(const struct work *work)
{
    if (work->which == RUNNER_PRODUCT) {
        const struct plan *plan = work->launch->plan;
        MUST(cudaFree(cuda.rows));
        cuda.rows = NULL;
        if (plan->table) {
            MUST(cudaMalloc(&cuda.rows, plan->table->bytes));
            MUST(cudaMemcpy(cuda.rows, plan_table_rows(plan->table), plan->table->bytes,
                            cudaMemcpyHostToDevice));
        }
        char why[200];
        if (compile_stencil(plan, cuda.architecture, why, sizeof why) == COMPILE_FAILED)
            fprintf(stderr, "a stencil goes without a kernel of its own: %s\n", why);
        passes_constants_init(cuda.constants, plan, cuda.rows);
        MUST(passes_load(SLOT, cuda.constants, cuda.stream));
        MUST(cudaStreamSynchronize(cuda.stream));
    } else {
        MUST(classics_load(work->launch->plan));
    }
}

static void run(int which, const struct launch *launch)
{
    const struct work work = {which, launch};
    load(&work);
    MUST(enqueue(&work, cuda.stream));
    MUST(cudaStreamSynchronize(cuda.stream));
}

static struct timing time_cuda(int which, const struct launch *launch)
{
    const struct work work = {which, launch};
    load(&work);
    return timed(TIMED_GRAPH, enqueue, &work);
}

static struct timing_kernel kernel(int which, const struct launch *launch)
{
    const struct work work = {which, launch};
    return timed_kernel(enqueue, &work);
}

static double copy_us(uint64_t bytes)
{
    return floors_device_copy_us(bytes);
}

const struct runner runner_cuda = {.kind = "cuda",
                                   .open = open_cuda,
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
                                   .time = time_cuda,
                                   .kernel = kernel,
                                   .copy_us = copy_us};
