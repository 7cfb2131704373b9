/* The host backend against the contract, for any number of threads and for arrays that are tiled
 * for the cache. The backend keeps its order, isolates its owners' memory, and answers every token
 * once. */
#include "gpu/backend.h"
#include "gpu/host/memory.h"
#include "gpu/host/pass.h"
#include "base/thread_pool.h"
#include "base/wake.h"
#include "numerics/job_check.h"
#include "tests/lib/job_of.h"
#include "tests/lib/sample.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <poll.h>
#include <semaphore.h>
#include <unistd.h>
#include <string.h>
#include <sys/eventfd.h>

enum { MOST_POINTS = 12000, POISON = 0xa5, OWNER = 7 };

/* The bits of a job do not depend on the number of threads, even if it exceeds the cores. */
static void check_threads(struct random *random, const struct job *job)
{
    static const int threads[] = {1, 2, 3, 8};
    const struct sample sample = {.job = *job};
    const struct kernels *kernels[PASS_KERNELS];
    struct trial trial;
    pass_kernels(kernels);
    trial_make(&trial, random, &sample);
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        struct failure failure;
        assert_true(thread_pool_open(threads[t], &failure));
        trial_poison(&trial);
        trial.launch.to = trial.plan.lines * trial.plan.passes;
        pass_launch(kernels[0], &trial.launch, 0);
        if (!trial_is_right(&trial, kernels[0]->name))
            fail();
        thread_pool_close();
    }
    trial_free(&trial);
}

/* Every line and every tile of an array that is cut along x, y and z. */
TEST(test_large)
{
    struct random random = random_start();
    static const uint64_t shapes[][AXIS_COUNT] = {{300007, 1, 1}, {70001, 9, 1}, {6007, 53, 1},
                                                  {1031, 17, 19}, {131, 67, 41}, {67, 131, 37}};
    static const enum operator_id operators[] = {OPERATOR_DIFFUSION, OPERATOR_GRADIENT,
                                                 OPERATOR_DIVERGENCE, OPERATOR_CURL};
    for (size_t s = 0; s < 4 * (sizeof shapes / sizeof *shapes); s++) {
        const uint64_t *n = shapes[s / 4];
        struct job job = job_of(operators[s % 4], DTYPE_F32, n[0], n[1], n[2], 8);
        for (int a = 0; a < job.axes; a++) {
            if (job.operator_id != OPERATOR_DIFFUSION) {
                job_set_sides(&job, a,
                              (struct boundary){.kind = a == AXIS_X && s % 3 ? BOUNDARY_ONE_SIDED
                                                                             : BOUNDARY_PERIODIC});
                continue;
            }
            job.steps = 2;
            job.dt = 0.05;
            job.diffusivity[a] = 1;
            job.boundary[a][SIDE_LOW].kind = BOUNDARY_DERIVATIVE;
            job.boundary[a][SIDE_HIGH].kind = job.n[a] >= 10 ? BOUNDARY_VALUE : BOUNDARY_HALO;
        }
        if (!job_is_valid(&job))
            continue; /* the curl of a line */
        check_threads(&random, &job);
    }
}

/* The size of the second cache that the backend assumes here, which determines the tiles. */
static long second_cache = 2 << 20; /* at first: what is kept for tiles does not grow */
long __real_sysconf(int name);
long __wrap_sysconf(int name);
long __wrap_sysconf(int name)
{
    return name == _SC_LEVEL2_CACHE_SIZE ? second_cache : __real_sysconf(name);
}

/* Several steps at once in the cache, where arrays are cut along y and z: past edges of all kinds,
 * and to any number of steps. */
TEST(test_levels)
{
    struct random random = random_start();
    static const enum boundary_kind kinds[] = {BOUNDARY_PERIODIC, BOUNDARY_VALUE,
                                               BOUNDARY_DERIVATIVE, BOUNDARY_HALO};
    for (int k = 0; k < 16; k++) {
        struct failure failure;
        second_cache = k < 8 ? 2 << 20 : 512 << 10;
        struct job job =
            diffusion_of(k % 3 == 2 ? DTYPE_F64 : DTYPE_F32, k % 2 ? 251 : 401, k % 2 ? 150 : 307,
                         k % 2 ? 23 : 1, k % 8 < 4 ? 2 : 4, 3 + random_below(&random, 6));
        job.dt = 0.02;
        for (int a = 0; a < job.axes; a++)
            job_set_sides(&job, a, (struct boundary){.kind = kinds[(k + a) % 4]});
        if (!job_check(&job, INFINITY, &failure))
            fail_msg("%s", failure.message);
        check_threads(&random, &job);
    }
}

static int wake_descriptor;

static struct token token(uint64_t number)
{
    return (struct token){.number = number};
}

/* Wait for one completion. */
static struct completion next_completion(const struct backend *backend)
{
    struct completion completion;
    struct pollfd wake = {.fd = wake_descriptor, .events = POLLIN};
    while (!backend->reap(&completion)) {
        assert_true(poll(&wake, 1, 60000) == 1);
        wake_take(wake_descriptor);
    }
    return completion;
}

static const struct backend *opened(int threads, struct device_info *info)
{
    static char arena[4096];
    struct failure failure = {.code = STATUS_OK};
    const struct backend *backend = backend_host();
    wake_descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!thread_pool_open(threads, &failure) ||
        !backend->open(0, arena, sizeof arena, wake_descriptor, info, &failure))
        fail_msg("%s", failure.message);
    return backend;
}

static void closed(const struct backend *backend)
{
    backend->close();
    thread_pool_close();
    close(wake_descriptor);
}

static void *allocated(const struct backend *backend, uint64_t bytes)
{
    void *memory = backend->allocate(bytes, OWNER);
    assert_non_null(memory);
    return memory;
}

TEST(test_open)
{
    struct device_info info;
    struct failure failure = {.code = STATUS_OK};
    const struct backend *backend = backend_host();
    assert_false(backend->open(1, NULL, 0, -1, &info, &failure));
    assert_int_equal(failure.code, STATUS_INTERNAL);
    for (int twice = 0; twice < 2; twice++) {
        assert_ptr_equal(opened(3, &info), backend);
        assert_string_equal(info.kind, "host");
        assert_true(strlen(info.name) > 0);
        assert_int_equal(info.units, 3);
        assert_true(info.free_bytes > 0);
        struct completion completion;
        assert_false(backend->reap(&completion));
        closed(backend);
    }
}

/* Launches of a chain run in their order, one after another; a copy comes after its launch; every
 * token comes back once. */
TEST(test_launches)
{
    struct random random = random_start();
    struct device_info info;
    const struct backend *backend = opened(3, &info);
    for (int k = 0; k < 100; k++) {
        struct sample sample;
        struct trial trial;
        sample_make(&random, FAMILY_PLAIN, MOST_POINTS, &sample);
        trial_make(&trial, &random, &sample);
        const struct plan *plan = &trial.plan;
        const uint64_t bytes = job_bytes(&sample.job);
        struct launch launch = trial.launch;
        launch.odd = allocated(backend, bytes);
        for (int i = 0; i < plan->inputs; i++) {
            void *const in = allocated(backend, bytes);
            backend->upload(in, trial.in[i], bytes, token(1000));
            assert_int_equal(next_completion(backend).token.number, 1000);
            launch.in[i] = in;
        }
        for (int i = 0; i < plan->outputs; i++)
            launch.even[i] = allocated(backend, bytes);
        launch.chain = (uint64_t)k + 1;
        const uint64_t lines = plan->lines * plan->passes, piece = 1 + random_below(&random, lines);
        const void *name = NULL;
        uint64_t sent = 0;
        for (uint64_t line = 0; line < lines; line = launch.to, sent++) {
            launch.from = line;
            launch.to = line + piece < lines ? line + piece : lines;
            const void *const before = name;
            name = backend->launch(&launch, token(sent));
            assert_non_null(name);
            assert_ptr_not_equal(name, before); /* both are under way: none has been reaped */
        }
        backend->download(trial.scratch[0], launch.odd, bytes, name, token(2000));
        for (int i = 0; i < plan->outputs; i++)
            backend->download(trial.out[i], launch.even[i], bytes, name, token(2001));
        for (uint64_t number = 0; number < sent; number++)
            assert_int_equal(next_completion(backend).token.number, number);
        uint64_t sum = 0;
        for (int i = 0; i < 1 + plan->outputs; i++)
            sum += next_completion(backend).token.number;
        assert_int_equal(sum, 2000 + 2001 * plan->outputs);
        if (!trial_is_right(&trial, "backend"))
            fail();
        for (int i = 0; i < plan->inputs; i++)
            backend->release((void *)(uintptr_t)launch.in[i], bytes, OWNER);
        for (int i = 0; i < plan->outputs; i++)
            backend->release(launch.even[i], bytes, OWNER);
        backend->release(launch.odd, bytes, OWNER);
        trial_free(&trial);
        sample_free(&sample);
    }
    closed(backend);
}

static struct {
    struct thread_pool_task task;
    sem_t begun, may_end;
} held;

static void hold(struct thread_pool_task *unused, struct list *next)
{
    (void)unused, (void)next;
    sem_post(&held.begun);
    sem_wait(&held.may_end);
}

/* After any launches of other owners' long jobs, narrow and wide ones. */
TEST(test_a_short_job_passes_pieces)
{
    enum { PIECES = 12, SHORT_TOKEN = 100, MOST_PIECES = 1 };
    struct random random = random_start();
    struct device_info info;
    struct sample samples[2] = {{.block = NULL}};
    struct trial trials[2];
    const struct backend *backend = opened(1, &info);
    for (int i = 0; i < 2; i++) {
        const uint64_t n = i == 0 ? 64 : 512;
        samples[i].job = diffusion_of(DTYPE_F32, n, n, 1, 8, 3);
        samples[i].job.dt = 0.05;
        trial_make(&trials[i], &random, &samples[i]);
    }
    held.task = (struct thread_pool_task){.length = POOL_LONG, .run = hold};
    sem_init(&held.begun, 0, 0);
    sem_init(&held.may_end, 0, 0);
    thread_pool_give(&held.task); /* the piece under way */
    sem_wait(&held.begun);
    for (uint64_t i = 0; i < PIECES; i++) { /* the same one again and again */
        trials[i % 2].launch.to = trials[i % 2].plan.lines;
        backend->launch(&trials[i % 2].launch, token(i));
    }
    trials[0].launch.to = trials[0].plan.lines * trials[0].plan.passes;
    backend->launch(&trials[0].launch, token(SHORT_TOKEN));
    sem_post(&held.may_end);
    int before = 0;
    while (next_completion(backend).token.number != SHORT_TOKEN)
        before++;
    assert_true(before <= MOST_PIECES);
    for (int i = before; i < PIECES; i++)
        next_completion(backend);
    closed(backend);
    for (int i = 0; i < 2; i++)
        trial_free(&trials[i]);
}

static bool is_zero(const unsigned char *memory, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (memory[i] != 0)
            return false;
    return true;
}

/* No owner sees another's bytes; requests that are too large are refused. */
TEST(test_memory)
{
    static const uint64_t sizes[] = {1, 4096, 4097, 1 << 20, 9 << 20};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const uint64_t bytes = sizes[s], me = 100 + 2 * s, they = me + 1;
        unsigned char *mine = memory_allocate(bytes, me);
        assert_non_null(mine);
        assert_true(is_zero(mine, bytes));
        memset(mine, POISON, bytes);
        memory_release(mine, bytes, me);
        unsigned char *theirs = memory_allocate(bytes, they);
        assert_non_null(theirs);
        assert_true(is_zero(theirs, bytes));
        /* A repeated job gets the same block again. */
        assert_ptr_equal(memory_allocate(bytes, me), mine);
        memory_release(mine, bytes, me);
        memory_release(theirs, bytes, they);
    }
    for (uint64_t owner = 0; owner < 40; owner++) {
        unsigned char *memory = memory_allocate(8192, owner);
        assert_non_null(memory);
        assert_true(is_zero(memory, 8192) || owner == 0);
        memset(memory, POISON, 8192);
        memory_release(memory, 8192, owner);
    }
    const uint64_t total_bytes =
        (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGE_SIZE);
    assert_true(memory_free() <= total_bytes);
    assert_null(memory_allocate(2 * total_bytes, 1));
    assert_null(memory_allocate(UINT64_MAX, 1));
    memory_trim();
}
