/* A block of threads as fibers: each runs until a barrier, then the next. */
#include "cuda_pipeline.h"
#include "cuda_runtime_api.h"

#include <cstdio>
#include <ucontext.h>
#include <vector>

enum { STACK_BYTES = 128 << 10, THREADS_MOST = 1024, SHARED_BYTES = 227 << 10, WARP = 32 };

dim3 blockIdx, threadIdx, blockDim, gridDim;
__thread __attribute__((aligned(128))) unsigned char shared_memory[SHARED_BYTES];

bool in_shared_memory(const void *p)
{
    return (uintptr_t)p - (uintptr_t)shared_memory < sizeof shared_memory;
}

struct copy {
    void *to;
    unsigned char bytes[16];
    size_t count, commit;
};

enum state { RUNNING, AT_BLOCK_BARRIER, AT_WARP_BARRIER, ENDED };

struct fiber {
    void *here[5]; /* where it goes on; for the builtins, which no sanitizer minds */
    bool started;
    enum state state;
    dim3 index;
    unsigned char given[16];
    std::vector<copy> copies;
    size_t commits;
};

static struct {
    fiber fibers[THREADS_MOST];
    unsigned char *stacks;
    unsigned current, count;
    void *scheduler[5];
    void (*thread)(void *);
    void *argument;
} block;

static void die(const char *why)
{
    fprintf(stderr, "block (%u): %s\n", blockIdx.x, why);
    abort();
}

static __attribute__((noinline)) void jump(void **to)
{
    __builtin_longjmp(to, 1);
}

static __attribute__((noinline)) void leave(enum state state)
{
    block.fibers[block.current].state = state;
    if (__builtin_setjmp(block.fibers[block.current].here) == 0)
        jump(block.scheduler);
}

/* Fibers live on: ended, they wait for the next block. */
static void live()
{
    for (;;) {
        block.thread(block.argument);
        leave(ENDED);
    }
}

void __syncthreads()
{
    leave(AT_BLOCK_BARRIER);
}

void __syncwarp(unsigned)
{
    leave(AT_WARP_BARRIER);
}

const void *warp_exchange(const void *own, size_t bytes, int lane)
{
    if (bytes > sizeof block.fibers[0].given)
        die("shuffle of more than 16 bytes");
    memcpy(block.fibers[block.current].given, own, bytes);
    __syncwarp();
    const unsigned from = block.current / WARP * WARP + (unsigned)lane;
    if (from >= block.count || block.fibers[from].state == ENDED)
        die("shuffle from a lane that is not there");
    return block.fibers[from].given;
}

void __pipeline_memcpy_async(void *shared, const void *global, size_t bytes, size_t zfill)
{
    if ((bytes != 4 && bytes != 8 && bytes != 16) || (uintptr_t)shared % bytes ||
        (uintptr_t)global % bytes || zfill > bytes)
        die("asynchronous copy of a wrong size or alignment");
    fiber *own = &block.fibers[block.current];
    copy one = {shared, {0}, bytes, own->commits};
    memcpy(one.bytes, global, bytes - zfill);
    own->copies.push_back(one);
}

void __pipeline_commit()
{
    block.fibers[block.current].commits++;
}

void __pipeline_wait_prior(size_t prior)
{
    fiber *own = &block.fibers[block.current];
    size_t landed = 0;
    for (; landed < own->copies.size(); landed++) {
        const copy *one = &own->copies[landed];
        if (one->commit + prior >= own->commits)
            break;
        memcpy(one->to, one->bytes, one->count);
    }
    own->copies.erase(own->copies.begin(), own->copies.begin() + (ptrdiff_t)landed);
}

static __attribute__((noinline)) void start(unsigned i)
{
    static ucontext_t context;
    block.fibers[i].started = true;
    getcontext(&context);
    context.uc_stack.ss_sp = block.stacks + (size_t)i * STACK_BYTES;
    context.uc_stack.ss_size = STACK_BYTES;
    context.uc_link = nullptr;
    makecontext(&context, live, 0);
    setcontext(&context);
}

static __attribute__((noinline)) void run_fiber(unsigned i)
{
    block.current = i;
    threadIdx = block.fibers[i].index;
    block.fibers[i].state = RUNNING;
    if (__builtin_setjmp(block.scheduler) == 0) {
        if (!block.fibers[i].started)
            start(i);
        jump(block.fibers[i].here);
    }
}

/* Are all of [from, to) at that barrier, or ended? */
static bool all_at(unsigned from, unsigned to, enum state state)
{
    bool any = false;
    for (unsigned i = from; i < to; i++) {
        if (block.fibers[i].state == state)
            any = true;
        else if (block.fibers[i].state != ENDED)
            return false;
    }
    return any;
}

static void run_block()
{
    std::vector<bool> runs(block.count, true);
    for (bool any = true; any;) {
        any = false;
        for (unsigned i = 0; i < block.count; i++) {
            if (!runs[i])
                continue;
            run_fiber(i);
            runs[i] = false;
        }
        for (unsigned warp = 0; warp < block.count; warp += WARP) {
            const unsigned end = min(warp + WARP, block.count);
            if (all_at(warp, end, AT_WARP_BARRIER))
                for (unsigned i = warp; i < end; i++)
                    any |= runs[i] = block.fibers[i].state == AT_WARP_BARRIER;
        }
        if (!any && all_at(0, block.count, AT_BLOCK_BARRIER))
            for (unsigned i = 0; i < block.count; i++)
                any |= runs[i] = block.fibers[i].state == AT_BLOCK_BARRIER;
    }
    for (unsigned i = 0; i < block.count; i++)
        if (block.fibers[i].state != ENDED)
            die("threads of a block wait at different barriers");
}

cudaError_t run_blocks(dim3 grid, dim3 size, size_t shared_bytes, void (*thread)(void *),
                       void *argument)
{
    const uint64_t threads = (uint64_t)size.x * size.y * size.z;
    if (threads == 0 || threads > THREADS_MOST || size.z > 64 || shared_bytes > SHARED_BYTES ||
        grid.x == 0 || grid.x > INT32_MAX || grid.y == 0 || grid.y > 65535 || grid.z == 0 ||
        grid.z > 65535)
        return cudaErrorInvalidConfiguration;
    if (!block.stacks)
        block.stacks = (unsigned char *)malloc((size_t)THREADS_MOST * STACK_BYTES);
    if (!block.stacks)
        abort();
    blockDim = size;
    gridDim = grid;
    block.count = (unsigned)threads;
    block.thread = thread;
    block.argument = argument;
    const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    for (uint64_t b = 0; b < blocks; b++) {
        blockIdx = dim3((unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y),
                        (unsigned)(b / grid.x / grid.y));
        memset(shared_memory, 0xff, shared_bytes); /* NaN */
        for (unsigned i = 0; i < block.count; i++) {
            fiber *fiber = &block.fibers[i];
            fiber->index = dim3(i % size.x, i / size.x % size.y, i / size.x / size.y);
            fiber->copies.clear();
            fiber->commits = 0;
        }
        run_block();
    }
    return cudaSuccess;
}
