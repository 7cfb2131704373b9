#include "gpu/host/stencil_pass.h"

#include "gpu/host/cut.h"
#include "base/thread_pool.h"

#include <string.h>

enum {
    SMALL_WORK = 1 << 17,  /* points: waking the others costs more */
    TAPS_OF_POINT = 8,     /* a sum of so many counts one point */
    ROOM_BYTES = 1 << 20,  /* of a thread: half of a second cache */
    LINE_POINTS = 1 << 12, /* lines are cut, for what they read around them to stay in the cache */
    TILES_EACH = 4,        /* one thread of a tile may be held up */
    BOXES = 1 + 2 * AXIS_COUNT
};

/* A pass over some lines: the same parts of each field. */
struct work {
    struct grid parts[BOXES]; /* do not overlap: the interior, then what is left at each side */
    int count;
    struct grid box;       /* of which they are parts */
    int64_t tiles, points; /* of one field */
    /* What its tiles are of. */
    const struct kernels *kernels;
    const struct plan *plan;
    const struct stencil_box *pass;
};

/* Tiles of a part: the sums of a tile read (below + above + 1) planes of it, which should stay in
 * the second cache. */
static void part_cut(struct grid *part, const struct plan *plan, const struct stencil_table *table,
                     int64_t tiles)
{
    const struct stencil_axis *axis = table->axis;
    const int64_t elements = ROOM_BYTES / (int64_t)plan_element_bytes(plan);
    const int64_t planes = axis[AXIS_Z].below + axis[AXIS_Z].above + 1;
    const int64_t beside_x = axis[AXIS_X].below + axis[AXIS_X].above;
    const int64_t beside_y = axis[AXIS_Y].below + axis[AXIS_Y].above;
    int64_t size[AXIS_COUNT];
    for (int a = 0; a < AXIS_COUNT; a++)
        size[a] = part->end[a] - part->begin[a];
    const int64_t most_x = smaller(elements / planes / (beside_y + 4) - beside_x, LINE_POINTS);
    part->step[AXIS_X] = smaller(size[AXIS_X], most_x);
    const int64_t most_y = elements / planes / (part->step[AXIS_X] + beside_x) - beside_y;
    part->step[AXIS_Y] = ceil_div(size[AXIS_Y], ceil_div(size[AXIS_Y], most_y));
    const int64_t across =
        ceil_div(size[AXIS_X], part->step[AXIS_X]) * ceil_div(size[AXIS_Y], part->step[AXIS_Y]);
    /* Further cuts along z, whose planes are then read twice, and last along y. */
    const int64_t cuts_z = larger(1, smaller(ceil_div(tiles, across), size[AXIS_Z] / (2 * planes)));
    part->step[AXIS_Z] = ceil_div(size[AXIS_Z], cuts_z);
    if (across * cuts_z < tiles) {
        const int64_t cuts_y = ceil_div(tiles, cuts_z * ceil_div(size[AXIS_X], part->step[AXIS_X]));
        part->step[AXIS_Y] = smaller(part->step[AXIS_Y], larger(1, ceil_div(size[AXIS_Y], cuts_y)));
    }
    grid_count(part);
}

static void work_add(struct work *work, const int64_t begin[AXIS_COUNT],
                     const int64_t end[AXIS_COUNT])
{
    int64_t points = 1;
    struct grid *part = &work->parts[work->count];
    for (int a = 0; a < AXIS_COUNT; a++) {
        part->begin[a] = begin[a];
        part->end[a] = end[a];
        points *= larger(end[a] - begin[a], 0);
    }
    work->points += points;
    work->count += points > 0;
}

/* The interior of the work's box of each field, and what is left of it: at the sides along z whole
 * planes, along y lines of the planes between, along x points of the lines between. */
static void work_split(struct work *work, const struct stencil_table *table)
{
    int64_t begin[AXIS_COUNT], end[AXIS_COUNT];
    work->count = 0;
    work->points = 0;
    memcpy(begin, work->box.begin, sizeof begin);
    memcpy(end, work->box.end, sizeof end);
    for (int a = AXIS_Z; a >= AXIS_X; a--) {
        const int64_t low = larger(begin[a], smaller(table->axis[a].low, end[a]));
        const int64_t high = larger(low, smaller(table->axis[a].high, end[a]));
        int64_t edge[AXIS_COUNT];
        memcpy(edge, end, sizeof edge);
        edge[a] = low;
        work_add(work, begin, edge);
        memcpy(edge, begin, sizeof edge);
        edge[a] = high;
        work_add(work, edge, end);
        begin[a] = low;
        end[a] = high;
    }
    work_add(work, begin, end);
}

/* A tile of the work, by its number. */
static void run_tile(void *context, int64_t number)
{
    const struct work *work = context;
    const struct plan *plan = work->plan;
    struct stencil_box box = *work->pass;
    const int64_t field = work->box.first_field + number / work->tiles;
    const struct grid *part = work->parts;
    const uint64_t offset = (uint64_t)field * plan->points * plan_element_bytes(plan);
    number %= work->tiles;
    for (; number >= part->count; part++)
        number -= part->count;
    for (int a = 0; a < AXIS_COUNT; a++) {
        box.begin[a] = part->begin[a] + number % part->tiles[a] * part->step[a];
        box.end[a] = smaller(box.begin[a] + part->step[a], part->end[a]);
        number /= part->tiles[a];
    }
    box.field = field;
    box.in = (const char *)box.in + offset;
    box.out = (char *)box.out + offset;
    box.room = thread_pool_scratch(ROOM_BYTES);
    work->kernels->stencil[plan->dtype](&box);
}

void stencil_pass(const struct kernels *kernels, const struct launch *launch,
                  const struct stage *stage, uint64_t stream_bytes)
{
    const struct plan *plan = launch->plan;
    const struct stencil_table *table = stencil_table_of(plan->table);
    const struct stencil_box pass = {
        .table = table,
        .in = launch_array(launch, stage->read),
        .out = launch_array(launch, stage->write),
        .operands = launch->operands ? (const void *const *)launch->operands->at : NULL,
        .stream = plan_array_bytes(plan) > stream_bytes};
    const int64_t taps = 1 + table->points / TAPS_OF_POINT;
    const int64_t n[AXIS_COUNT] = {table->axis[AXIS_X].n, table->axis[AXIS_Y].n,
                                   table->axis[AXIS_Z].n};
    struct work work = {.kernels = kernels, .plan = plan, .pass = &pass};
    int64_t from = (int64_t)(launch->from % plan->lines);
    const int64_t to = from + (int64_t)(launch->to - launch->from);
    while (from < to) {
        from += grid_box(&work.box, n, n[AXIS_Y], from, to);
        work_split(&work, table);
        const int64_t cost = work.points * work.box.fields * taps;
        const int threads = cost > SMALL_WORK ? thread_pool_threads() : 1;
        work.tiles = 0;
        for (int i = 0; i < work.count; i++) {
            const int64_t tiles = threads > 1 ? ceil_div(threads * TILES_EACH, work.box.fields) : 1;
            part_cut(&work.parts[i], plan, table, tiles);
            work.tiles += work.parts[i].count;
        }
        thread_pool_for(threads, work.tiles * work.box.fields, run_tile, &work);
    }
}
