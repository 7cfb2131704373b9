/* A block of threads as fibers: each runs until a barrier, then the next. */
#include "cuda_pipeline.h"
#include "cuda_runtime_api.h"
#include "gpu/cuda/barrier.cuh"
#include "gpu/cuda/bulk.cuh"

#include <algorithm>
#include <cstdio>
#include <ucontext.h>
#include <vector>

enum { STACK_BYTES = 128 << 10, THREADS_MOST = 1024, SHARED_BYTES = 227 << 10, WARP = 32 };
enum { BARRIERS = 16 };

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

/* A box in flight: it arrives when a thread waits for it. */
struct box {
    struct arrivals *arrivals;
    void *to;
    std::vector<unsigned char> bytes;
};

enum state : unsigned char { RUNNING, AT_BLOCK_BARRIER, AT_WARP_BARRIER, WAITS, ENDED };

struct fiber {
    void *here[5]; /* where it goes on; for the builtins, which no sanitizer minds */
    bool started;
    dim3 index;
    unsigned char given[16];
    std::vector<copy> copies;
    size_t commits;
};

static struct {
    fiber fibers[THREADS_MOST];
    enum state states[THREADS_MOST]; /* apart, for they are looked at often */
    std::vector<box> boxes;
    struct {
        int count;
        unsigned phase;
    } barriers[BARRIERS]; /* of some warps */
    bool arrived;         /* somebody, or something, since WAITS was looked at */
    unsigned char *stacks;
    unsigned current, count;
    void *scheduler[5];
    void (*thread)(void *);
    void *argument;
} block;

static uint64_t launches; /* so far */

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
    block.states[block.current] = state;
    if (__builtin_setjmp(block.fibers[block.current].here) == 0)
        jump(block.scheduler);
}

/* Fibers are reused: at their end they wait for the next block. */
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
    if (from >= block.count || block.states[from] == ENDED)
        die("shuffle from a lane that is not there");
    return block.fibers[from].given;
}

void __pipeline_memcpy_async(void *shared, const void *global, size_t bytes, size_t zfill)
{
    if ((bytes != 4 && bytes != 8 && bytes != 16) ||
        ((uintptr_t)shared | (uintptr_t)global) & (bytes - 1) || zfill > bytes)
        die("asynchronous copy of a wrong size or alignment");
    fiber *own = &block.fibers[block.current];
    if ((launches + blockIdx.x) % 2) { /* at once */
        memset(shared, 0, bytes);
        memcpy(shared, global, bytes - zfill);
        return;
    }
    copy &one = own->copies.emplace_back(); /* its bytes 0 */
    one.to = shared;
    one.count = bytes;
    one.commit = own->commits;
    memcpy(one.bytes, global, bytes - zfill);
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

void barrier_wait(int barrier, int count)
{
    if (barrier < 1 || barrier >= BARRIERS || count % WARP)
        die("a barrier that is not there, or of parts of a warp");
    const unsigned phase = block.barriers[barrier].phase;
    if (++block.barriers[barrier].count == count) {
        block.barriers[barrier].count = 0;
        block.barriers[barrier].phase++;
        block.arrived = true;
    }
    while (block.barriers[barrier].phase == phase)
        leave(WAITS);
}

/* The word of an `arrivals`: the arrivals of a phase, those still missing, the expected bytes that
 * have not arrived, the phase. */
struct phase {
    uint64_t count : 12, pending : 12, number : 8, bytes : 32;
};
static_assert(sizeof(struct phase) == sizeof(struct arrivals), "");

static struct phase *phase_of(struct arrivals *arrivals)
{
    if (!in_shared_memory(arrivals) || (uintptr_t)arrivals % sizeof *arrivals)
        die("a barrier outside of shared memory");
    return (struct phase *)arrivals;
}

static void end_phase(struct phase *phase)
{
    block.arrived = true;
    if (phase->pending == 0 && phase->bytes == 0) {
        phase->pending = phase->count;
        phase->number++;
    }
}

void arrivals_begin(struct arrivals *arrivals, int count)
{
    struct phase *phase = phase_of(arrivals);
    memset(phase, 0, sizeof *phase);
    phase->count = phase->pending = (unsigned)count;
}

void arrivals_expect(struct arrivals *arrivals, unsigned bytes)
{
    struct phase *phase = phase_of(arrivals);
    if (phase->pending == 0)
        die("more arrivals than a phase takes");
    phase->bytes += bytes;
    phase->pending--;
    end_phase(phase);
}

void arrivals_arrive(struct arrivals *arrivals)
{
    arrivals_expect(arrivals, 0);
}

bool bulk_map_init(struct bulk_map *map, const void *array, size_t element, const int64_t n[3],
                   const int box[2])
{
    const size_t row = (size_t)box[0] * element;
    if (row % 16 || (uintptr_t)array % 16 || n[0] * element % 16 || box[0] > 256 || box[1] > 256)
        return false;
    *map = {(const unsigned char *)array, element, {n[0], n[1], n[2]}, {box[0], box[1]}};
    return true;
}

void bulk_box(void *shared, const struct bulk_map *map, int x, int y, int plane,
              struct arrivals *arrivals)
{
    const size_t pitch = (size_t)map->n[0] * map->element, row = (size_t)map->box[0] * map->element;
    std::vector<unsigned char> bytes(row * (size_t)map->box[1]);
    if (!in_shared_memory(shared) || (uintptr_t)shared % 128)
        die("box of a wrong place or alignment");
    for (int j = 0; j < map->box[1]; j++)
        for (int i = 0; i < map->box[0]; i++)
            if (x + i >= 0 && x + i < map->n[0] && y + j >= 0 && y + j < map->n[1] && plane >= 0 &&
                plane < map->n[2])
                memcpy(&bytes[(size_t)j * row + (size_t)i * map->element],
                       map->array + (size_t)(plane * map->n[1] + y + j) * pitch +
                           (size_t)(x + i) * map->element,
                       map->element);
    block.boxes.push_back({arrivals, shared, bytes});
}

void arrivals_wait(struct arrivals *arrivals, unsigned parity)
{
    struct phase *phase = phase_of(arrivals);
    while ((phase->number & 1) == (parity & 1)) {
        for (size_t i = 0; i < block.boxes.size();) {
            box *one = &block.boxes[i];
            if (one->arrivals != arrivals || one->bytes.size() > phase->bytes) {
                i++;
                continue;
            }
            memcpy(one->to, one->bytes.data(), one->bytes.size());
            phase->bytes -= (uint32_t)one->bytes.size();
            block.boxes.erase(block.boxes.begin() + (ptrdiff_t)i);
            end_phase(phase);
        }
        if ((phase->number & 1) == (parity & 1))
            leave(WAITS);
    }
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
    block.states[i] = RUNNING;
    if (__builtin_setjmp(block.scheduler) == 0) {
        if (!block.fibers[i].started)
            start(i);
        jump(block.fibers[i].here);
    }
}

/* Whether all of [from, to) have reached that barrier or ended. */
static bool all_at(unsigned from, unsigned to, enum state state)
{
    bool any = false;
    for (unsigned i = from; i < to; i++) {
        if (block.states[i] == state)
            any = true;
        else if (block.states[i] != ENDED)
            return false;
    }
    return any;
}

static void run_block()
{
    bool runs[THREADS_MOST];
    std::fill_n(runs, block.count, true);
    for (bool any = true; any;) {
        any = false;
        for (unsigned i = 0; i < block.count; i++) {
            if (!runs[i])
                continue;
            run_fiber(i);
            runs[i] = false;
        }
        if (block.arrived)
            for (unsigned i = 0; i < block.count; i++)
                any |= runs[i] = block.states[i] == WAITS;
        block.arrived = false;
        for (unsigned warp = 0; warp < block.count; warp += WARP) {
            const unsigned end = min(warp + WARP, block.count);
            if (all_at(warp, end, AT_WARP_BARRIER))
                for (unsigned i = warp; i < end; i++)
                    any |= runs[i] = block.states[i] == AT_WARP_BARRIER;
        }
        if (!any && all_at(0, block.count, AT_BLOCK_BARRIER))
            for (unsigned i = 0; i < block.count; i++)
                any |= runs[i] = block.states[i] == AT_BLOCK_BARRIER;
    }
    for (unsigned i = 0; i < block.count; i++)
        if (block.states[i] != ENDED)
            die("threads of a block wait at different barriers");
    if (!block.boxes.empty())
        die("a block ended before its copies came");
    for (int i = 0; i < BARRIERS; i++)
        if (block.barriers[i].count != 0)
            die("a block ended while a barrier still waited for threads");
}

/* Launches alternate between three orders of blocks (first to last, last to first, and alternating
 * halves), so that a block that writes another block's points is detected whichever runs last. */
static uint64_t in_order(uint64_t i, uint64_t blocks)
{
    switch (launches % 3) {
    case 0:
        return i;
    case 1:
        return blocks - 1 - i;
    default:
        return i % 2 ? (blocks + 1) / 2 + i / 2 : i / 2;
    }
}

int cuda_on_host_shared_bytes(void)
{
    static const char *const text = getenv("CUDA_ON_HOST_SHARED");
    static const int bytes = text ? atoi(text) : SHARED_BYTES;
    return bytes < SHARED_BYTES ? bytes : SHARED_BYTES;
}

cudaError_t run_blocks(dim3 grid, dim3 size, size_t shared_bytes, void (*thread)(void *),
                       void *argument)
{
    const uint64_t threads = (uint64_t)size.x * size.y * size.z;
    if (shared_bytes > (size_t)cuda_on_host_shared_bytes())
        return cudaErrorInvalidValue;
    if (threads == 0 || threads > THREADS_MOST || size.z > 64 || grid.x == 0 ||
        grid.x > INT32_MAX || grid.y == 0 || grid.y > 65535 || grid.z == 0 || grid.z > 65535)
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
    for (uint64_t i = 0; i < blocks; i++) {
        const uint64_t b = in_order(i, blocks);
        blockIdx = dim3((unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y),
                        (unsigned)(b / grid.x / grid.y));
        memset(shared_memory, 0xff, shared_bytes); /* NaN */
        for (unsigned t = 0; t < block.count; t++) {
            fiber *fiber = &block.fibers[t];
            fiber->index = dim3(t % size.x, t / size.x % size.y, t / size.x / size.y);
            fiber->copies.clear();
            fiber->commits = 0;
        }
        run_block();
    }
    launches++;
    return cudaSuccess;
}

extern "C" uint64_t cuda_on_host_launches(void)
{
    return launches;
}
