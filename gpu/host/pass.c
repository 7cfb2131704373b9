#include "gpu/host/pass.h"

#include "gpu/host/adi_pass.h"
#include "gpu/host/cut.h"
#include "gpu/host/measure.h"
#include "gpu/host/share.h"
#include "gpu/host/stencil_pass.h"
#include "gpu/host/tsan.h"
#include "base/thread_pool.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum {
    TILE_ALIGN = 1024, /* points along x that lines are cut at */
    SMALL_POINTS =
        1 << 17, /* waking the others costs more, above all where the cores have other work */
    SHARE_BYTES = 3 << 20, /* of the last cache that a thread can count on; virtual machines are
                               shown the whole of a cache that they share with others */
    /* At most, of a thread: of one level, where a tile finds what it shares with the one before
     * in the second cache; of several, where it computes that again. */
    TILES_OF_ONE = 16,
    TILES_OF_SEVERAL = 4,
    QUEUES = 128,  /* of tiles, at most */
    MOST_TWICE = 4 /* a tile of several levels may compute 1/4 of its points twice */
};

#define HELD_UP 0.125 /* of a tile: what a thread is expected to be late */

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

static int64_t cache_bytes(int name, int64_t otherwise)
{
    const long bytes = sysconf(name);
    return bytes > 0 ? bytes : otherwise;
}

/* What may be counted on of the second cache, in whole pages. */
static int64_t half_cache(void)
{
    return cache_bytes(_SC_LEVEL2_CACHE_SIZE, 1 << 20) / 2 / 4096 * 4096;
}

/* What a launch of fast loops is of. */
struct fold {
    struct table_header table;
    int64_t batch, lines; /* fields; lines of a plane */
};

/* An axis that nothing is done along. */
static void axis_set(struct table_axis *axis, int64_t n, int64_t stride)
{
    *axis = (struct table_axis){.n = n, .stride = stride, .last = n - 1, .high = n};
}

/* Axes that nothing is done along become part of others, so that lines are long and planes many.
 * Operators on vectors are left as they are. */
static void fold_axes(struct fold *fold)
{
    struct table_header *table = &fold->table;
    struct table_axis *x = &table->axis_of[AXIS_X], *y = x + AXIS_Y, *z = x + AXIS_Z;
    const bool along_x = table->active & 1, along_y = table->active >> AXIS_Y & 1;
    fold->lines = y->n;
    if (table->inputs + table->outputs > 2 || (table->active >> AXIS_Z && (along_x || along_y)))
        return;
    if (table->active >> AXIS_Z) { /* a plane is a line */
        axis_set(x, x->n * y->n, 1);
        axis_set(y, 1, x->n);
        return;
    }
    fold->batch *= z->n;
    if (!along_y) { /* along x alone: all lines are one plane's */
        axis_set(y, fold->lines * fold->batch, x->n);
        axis_set(z, 1, x->n);
        fold->batch = 1;
        fold->lines = y->n;
    } else {
        *z = *y;
        axis_set(y, 1, x->n);
        table->rows[0][AXIS_Z] = table->rows[0][AXIS_Y];
        for (int x_bit = 0; x_bit < 2; x_bit++)
            table->centre[0][x_bit | 1 << AXIS_Z] = table->centre[0][x_bit | 1 << AXIS_Y];
        table->axis = AXIS_Z;
        table->active = along_x | 1 << AXIS_Z;
        fold->lines = 1;
    }
    table->axes = AXIS_COUNT;
    table->points = (uint64_t)(x->n * y->n * z->n);
}

/* Points next to a side that the fast loops leave to others. Along x they have all that a centred
 * stencil reads beside each other; along y and z it has to lie in memory: none where images of the
 * side's map do. */
static int64_t side_apart(const struct table_header *table, int a, int s, int radius)
{
    const struct table_axis *axis = &table->axis_of[a];
    const struct table_rows *rows = &table->rows[0][a];
    const int64_t closed = s == SIDE_LOW ? rows->low : rows->high;
    const int64_t imposed = s == SIDE_LOW ? axis->first : axis->n - 1 - axis->last;
    const int map = axis->side[s].map;
    const bool lies = map == SIDE_MAP_PERIODIC || map == SIDE_MAP_ENDPOINT ||
                      map == SIDE_MAP_FACE || map == SIDE_MAP_NODE;
    const int64_t own = larger(larger(closed, imposed), axis->side[s].held);
    return a == AXIS_X || (lies && closed == 0 && imposed == 0) ? own
                                                                : larger(own, radius + imposed);
}

static void fold_init(struct fold *fold, const struct plan *plan)
{
    fold->table = *table_of(plan);
    fold->batch = (int64_t)plan->batch;
    fold_axes(fold);
    for (int a = 0; a < AXIS_COUNT; a++) {
        struct table_axis *axis = &fold->table.axis_of[a];
        if (!(fold->table.active >> a & 1))
            continue;
        axis->low = smaller(side_apart(&fold->table, a, SIDE_LOW, plan->radius), axis->n);
        axis->high =
            larger(axis->n - side_apart(&fold->table, a, SIDE_HIGH, plan->radius), axis->low);
    }
}

/* Do the fast loops take it? They know of no array over a face, and of sides of active axes alone.
 */
static bool is_fast(const struct plan *plan)
{
    bool fast = plan->simple;
    for (int a = 0; a < table_of(plan)->axes; a++)
        for (int s = 0; s < SIDE_COUNT; s++) {
            const struct side *side = &table_of(plan)->axis_of[a].side[s];
            fast = fast && (side->datum == SIDE_DATUM_NONE || side->constant.operand < 0) &&
                   side->value.operand < 0 && (plan->axis[a].active || !side->held);
        }
    return fast;
}

/* Cut what is `n` long into equal pieces of at most `most`. */
static int64_t equal_step(int64_t n, int64_t most)
{
    return ceil_div(n, ceil_div(n, most));
}

static int64_t element_bytes(const struct tile *tile)
{
    return (int64_t)dtype_element_bytes(tile->table->dtype);
}

/* Rows along y that a tile of several levels may have, for its rings to take half of the second
 * cache; below 1 where there is no such tile. */
static int64_t ring_rows(const struct tile *tile, int levels)
{
    const int64_t planes = (levels - 1) * RING_PLANES(tile_reach(tile, AXIS_Z), LINES);
    const int64_t rows =
        half_cache() / element_bytes(tile) / planes / tile->table->axis_of[AXIS_X].n;
    return rows - 2 * (levels - 1) * tile_reach(tile, AXIS_Y);
}

/* How many of the passes that are left are done at once: an odd number, for the last to write where
 * the first would. What lies around a tile is computed again for it, so few points may be. */
static int levels_of(const struct tile *tile, int64_t batch, uint64_t passes)
{
    const struct table_axis *y = &tile->table->axis_of[AXIS_Y], *z = y + 1;
    const int64_t slab = larger(z->n * batch / thread_pool_threads(), 1);
    if (passes < 2 || !(tile->table->active >> AXIS_Z))
        return 1;
    for (int a = AXIS_Y; a < AXIS_COUNT; a++) /* what is past such an edge is not a copy */
        for (int side = 0; side < SIDE_COUNT; side++)
            if (tile->table->axis_of[a].side[side].map == SIDE_MAP_ENDPOINT)
                return 1;
    for (int levels = LEVELS; levels > 1; levels -= 2) {
        const int64_t rows = smaller(ring_rows(tile, levels), y->n);
        const int64_t margin_y = rows < y->n ? (levels - 1) * tile_reach(tile, AXIS_Y) : 0;
        const int64_t margin_z = (levels - 1) * tile_reach(tile, AXIS_Z);
        if ((uint64_t)levels <= passes && rows > 0 &&
            MOST_TWICE * (margin_y * slab + margin_z * rows) <= rows * slab)
            return levels;
    }
    return 1;
}

/* This thread's memory for rings; NULL where there is none. */
static void *rings(void)
{
    return thread_pool_scratch((size_t)half_cache());
}

/* What is read around a line along y and z should stay in the second cache until the last line that
 * reads it: of every input that is read across z, beside what passes through of the others. */
static void grid_fit(struct grid *grid, const struct tile *tile)
{
    const struct table_header *table = tile->table;
    const int64_t across = 2 * tile_reach(tile, AXIS_Z) + 2 * LINES;
    const int64_t planes =
        table->operator_id == OPERATOR_CURL ? 2 * across : across + LINES * (table->inputs - 1);
    const int64_t window = half_cache() / element_bytes(tile) * 3 / 2 / planes;
    int64_t *step = grid->step;
    for (int a = 0; a < AXIS_COUNT; a++)
        step[a] = grid->end[a] - grid->begin[a];
    if (tile->levels > 1) {
        step[AXIS_Y] = equal_step(step[AXIS_Y], ring_rows(tile, tile->levels));
    } else if (table->active >> AXIS_Z) {
        if (step[AXIS_X] > larger(window, TILE_ALIGN))
            step[AXIS_X] = ceil_div(equal_step(step[AXIS_X], window), TILE_ALIGN) * TILE_ALIGN;
        step[AXIS_Y] = equal_step(step[AXIS_Y], larger(window / step[AXIS_X], LINES));
    }
}

/* Cut the box further, among the threads: so that they end together and little is read or computed
 * twice beside a cut; and into more than one tile each, since one of them may be held up. Along z
 * a tile of one level reads again what the same thread has just read. Returns how many threads. */
static int grid_cut(struct grid *grid, const struct tile *tile)
{
    const int levels = tile->levels;
    const int64_t again = levels == 1 ? 1 : levels - 1;
    const int64_t beside_y = again * tile_reach(tile, AXIS_Y);
    const int64_t beside_z = levels == 1 ? 0 : again * tile_reach(tile, AXIS_Z);
    const int64_t tiles_each = levels == 1 ? TILES_OF_ONE : TILES_OF_SEVERAL;
    int64_t extent[AXIS_COUNT], points = grid->fields;
    grid_fit(grid, tile);
    for (int a = 0; a < AXIS_COUNT; a++) {
        extent[a] = grid->end[a] - grid->begin[a];
        points *= extent[a];
    }
    const int64_t threads = points > SMALL_POINTS ? thread_pool_threads() : 1;
    const int64_t most = threads > 1 ? threads * tiles_each : 0;
    const int64_t across = grid->fields * ceil_div(extent[AXIS_X], grid->step[AXIS_X]);
    const int64_t fewest = ceil_div(extent[AXIS_Y], grid->step[AXIS_Y]);
    const bool thin = extent[AXIS_Z] < threads * LINES;
    const int64_t tries = thin ? most : fewest + 2;
    double least = INFINITY;
    for (int64_t y = fewest; y == fewest || (y <= tries && across * y <= most);
         y += thin && y % threads == 0 ? threads : 1)
        for (int64_t z = 1; z == 1 || (z * LINES <= extent[AXIS_Z] && across * y * z <= most);
             z++) {
            const int64_t step_y = ceil_div(extent[AXIS_Y], y);
            const int64_t step_z = ceil_div(extent[AXIS_Z], z);
            const int64_t tiles =
                across * ceil_div(extent[AXIS_Y], step_y) * ceil_div(extent[AXIS_Z], step_z);
            const double rounds = (double)ceil_div(tiles, threads) + HELD_UP;
            const double time = rounds * (double)(step_y + beside_y) * (double)(step_z + beside_z);
            if (time < least) {
                least = time;
                grid->step[AXIS_Y] = step_y;
                grid->step[AXIS_Z] = step_z;
            }
        }
    grid_count(grid);
    return (int)threads;
}

/* One tile: its box in its field. They are numbered along z first. */
static void tile_place(struct tile *tile, const struct grid *grid, int64_t number)
{
    const struct table_header *table = tile->table;
    for (int a = AXIS_Z; a >= 0; a--) {
        tile->begin[a] = grid->begin[a] + number % grid->tiles[a] * grid->step[a];
        tile->end[a] = smaller(tile->begin[a] + grid->step[a], grid->end[a]);
        number /= grid->tiles[a];
    }
    const uint64_t field = (uint64_t)(grid->first_field + number);
    const uint64_t bytes = field * table->points * (uint64_t)element_bytes(tile);
    for (int c = 0; c < table->inputs; c++)
        tile->in[c] = (const char *)tile->in[c] + bytes;
    for (int c = 0; c < table->outputs; c++)
        tile->out[c] = (char *)tile->out[c] + bytes;
}

/* Neighbouring tiles, which one thread takes one after another: what two of them read is then still
 * in its second cache. A thread whose queue is empty takes tiles from the others. */
struct queue {
    _Alignas(64) _Atomic int64_t next;
    int64_t end;
};

/* A grid that threads share. */
struct tiles {
    const struct grid *grid;
    const struct tile *pass;
    void (*run)(const struct tile *tile);
    int count; /* queues */
    struct queue queues[QUEUES];
};

static void queue_run(struct queue *queue, const struct tiles *tiles, void *rings)
{
    for (int64_t number; thread_pool_stays() && (number = queue->next++) < queue->end;) {
        struct tile tile = *tiles->pass;
        tile_place(&tile, tiles->grid, number);
        tile.rings = rings;
        tiles->run(&tile);
    }
}

/* A thread without memory for its rings leaves all tiles to the others. */
static void tiles_run(void *context, int slot)
{
    struct tiles *tiles = context;
    void *const own = tiles->pass->levels > 1 ? rings() : NULL;
    if (tiles->pass->levels > 1 && !own)
        return;
    for (int q = 0; q < tiles->count; q++)
        queue_run(&tiles->queues[(slot + q) % tiles->count], tiles, own);
}

/* Lines [from, to) of the pass; `lines` of them are a plane. */
static void pass_run(const struct kernels *kernels, const struct tile *pass, int64_t lines,
                     int64_t from, int64_t to)
{
    const struct table_axis *axis = pass->table->axis_of;
    const int64_t n[AXIS_COUNT] = {axis[AXIS_X].n, axis[AXIS_Y].n, axis[AXIS_Z].n};
    for (struct grid grid; from < to;) {
        from += grid_box(&grid, n, lines, from, to);
        const int threads = grid_cut(&grid, pass);
        const int64_t count = grid.fields * grid.count;
        struct tiles tiles = {
            .grid = &grid, .pass = pass, .run = kernels->tile[pass->table->dtype]};
        tiles.count = threads < QUEUES ? threads : QUEUES;
        for (int q = 0; q < tiles.count; q++) {
            tiles.queues[q].next = count * q / tiles.count;
            tiles.queues[q].end = count * (q + 1) / tiles.count;
        }
        thread_pool_share(threads, tiles_run, &tiles);
    }
}

bool pass_is_wide(const struct plan *plan)
{
    return plan->points * plan->batch > SMALL_POINTS;
}

uint64_t pass_stream_bytes(void)
{
    const uint64_t cache = (uint64_t)cache_bytes(_SC_LEVEL3_CACHE_SIZE, 32 << 20);
    const uint64_t share = (uint64_t)thread_pool_threads() * SHARE_BYTES;
    return cache < share ? cache : share;
}

/* A launch of a plan that the fast loops take. */
static void launch_tiles(const struct kernels *kernels, const struct launch *launch,
                         uint64_t stream_bytes)
{
    const struct plan *plan = launch->plan;
    const uint64_t bytes = plan_array_bytes(plan);
    const uint64_t in_cache = (uint64_t)(thread_pool_threads() * half_cache());
    struct fold fold;
    fold_init(&fold, plan);
    struct tile tile = {.table = &fold.table,
                        .rows = table_of(plan),
                        .radius = plan->radius,
                        .stream = bytes > stream_bytes};
    for (uint64_t line = launch->from; line < launch->to;) {
        const uint64_t number = line / plan->lines, begin = number * plan->lines;
        const uint64_t left = line == begin ? (launch->to - line) / plan->lines : 0;
        const struct table_pass pass = launch_table_pass(launch, number);
        tile.pass = &pass;
        memcpy(tile.in, pass.in, sizeof tile.in);
        memcpy(tile.out, pass.out, sizeof tile.out);
        tile.levels = pass.impose || (bytes <= in_cache && !tile.stream)
                          ? 1
                          : levels_of(&tile, fold.batch, left);
        if (tile.levels > 1 && !rings())
            tile.levels = 1;
        const uint64_t last = begin + (uint64_t)tile.levels * plan->lines;
        const uint64_t end = last < launch->to ? last : launch->to;
        pass_run(kernels, &tile, fold.lines, (int64_t)(line - begin),
                 (int64_t)(tile.levels > 1 ? plan->lines : end - begin));
        line = end;
    }
}

/* Lines of one pass, all by their table. */
static void launch_rows(const struct kernels *kernels, const struct launch *launch)
{
    const struct plan *plan = launch->plan;
    const int64_t count = (int64_t)(launch->to - launch->from);
    const struct table_pass pass = launch_table_pass(launch, launch->from / plan->lines);
    struct table_lines lines = {table_of(plan), &pass, (int64_t)(launch->from % plan->lines)};
    share_units(count, count * plan->axis[AXIS_X].n, kernels->lines[plan->dtype], &lines);
}

/* The values at the probes, to their row after so many steps. */
static void take_probes(const struct launch *launch, const void *field, uint64_t steps_done)
{
    const struct plan *plan = launch->plan;
    const int64_t *place =
        (const int64_t *)(const void *)((const char *)plan_table_rows(plan->table) +
                                        plan->probes_at);
    void *values = launch->operands->at[OPERAND_PROBES];
    const uint64_t first = steps_done * plan->probes;
    for (uint64_t i = 0; i < plan->probes; i++)
        if (plan->dtype == DTYPE_F32)
            ((float *)values)[first + i] = ((const float *)field)[place[i]];
        else
            ((double *)values)[first + i] = ((const double *)field)[place[i]];
}

void pass_launch(const struct kernels *kernels, const struct launch *launch, uint64_t stream_bytes)
{
    const struct plan *plan = launch->plan;
    const bool by_tiles = plan->engine == PLAN_TABLE && is_fast(plan);
    struct launch part = *launch;
    if (plan->engine == PLAN_MEASURE) {
        measure_pass(launch);
        return;
    }
    tsan_launch(launch);
    if (plan->probes && launch->from == 0 && !plan->impose)
        take_probes(launch, launch->in[0], 0);
    for (; part.from < launch->to; part.from = part.to) {
        const uint64_t pass = part.from / plan->lines, end = (pass + 1) * plan->lines;
        const struct stage stage = stage_of(plan, pass);
        /* One launch of tiles may take several passes, unless probes are taken between them. */
        part.to = end > launch->to || (by_tiles && !plan->probes) ? launch->to : end;
        if (by_tiles)
            launch_tiles(kernels, &part, stream_bytes);
        else if (plan->engine == PLAN_ADI)
            adi_pass(kernels, &part, &stage);
        else if (plan->engine == PLAN_STENCIL)
            stencil_pass(kernels, &part, &stage, stream_bytes);
        else
            launch_rows(kernels, &part);
        if (plan->probes && part.to == end && stage.steps_done >= 0)
            take_probes(launch, launch_array(launch, stage.write), (uint64_t)stage.steps_done);
    }
}
