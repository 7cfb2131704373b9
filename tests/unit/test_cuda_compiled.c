/* Slots of compiled kernels on an emulated device: what is offered, what a trial drops, when what
 * was in a slot before is unloaded, and what is tried again where memory was short. */
#include "base/log.h"
#include "gpu/backend.h"
#include "gpu/cuda/compiled.h"
#include "numerics/stencil_plan.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define POINT_FUNCTION static inline
#define POINT_FMA_F32(a, b, c) fmaf(a, b, c)
#define POINT_FMA_F64(a, b, c) fma(a, b, c)
#include "numerics/stencil_points.h"

/* The emulated kernel is its image's first byte of code. */
enum emulated { RIGHT = 1, WRONG_BIT, WRITES_MORE, DOES_NOT_LAUNCH, DOES_NOT_LOAD };

/* What memory may be short for. */
enum shortage { NONE, LIBRARY, FUNCTION, HOST, DEVICE, STREAM, LAUNCH, SHORTAGES };

enum { PAUSES_MOST = 20 };
static const uint64_t SECOND_NS = 1000000000;

static struct {
    int loaded, unloaded, events, recorded, synchronized, blocks;
    enum shortage short_of;
    uint64_t short_until_ns, now_ns; /* nothing but the thread's pauses makes time pass, */
    bool stands;                     /* and these not where it stands */
    uint64_t pauses_s[PAUSES_MOST];
    int pauses;
    int lines[LOG_LEVEL_INFO + 1]; /* of the log */
} device;

static bool lacks(enum shortage what)
{
    return device.short_of == what && device.now_ns < device.short_until_ns;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    now->tv_sec = (time_t)(device.now_ns / SECOND_NS);
    now->tv_nsec = (long)(device.now_ns % SECOND_NS);
    return 0;
}
/* The caller's lock is kept: while time passes, compiled_wait() returns when nothing is put off. */
int __wrap_pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *lock, clockid_t clock,
                                  const struct timespec *end);
int __wrap_pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *lock, clockid_t clock,
                                  const struct timespec *end)
{
    (void)clock;
    if (device.stands)
        return pthread_cond_wait(condition, lock);
    const uint64_t end_ns = (uint64_t)end->tv_sec * SECOND_NS + (uint64_t)end->tv_nsec;
    if (device.pauses == PAUSES_MOST)
        abort();
    device.pauses_s[device.pauses++] = (end_ns - device.now_ns) / SECOND_NS;
    device.now_ns = end_ns;
    return ETIMEDOUT;
}
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    return lacks(HOST) ? NULL : __real_malloc(bytes);
}
void __wrap_log_line(struct log_cause *cause, enum log_level level, const char *format, ...);
void __wrap_log_line(struct log_cause *cause, enum log_level level, const char *format, ...)
{
    (void)cause, (void)format;
    device.lines[level]++;
}
/* The last and largest block is the one that there is no room for. */
cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    if (bytes > 1 << 22 && lacks(DEVICE))
        return cudaErrorMemoryAllocation;
    *memory = malloc(bytes);
    device.blocks++;
    return cudaSuccess;
}
cudaError_t cudaFree(void *memory)
{
    free(memory);
    device.blocks--;
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    *stream = NULL;
    return lacks(STREAM) ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaSetDevice(int index)
{
    assert_int_equal(index, 3);
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)event, (void)flags;
    device.events++;
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    (void)event;
    device.events--;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)event, (void)stream;
    device.recorded++;
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    (void)event;
    assert_int_equal(device.loaded, device.unloaded + 1); /* it waits before it unloads */
    device.synchronized++;
    return cudaSuccess;
}
cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, void *jit,
                                void **jit_values, unsigned jit_count, void *options, void **values,
                                unsigned count)
{
    (void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    const uint8_t kind = *(const uint8_t *)code;
    if (kind == DOES_NOT_LOAD)
        return cudaErrorUnknown;
    if (lacks(LIBRARY))
        return cudaErrorMemoryAllocation;
    *library = calloc(1, 1);
    *(uint8_t *)*library = kind;
    device.loaded++;
    return cudaSuccess;
}
cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
    free(library);
    device.unloaded++;
    return cudaSuccess;
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
    assert_string_equal(name, KERNEL_ASKED);
    *kernel = (cudaKernel_t)(void *)library;
    return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void *kernel, int attribute, int value)
{
    (void)kernel, (void)attribute;
    assert_true(value > 0);
    return lacks(FUNCTION) ? cudaErrorMemoryAllocation : cudaSuccess;
}
/* All points but the last plane. */
cudaError_t compiled_launch(const struct compiled_trial *trial, cudaStream_t stream,
                            int64_t low[AXIS_COUNT], int64_t high[AXIS_COUNT])
{
    (void)stream;
    const uint8_t kind = *(const uint8_t *)trial->kernel;
    const struct plan *plan = trial->plan;
    void *const out = trial->out;
    const struct stencil_source_f32 source = {.table = trial->device_table, .f = trial->in};
    int64_t at[AXIS_COUNT], i = 0;
    for (int a = 0; a < AXIS_COUNT; a++) {
        low[a] = 0;
        high[a] = plan->axis[a].n - (a == AXIS_Z);
    }
    for (at[2] = 0; at[2] < high[2]; at[2]++)
        for (at[1] = 0; at[1] < high[1]; at[1]++)
            for (at[0] = 0; at[0] < high[0]; at[0]++)
                ((float *)out)[i++] = stencil_evaluate_f32(&source, at);
    if (kind == WRONG_BIT)
        ((uint8_t *)out)[4 * (i - 1)] ^= 1;
    if (kind == WRITES_MORE)
        ((float *)out)[i] = 0;
    if (lacks(LAUNCH))
        return cudaErrorMemoryAllocation;
    return kind == DOES_NOT_LAUNCH ? cudaErrorInvalidConfiguration : cudaSuccess;
}

static int setup(void **state)
{
    struct timespec now;
    memset(&device, 0, sizeof device);
    timespec_get(&now, TIME_UTC); /* from which the trial's values are made */
    device.now_ns = (uint64_t)now.tv_nsec;
    assert_true(compiled_open(3, 132));
    return 0;
}

static int teardown(void **state)
{
    compiled_close();
    assert_int_equal(device.loaded, device.unloaded);
    assert_int_equal(device.events, 0);
    assert_int_equal(device.blocks, 0);
    return 0;
}

/* The stencil f(x) + f(x + number), which has no common one's key. */
static struct kernel_key key_of(int number)
{
    static const int32_t offsets[][AXIS_COUNT] = {{0, 0, 0}, {1, 0, 0}, {2, 0, 0}, {3, 0, 0}};
    const int64_t n[AXIS_COUNT] = {512, 512, 512};
    const int32_t used[][AXIS_COUNT] = {{0, 0, 0}, {offsets[number][0], 0, 0}};
    struct kernel_key key;
    assert_true(kernel_key_init(&key, DTYPE_F32, n, false, 2, used));
    return key;
}

static void take(uint32_t slot, int number, enum emulated kind)
{
    const uint64_t bytes = sizeof(struct kernel_image) + 1;
    struct kernel_image *image = calloc(1, bytes);
    image->key = key_of(number);
    image->code[0] = (uint8_t)kind;
    compiled_take(slot, (uint8_t *)image, bytes);
}

static bool is_found(int number)
{
    const struct kernel_key key = key_of(number);
    return compiled_find(&key, KERNEL_LEAST_POINTS + 1) != NULL;
}

TEST(a_right_kernel_is_offered_for_its_key_alone, setup, teardown)
{
    take(0, 1, RIGHT);
    compiled_wait();
    assert_true(is_found(1));
    assert_false(is_found(2));
}

TEST(a_kernel_that_gives_other_values_is_dropped, setup, teardown)
{
    static const enum emulated kinds[] = {WRONG_BIT, WRITES_MORE, DOES_NOT_LAUNCH, DOES_NOT_LOAD};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        take(1, 1, kinds[i]);
        compiled_wait();
        assert_false(is_found(1));
    }
    take(1, 1, RIGHT);
    compiled_wait();
    assert_true(is_found(1));
}

TEST(what_was_in_a_slot_is_not_found_once_another_is_taken, setup, teardown)
{
    take(2, 1, RIGHT);
    compiled_wait();
    assert_int_equal(device.unloaded, 0);
    const struct kernel_key key = key_of(1);
    const void *kernel = compiled_find(&key, KERNEL_LEAST_POINTS + 1);
    static char streams[2];
    for (int i = 0; i < 5; i++) /* on two streams */
        compiled_used(kernel, (cudaStream_t)&streams[i % 2]);
    assert_int_equal(device.recorded, 5);
    take(2, 2, RIGHT);
    assert_false(is_found(1)); /* at once, before the thread has done anything */
    compiled_wait();
    assert_true(is_found(2));
    assert_int_equal(device.unloaded, 1);
    assert_int_equal(device.synchronized, 2);
}

TEST(many_for_one_slot_leave_the_last, setup, teardown)
{
    for (int i = 0; i < 20; i++)
        take(3, 1 + i % 2, RIGHT);
    take(3, 3, RIGHT);
    compiled_wait();
    assert_false(is_found(1));
    assert_false(is_found(2));
    assert_true(is_found(3));
    assert_int_equal(device.loaded - device.unloaded, 1);
}

TEST(an_image_that_is_none_is_dropped, setup, teardown)
{
    compiled_take(4, calloc(1, 16), 16);
    compiled_take(4, calloc(1, sizeof(struct kernel_image)), sizeof(struct kernel_image));
    struct kernel_image *image = calloc(1, sizeof *image + 8);
    image->key = key_of(1);
    image->key.points = 60000;
    compiled_take(4, (uint8_t *)image, sizeof *image + 8);
    compiled_wait();
    assert_int_equal(device.loaded, 0);
}

static void run_short(enum shortage what, uint64_t seconds)
{
    device.short_of = what;
    device.short_until_ns = device.now_ns + seconds * SECOND_NS;
}

TEST(what_there_is_no_memory_for_is_tried_again, setup, teardown)
{
    static const uint64_t pauses_s[] = {1, 2, 4, 8, 16, 32, 60, 60};
    enum { PAUSES = sizeof pauses_s / sizeof pauses_s[0] };
    for (enum shortage what = NONE + 1; what < SHORTAGES; what++) {
        run_short(what, 150);
        take(0, 1, RIGHT);
        compiled_wait();
        assert_true(is_found(1));
        assert_int_equal(device.pauses, PAUSES);
        assert_memory_equal(device.pauses_s, pauses_s, sizeof pauses_s);
        run_short(what, 1);
        take(1, 2, RIGHT);
        compiled_wait();
        assert_true(is_found(2));
        assert_int_equal(device.pauses, PAUSES + 1);
        assert_int_equal(device.pauses_s[PAUSES], 1);      /* from the beginning */
        assert_int_equal(device.lines[LOG_LEVEL_INFO], 2); /* one for each shortage */
        assert_int_equal(device.lines[LOG_LEVEL_WARNING] + device.lines[LOG_LEVEL_ERROR], 0);
        assert_int_equal(teardown(state), 0);
        assert_int_equal(setup(state), 0);
    }
}

TEST(a_wrong_kernel_is_dropped_once_there_is_memory_to_try_it, setup, teardown)
{
    run_short(DEVICE, 5);
    take(0, 1, WRONG_BIT);
    compiled_wait();
    assert_false(is_found(1));
    assert_int_equal(device.pauses, 3);
    assert_int_equal(device.lines[LOG_LEVEL_ERROR], 1);
}

/* During a pause that does not end. */
TEST(others_do_not_wait_for_what_is_put_off, setup, teardown)
{
    device.stands = true;
    run_short(LIBRARY, 1);
    take(0, 1, RIGHT);
    take(1, 2, RIGHT);
    compiled_wait();
    device.short_of = NONE;
    take(2, 3, RIGHT);
    compiled_wait();
    assert_false(is_found(1));
    assert_false(is_found(2));
    assert_true(is_found(3));
}

TEST(what_is_put_off_is_not_tried_again_once_another_is_taken, setup, teardown)
{
    device.stands = true;
    run_short(DEVICE, 1);
    take(0, 1, RIGHT);
    compiled_wait();
    device.short_of = NONE;
    take(0, 2, RIGHT);
    compiled_wait();
    assert_true(is_found(2));
    device.stands = false;
    take(1, 3, RIGHT);
    compiled_wait();
    assert_false(is_found(1));
    assert_true(is_found(2));
    assert_int_equal(device.loaded, 3);
    assert_int_equal(device.pauses, 0);
}

TEST(what_is_put_off_goes_with_the_device, setup, teardown)
{
    device.stands = true;
    run_short(DEVICE, 1);
    take(0, 1, RIGHT);
    compiled_wait();
    assert_int_equal(teardown(state), 0); /* in the middle of the pause */
    assert_int_equal(setup(state), 0);
    take(1, 2, RIGHT);
    compiled_wait();
    assert_true(is_found(2));
    assert_false(is_found(1));
    assert_int_equal(device.loaded, 1);
}
