/* A pass of a stencil by a kernel of its own: one that the build made, or a compiled one. */
#include "gpu/cuda/compiled.h"
#include "gpu/cuda/early.cuh"
#include "gpu/cuda/grid.cuh"
#include "gpu/cuda/padding.h"
#include "gpu/cuda/room.h"
#include "gpu/cuda/stencil_kernels.h"

#include <string.h>

enum { SHARED_OF_UNIT = 160 << 10 }; /* of a multiprocessor: its blocks divide it */

static const struct stencil_kernel *const common[STENCIL_SHAPES] = {
    stencil_kernels_0, stencil_kernels_1, stencil_kernels_2, stencil_kernels_3,
    stencil_kernels_4, stencil_kernels_5, stencil_kernels_6, stencil_kernels_7};

static const struct stencil_kernel *find_kernel(const struct kernel_key *key)
{
    for (int i = 0; i < STENCIL_SHAPES; i++)
        for (int j = 0; j < STENCIL_KERNELS_EACH; j++)
            if (common[i][j].key.points == key->points &&
                memcmp(&common[i][j].key, key, sizeof *key) == 0)
                return &common[i][j];
    return NULL;
}

static int map_of(const struct side *side)
{
    switch (side->held ? SIDE_MAP_NONE : side->map) {
    case SIDE_MAP_PERIODIC:
        return MAP_PERIODIC;
    case SIDE_MAP_ENDPOINT:
        return MAP_ENDPOINT;
    case SIDE_MAP_FACE:
        return MAP_FACE;
    case SIDE_MAP_NODE:
        return MAP_NODE;
    case SIDE_MAP_NEAREST:
        return MAP_NEAREST;
    default:
        return MAP_NONE;
    }
}

/* Points next to the side that the kernel leaves out: it knows held numbers, no arrays. */
static int64_t left_out(const struct stencil_axis *axis, int side, int map)
{
    return map == MAP_NONE                                            ? axis->apart[side]
           : map == MAP_PADDED && axis->side[side].value.operand >= 0 ? axis->side[side].held
                                                                      : 0;
}

/* What the kernel computes: the interior, and up to sides beyond which there are images, or a
 * padding. */
static void lay_out_tiles(stencil_grid *grid, struct geometry *g, const struct stencil_table *table,
                          bool padded)
{
    for (int a = 0; a < AXIS_COUNT; a++) {
        const struct stencil_axis *axis = &table->axis[a];
        for (int s = 0; s < SIDE_COUNT; s++)
            grid->map[a][s] =
                padded && kernel_pads(&axis->side[s]) ? (int)MAP_PADDED : map_of(&axis->side[s]);
        const int64_t low = left_out(axis, SIDE_LOW, grid->map[a][SIDE_LOW]);
        const int64_t high = left_out(axis, SIDE_HIGH, grid->map[a][SIDE_HIGH]);
        g->low[a] = low < axis->n ? low : axis->n;
        g->high[a] = axis->n - high > g->low[a] ? axis->n - high : g->low[a];
        grid->n[a] = (int)axis->n;
        grid->low[a] = (int)g->low[a];
        grid->high[a] = (int)g->high[a];
    }
    grid->field = (int64_t)g->plan->points;
    geometry_boundary(g);
}

/* The blocks, each with a march. */
static int64_t cut_tiles(stencil_grid *grid, const struct geometry *g, const struct kernel_key *key)
{
    const struct kernel_tile tile = kernel_tile_of(key);
    const bool plane = key->axes == 2;
    const int y = kernel_tile_y(&tile), rows = grid->high[AXIS_Y] - grid->low[AXIS_Y];
    const int planes = plane ? (int)blocks_of(grid->high[AXIS_Y], y) - grid->low[AXIS_Y] / y
                             : grid->high[AXIS_Z] - grid->low[AXIS_Z];
    grid->tiles_x = (int)blocks_of(grid->n[AXIS_X], kernel_tile_x(&tile));
    grid->tiles_y = plane ? 1 : (int)blocks_of(rows, y);
    const int64_t columns = (int64_t)grid->tiles_x * grid->tiles_y * (int64_t)g->plan->batch;
    const int64_t resident = (int64_t)g->units * (SHARED_OF_UNIT / tile.shared_bytes);
    grid->length = (int)column_length(planes, columns, resident, tile.before);
    grid->marches = (int)blocks_of(planes, grid->length);
    return columns * grid->marches;
}

/* What a pass takes, but its arrays. */
struct own_pass {
    const struct kernel_key *key;
    const struct stencil_kernel *common; /* NULL: */
    const void *compiled;
    bool is_trial; /* it is not offered yet */
    const struct stencil_table *table;
    struct geometry *g;
    const void *const *operands;
    const struct stencil_table *device_table; /* NULL: that of the geometry's slot */
    void *room;                               /* for a padding, of so many bytes */
    uint64_t room_bytes;
};

template <typename T> static void put_weights(const struct stencil_table *table, T *weights)
{
    for (int k = 0; k < table->points; k++) {
        const auto &weight = stencil_taps(table)[k].weight;
        weights[k] = sizeof(T) == sizeof(float) ? (T)weight.f32 : (T)weight.f64;
    }
}

static cudaError_t launch_blocks(const struct own_pass *pass, int64_t blocks, void **arguments)
{
    const struct kernel_tile tile = kernel_tile_of(pass->key);
    const cudaStream_t stream = pass->g->stream;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    if (pass->common)
        return pass->common->launch((unsigned)blocks, arguments, stream);
    const int threads = tile.wide * tile.high;
    const early_launch launch(dim3((unsigned)blocks), dim3((unsigned)threads),
                              (size_t)kernel_asks(threads, tile.shared_bytes), stream,
                              pass->key->padded);
    const cudaError_t error = cudaLaunchKernelExC(&launch.config, pass->compiled, arguments);
    if (error == cudaSuccess && !pass->is_trial)
        compiled_used(pass->compiled, stream);
    return error;
}

/* The grid, and set the geometry's interior to what the kernel computes. False: it is not for it.
 */
static bool lay_out(const struct own_pass *pass, stencil_grid *grid)
{
    const struct stencil_axis *axis = pass->table->axis;
    /* Indices of a plane, and of its padding, have 32 bits, and an image is looked for from twice
     * as far. */
    const int64_t more = 8 * KERNEL_RADIUS;
    bool fits = (axis[AXIS_X].n + more) * (axis[AXIS_Y].n + more) <= INT32_MAX;
    for (int a = 0; a < AXIS_COUNT; a++)
        fits = fits && axis[a].n <= INT32_MAX / 2;
    if (fits)
        lay_out_tiles(grid, pass->g, pass->table, pass->key->padded);
    /* Of a short axis images lie next to the other side, or beyond it, where there may be none. */
    for (int a = 0; fits && a < AXIS_COUNT; a++)
        fits = (grid->map[a][SIDE_LOW] == MAP_NONE) == (grid->map[a][SIDE_HIGH] == MAP_NONE) ||
               axis[a].n > 2 * KERNEL_RADIUS;
    return fits && pass->g->has_interior;
}

template <typename T>
static cudaError_t put_plain(const struct own_pass *pass, const void *in, void *out)
{
    struct {
        stencil_grid grid;
        T weights[KERNEL_POINTS];
    } arguments;
    void *pointers[] = {&arguments, &in, &out};
    if (!lay_out(pass, &arguments.grid))
        return cudaErrorInvalidConfiguration;
    put_weights(pass->table, arguments.weights);
    return launch_blocks(pass, cut_tiles(&arguments.grid, pass->g, pass->key), pointers);
}

template <typename T>
static cudaError_t put_padded(const struct own_pass *pass, const void *in, void *out)
{
    struct {
        stencil_grid grid;
        stencil_padding padding;
        T weights[KERNEL_POINTS];
    } arguments;
    const struct plan *plan = pass->g->plan;
    void *pointers[] = {&arguments, &in, &out};
    if (!lay_out(pass, &arguments.grid))
        return cudaErrorInvalidConfiguration;
    const uint64_t bytes =
        padding_init(&arguments.padding, pass->table, 16 / (int)sizeof(T), plan->batch, sizeof(T));
    if (bytes == 0 || bytes > pass->room_bytes)
        return cudaErrorInvalidConfiguration;
    arguments.padding.values = pass->room;
    put_weights(pass->table, arguments.weights);
    const cudaError_t error =
        padding_fill(&arguments.padding, pass->table, pass->device_table, pass->g->slot,
                     pass->operands, (enum dtype)plan->dtype, plan->batch, in, pass->g->stream);
    if (error != cudaSuccess)
        return error;
    return launch_blocks(pass, cut_tiles(&arguments.grid, pass->g, pass->key), pointers);
}

static cudaError_t put_pass(const struct own_pass *pass, const void *in, void *out)
{
    return with_type(pass->g->plan, [&](auto type) {
        using T = decltype(type);
        return pass->key->padded ? put_padded<T>(pass, in, out) : put_plain<T>(pass, in, out);
    });
}

bool own_kernel_key(struct kernel_key *key, const struct stencil_table *table, int dtype)
{
    const int64_t n[AXIS_COUNT] = {table->axis[AXIS_X].n, table->axis[AXIS_Y].n,
                                   table->axis[AXIS_Z].n};
    bool pads = false;
    for (int a = 0; a < AXIS_COUNT; a++)
        for (int s = 0; s < SIDE_COUNT; s++)
            pads |= kernel_pads(&table->axis[a].side[s]);
    return kernel_key_init(key, dtype, n, pads, (uint64_t)table->points,
                           &stencil_offsets(table)->at);
}

/* Where room for it is to be had. */
static cudaError_t try_padded(struct own_pass *pass, struct kernel_key *key, const void *in,
                              void *out)
{
    stencil_padding padding;
    const struct plan *plan = pass->g->plan;
    const uint64_t element_bytes = plan->dtype == DTYPE_F32 ? 4 : 8;
    pass->compiled = compiled_find(key, plan->points * plan->batch);
    pass->room_bytes = pass->compiled
                           ? padding_init(&padding, pass->table, (int)(16 / element_bytes),
                                          plan->batch, element_bytes)
                           : 0;
    pass->room = pass->room_bytes ? room_take(pass->room_bytes, pass->g->stream) : NULL;
    const cudaError_t error = pass->room ? put_pass(pass, in, out) : cudaErrorInvalidConfiguration;
    if (pass->room)
        room_give(pass->g->stream);
    key->padded = 0;
    return error;
}

cudaError_t own_kernel_launch(const struct stencil_table *table, struct geometry *g,
                              const void *const operands[OPERANDS], const void *in, void *out)
{
    struct kernel_key key;
    struct own_pass pass = {};
    if (!own_kernel_key(&key, table, g->plan->dtype))
        return cudaErrorInvalidConfiguration;
    pass.key = &key;
    pass.table = table;
    pass.g = g;
    pass.operands = operands;
    cudaError_t error = cudaErrorInvalidConfiguration;
    if (key.padded)
        error = try_padded(&pass, &key, in, out);
    if (error != cudaErrorInvalidConfiguration)
        return error;
    pass.common = find_kernel(&key);
    pass.compiled = pass.common ? NULL : compiled_find(&key, g->plan->points * g->plan->batch);
    return pass.common || pass.compiled ? put_pass(&pass, in, out) : error;
}

extern "C" cudaError_t compiled_launch(const struct compiled_trial *trial, cudaStream_t stream,
                                       int64_t low[AXIS_COUNT], int64_t high[AXIS_COUNT])
{
    struct geometry g;
    const struct plan *plan = trial->plan;
    geometry_init(&g, plan, 0, plan->lines, 1, 0, trial->units, stream);
    static const void *const none[OPERANDS] = {};
    struct own_pass pass = {};
    pass.key = trial->key;
    pass.compiled = trial->kernel;
    pass.is_trial = true;
    pass.table = stencil_table_of(plan->table);
    pass.g = &g;
    pass.operands = none;
    pass.device_table = (const struct stencil_table *)trial->device_table;
    pass.room = trial->room;
    pass.room_bytes = trial->room_bytes;
    const cudaError_t error = put_pass(&pass, trial->in, trial->out);
    memcpy(low, g.low, sizeof g.low);
    memcpy(high, g.high, sizeof g.high);
    return error;
}
