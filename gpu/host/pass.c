#include "gpu/host/pass.h"

#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum {
    TILE_ALIGN = 1024, /* points along x that lines are cut at */
    SMALL_POINTS =
        1 << 17, /* waking the others costs more, above all where the cores have other work */
    TILES_PER_THREAD = 8 /* so that a thread that is held up does not hold up the pass */
};

int pass_kernels(const struct kernels *found[PASS_KERNELS])
{
    int count = 0;
#ifdef HAVE_X86_64_V4
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma"))
        found[count++] = &kernels_v4;
#endif
#ifdef HAVE_X86_64_V3
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"))
        found[count++] = &kernels_v3;
#endif
    found[count++] = &kernels_baseline;
    return count;
}

int pass_threads(void)
{
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

static int64_t cache_bytes(int name, int64_t otherwise)
{
    const long bytes = sysconf(name);
    return bytes > 0 ? bytes : otherwise;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* What is computed of a pass, and the size of the tiles that it is cut into. */
struct grid {
    int64_t first_field, fields;
    int64_t begin[AXIS_COUNT], end[AXIS_COUNT];
    int64_t step[AXIS_COUNT];
    int64_t tiles[AXIS_COUNT];
    int64_t count; /* of all tiles */
};

static void grid_init(struct grid *grid, const struct plan *plan, uint64_t from, uint64_t to)
{
    const struct plan_axis *axis = plan->axis;
    const int64_t ny = axis[AXIS_Y].n, nz = axis[AXIS_Z].n, field_lines = ny * nz;
    const int64_t first = (int64_t)from, last = (int64_t)to - 1;
    grid->first_field = first / field_lines;
    grid->fields = last / field_lines - grid->first_field + 1;
    for (int a = 0; a < AXIS_COUNT; a++) {
        grid->begin[a] = 0;
        grid->end[a] = axis[a].n;
    }
    if (grid->fields == 1) {
        grid->begin[AXIS_Z] = first % field_lines / ny;
        grid->end[AXIS_Z] = last % field_lines / ny + 1;
        if (grid->end[AXIS_Z] - grid->begin[AXIS_Z] == 1) {
            grid->begin[AXIS_Y] = first % ny;
            grid->end[AXIS_Y] = last % ny + 1;
        }
    }

    /* The rows or planes that a line's neighbours along y and z lie in should stay in the second
     * cache until the last line that reads them. */
    const int64_t element = plan->dtype == DTYPE_F32 ? 4 : 8;
    const int64_t window = cache_bytes(_SC_LEVEL2_CACHE_SIZE, 1 << 20) / 4 / element;
    const int64_t reach = 2 * plan->radius + 1;
    const int64_t nx = axis[AXIS_X].n;
    const int64_t points =
        larger((int64_t)(to - from) * nx / (pass_threads() * TILES_PER_THREAD), SMALL_POINTS / 2);
    int64_t *step = grid->step;
    step[AXIS_X] = nx;
    step[AXIS_Y] = ny;
    if (axis[AXIS_Y].active && reach * nx > window)
        step[AXIS_X] = larger(window / reach, TILE_ALIGN);
    if (axis[AXIS_Z].active && nz > 1) {
        step[AXIS_X] = smaller(step[AXIS_X], larger(window / reach / 8, TILE_ALIGN));
        step[AXIS_Y] = larger(window / reach / smaller(step[AXIS_X], nx), 8);
    }
    step[AXIS_X] = smaller(step[AXIS_X], larger(points, TILE_ALIGN));
    step[AXIS_X] = smaller(nx, (step[AXIS_X] + TILE_ALIGN - 1) / TILE_ALIGN * TILE_ALIGN);
    step[AXIS_Y] = smaller(step[AXIS_Y], larger(points / step[AXIS_X], 1));
    step[AXIS_Z] = smaller(nz, larger(points / step[AXIS_X] / step[AXIS_Y], 1));

    grid->count = grid->fields;
    for (int a = 0; a < AXIS_COUNT; a++) {
        grid->tiles[a] = (grid->end[a] - grid->begin[a] + step[a] - 1) / step[a];
        grid->count *= grid->tiles[a];
    }
}

static void tile_place(struct tile *tile, const struct grid *grid, int64_t number)
{
    for (int a = 0; a < AXIS_COUNT; a++) {
        tile->begin[a] = grid->begin[a] + number % grid->tiles[a] * grid->step[a];
        tile->end[a] = smaller(tile->begin[a] + grid->step[a], grid->end[a]);
        number /= grid->tiles[a];
    }
    tile->field = grid->first_field + number;
}

static void pass_run(const struct kernels *kernels, const struct tile *pass)
{
    const struct plan *plan = pass->plan;
    void (*const run)(const struct tile *) = kernels->tile[plan->dtype];
    struct grid grid;
    grid_init(&grid, plan, pass->from, pass->to);
#ifdef _OPENMP
    const int64_t points = (int64_t)(pass->to - pass->from) * plan->axis[AXIS_X].n;
    const int64_t chunk = larger(grid.count / (pass_threads() * TILES_PER_THREAD), 1);
#pragma omp parallel for schedule(dynamic, chunk) if (points > SMALL_POINTS)
#endif
    for (int64_t number = 0; number < grid.count; number++) {
        struct tile tile = *pass;
        tile_place(&tile, &grid, number);
        run(&tile);
    }
}

uint64_t pass_stream_bytes(void)
{
    return (uint64_t)cache_bytes(_SC_LEVEL3_CACHE_SIZE, 32 << 20);
}

/* Streaming short lines was measured to be no gain: each begins and ends with part of a cache line.
 */
void pass_launch(const struct kernels *kernels, const struct launch *launch, uint64_t stream_bytes)
{
    const struct plan *plan = launch->plan;
    const uint64_t bytes = plan->points * plan->batch * (plan->dtype == DTYPE_F32 ? 4 : 8);
    const bool long_lines = plan->axis[AXIS_X].n >= TILE_ALIGN || stream_bytes == 0;
    struct tile tile = {
        .plan = plan, .launch = launch, .stream = bytes > stream_bytes && long_lines};
    for (uint64_t line = launch->from; line < launch->to;) {
        const uint64_t pass = line / plan->lines, begin = pass * plan->lines;
        const uint64_t end = begin + plan->lines < launch->to ? begin + plan->lines : launch->to;
        tile.in = pass == 0 ? launch->in[0] : pass % 2 == 1 ? launch->even[0] : launch->odd;
        tile.out = pass % 2 == 0 ? launch->even[0] : launch->odd;
        tile.impose = plan->impose && pass == 0;
        tile.from = line - begin;
        tile.to = end - begin;
        pass_run(kernels, &tile);
        line = end;
    }
}
