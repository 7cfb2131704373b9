/* Diffusion in 3D, S steps in one pass over memory, or a step of RK4: how the kernel of
 * temporal_blocking_3d.cuh is launched, and where it pays. */
#include "gpu/cuda/temporal_blocking_3d.cuh"

/* run(T(), R) of the plan's type and radius, 1 or 2: a constant. */
template <typename Run> static auto temporal_3d_typed(const struct plan *plan, const Run &run)
{
    return with_flag(plan->radius == 1, [&](auto one) {
        const std::integral_constant<int, decltype(one)::value ? 1 : 2> radius;
        return with_type(plan, [&](auto type) { return run(type, radius); });
    });
}

/* The tiles and the length of marches that take the fewest planes one after another on a device
 * whose every multiprocessor runs one block at a time: their number. */
template <typename T, int R>
static int64_t temporal_3d_divide(temporal_3d_shape<T, R> *shape, const struct geometry *g,
                                  int steps)
{
    using is = temporal_3d<T, R, 1>;
    const struct plan_axis *axis = g->plan->axis;
    const int overlap = 2 * steps * R, packs = (int)blocks_of(axis[AXIS_X].n, is::V),
              halo = (int)blocks_of(steps * R, is::V);
    const int start = 4; /* planes: as long as a block takes to get going */
    const int64_t depth = g->end[AXIS_Z] - g->begin[AXIS_Z];
    int64_t least = INT64_MAX;
    shape->begin = (int32_t)g->begin[AXIS_Z];
    shape->end = (int32_t)g->end[AXIS_Z];
    shape->halo = halo * is::V;
    for (int tiles_x = 1; tiles_x <= (int)blocks_of(packs, 12); tiles_x++) {
        const int width = (int)blocks_of(packs, tiles_x), lanes = width + 2 * halo;
        const int height = is::THREADS / lanes * is::ROWS - overlap;
        if (height <= 0)
            continue;
        const int tiles_y = (int)blocks_of(axis[AXIS_Y].n, height);
        const int64_t tiles = (int64_t)tiles_x * tiles_y * (int64_t)g->plan->batch;
        for (int more = 1; more <= 4; more++) { /* … than what one march for each tile fills */
            const int64_t waves = (tiles - 1) / g->units + more;
            const int length = (int)blocks_of(depth, waves * g->units / tiles);
            const int64_t blocks = tiles * (int)blocks_of(depth, length);
            const int64_t planes = blocks_of(blocks, g->units) * (length + overlap + start);
            if (planes >= least)
                continue;
            least = planes;
            shape->tiles_x = (int)blocks_of(packs, width);
            shape->tiles_y = tiles_y;
            shape->marches = (int)blocks_of(depth, length);
            shape->lanes = lanes;
            shape->results[AXIS_X] = width * is::V;
            shape->results[AXIS_Y] = height;
            shape->results[AXIS_Z] = length;
        }
    }
    return least;
}

template <typename T, int R, int S, bool NESTED, bool EQUAL, bool PLAIN>
static cudaError_t temporal_3d_run(const struct geometry *g, const void *in, void *out, int steps)
{
    using is = temporal_3d<T, R, S, NESTED>;
    const struct plan *plan = g->plan;
    temporal_3d_shape<T, R> shape = {};
    for (int a = 0; a < AXIS_COUNT; a++) {
        const struct table_axis *axis = &table_of(plan)->axis_of[a];
        shape.images[a] = images_of<int32_t>(axis->side, axis->n);
        for (int side = 0; side < SIDE_COUNT; side++) {
            shape.held[a][side] = axis->side[side].held;
            shape.factor[a][side] = axis->side[side].halo ? (T)axis->side[side].value.number : (T)1;
        }
    }
    for (int set = 0; set < (NESTED ? S : 1); set++) {
        struct table_pass pass = {};
        pass.set = set;
        shape.weights[set] = weights_of<T, R>(plan, &pass);
    }
    shape.plane = plan->axis[AXIS_Z].stride;
    shape.field = (int64_t)plan->points;
    shape.packs = plan->axis[AXIS_X].n % is::V == 0;
    shape.steps = steps;
    temporal_3d_divide(&shape, g, steps);
    shape.step = shape.results[AXIS_Z];
    if (g->apart) {
        shape.results[AXIS_Z] = shape.end - shape.begin;
        shape.step = (int32_t)g->apart;
        shape.marches = 2;
        shape.end += (int32_t)g->apart;
    }
    const int64_t blocks =
        (int64_t)shape.tiles_x * shape.tiles_y * shape.marches * (int64_t)plan->batch;
    const size_t shared = (is::RING + 2 * (steps - 1)) * is::PLANE * sizeof(T);
    return launch_kernel(temporal_3d_kernel<T, R, S, NESTED, EQUAL, PLAIN>, g, blocks,
                         dim3(is::THREADS), shared, shape, (const T *)in, (T *)out);
}

template <typename T, int R, int S, bool NESTED>
static cudaError_t temporal_3d_weighted(const struct geometry *g, const void *in, void *out,
                                        int steps)
{
    return with_flag(g->plan->shared, [&](auto equal) {
        return with_flag(steps == S && !g->plan->holds, [&](auto plain) {
            return temporal_3d_run<T, R, S, NESTED, decltype(equal)::value, decltype(plain)::value>(
                g, in, out, steps);
        });
    });
}

/* A block's shared memory is full with four steps, or a step of four stages, on an H200 (227 KB),
 * with three steps on an A100 (163 KB). */
template <typename T, int R> static int temporal_3d_fit(bool nested)
{
    using is = temporal_3d<T, R, 1>;
    constexpr int ring = temporal_3d<T, R, STAGE_PARTS, true>::RING;
    const int planes = block_shared_bytes() / (int)(is::PLANE * sizeof(T));
    if (nested)
        return R == 1 && planes >= ring + 2 * (STAGE_PARTS - 1) ? STAGE_PARTS : 0;
    const int steps = planes < is::RING ? 0 : (planes - is::RING) / 2 + 1;
    return steps < TEMPORAL_3D_MOST / R ? steps : TEMPORAL_3D_MOST / R;
}

/* Is all that a pass of RK4 adds to its u a sum of centred rows, but at points that are held? */
static bool temporal_3d_is_nested(const struct plan *plan)
{
    const struct table_header *header = table_of(plan);
    return plan->scheme == SCHEME_RK4 && plan->inner && !plan->indexed &&
           header->source == TABLE_SOURCE_NONE;
}

/* The side of an axis: images that evolve as their points do, or held points and nothing else. */
static bool temporal_3d_takes_side(const struct plan *plan, int a, int s)
{
    const struct table_header *header = table_of(plan);
    const struct side *side = &header->axis_of[a].side[s];
    const struct table_rows *rows = &header->rows[0][a];
    if (side->datum != SIDE_DATUM_NONE || (s == SIDE_LOW ? rows->low : rows->high) > side->held)
        return false;
    return side->held > 0 || side->map == SIDE_MAP_PERIODIC || side->map == SIDE_MAP_NODE;
}

extern "C" uint64_t temporal_blocking_3d_passes(const struct geometry *g)
{
    const struct plan *plan = g->plan;
    const bool nested = temporal_3d_is_nested(plan);
    if (plan->parity != PLAN_EVEN || !(nested || (plan->plain && plan->identity)) ||
        plan->radius > 2 || plan->axis[AXIS_Z].stride > INT32_MAX)
        return 0;
    for (int a = 0; a < AXIS_COUNT; a++) {
        const struct plan_axis *axis = &plan->axis[a];
        if (!axis->active || axis->n < TEMPORAL_3D_LEAST || axis->n > INT32_MAX / 4)
            return 0;
        for (int side = 0; side < SIDE_COUNT; side++)
            if (!temporal_3d_takes_side(plan, a, side))
                return 0;
    }
    return (uint64_t)temporal_3d_typed(plan, [&](auto type, auto radius) {
        return temporal_3d_fit<decltype(type), decltype(radius)::value>(nested);
    });
}

/* In small fields most of a block is overlap. At 512³, 1.6 points computed for each result, a step
 * takes 0.9 µs for a million points in float32; a single step in L2 takes about 1.5. */
extern "C" bool temporal_blocking_3d_pay(const struct geometry *g, uint64_t passes)
{
    const struct plan *plan = g->plan;
    const double computed = temporal_3d_typed(plan, [&](auto type, auto radius) {
        using T = decltype(type);
        temporal_3d_shape<T, decltype(radius)::value> shape; /* points computed for each result */
        const double planes = (double)temporal_3d_divide(&shape, g, (int)passes) * g->units;
        return planes * temporal_3d<T, decltype(radius)::value, 1>::PLANE /
               ((double)plan->points * (double)plan->batch);
    });
    return computed < 2.5;
}

extern "C" cudaError_t temporal_blocking_3d_launch(const struct geometry *g, const void *in,
                                                   void *out, uint64_t passes)
{
    return temporal_3d_typed(g->plan, [&](auto type, auto radius) {
        using T = decltype(type);
        constexpr int R = decltype(radius)::value;
        if constexpr (R == 1)
            if (g->plan->scheme == SCHEME_RK4)
                return temporal_3d_weighted<T, R, STAGE_PARTS, true>(g, in, out, (int)passes);
        return temporal_3d_weighted<T, R, TEMPORAL_3D_MOST / R, false>(g, in, out, (int)passes);
    });
}
