#include "gpu/host/measure.h"

#include "gpu/host/share.h"
#include "numerics/measure.h"

/* The lanes of a block side by side, so that a vector's can be theirs. */
struct lanes {
    double min[MEASURE_LANES], max[MEASURE_LANES], sum[MEASURE_LANES], nan[MEASURE_LANES];
};

static inline struct measured lane_get(const struct lanes *lanes, int i)
{
    return (struct measured){lanes->min[i], lanes->max[i], lanes->sum[i], lanes->nan[i]};
}

static inline void lane_set(struct lanes *lanes, int i, const struct measured *measured)
{
    lanes->min[i] = measured->min;
    lanes->max[i] = measured->max;
    lanes->sum[i] = measured->sum;
    lanes->nan[i] = measured->nan;
}

static struct measured join_lanes(struct lanes *lanes)
{
    for (int apart = MEASURE_LANES / 2; apart; apart /= 2)
        for (int i = 0; i < apart; i++) {
            struct measured low = lane_get(lanes, i);
            const struct measured high = lane_get(lanes, i + apart);
            measured_join(&low, &high);
            lane_set(lanes, i, &low);
        }
    return lane_get(lanes, 0);
}

/* MEASURE(name, type, take): one block, of elements [from, to) of a (and b). */
#define MEASURE(name, type, take)                                                                  \
    static struct measured name(const void *first, const void *second, uint64_t from, uint64_t to) \
    {                                                                                              \
        const type *a = first, *b = second;                                                        \
        const struct measured none = measured_none();                                              \
        struct lanes lanes;                                                                        \
        (void)b;                                                                                   \
        for (int lane = 0; lane < MEASURE_LANES; lane++)                                           \
            lane_set(&lanes, lane, &none);                                                         \
        for (uint64_t row = from; row < to; row += MEASURE_LANES) {                                \
            const int count = to - row < MEASURE_LANES ? (int)(to - row) : MEASURE_LANES;          \
            for (int lane = 0; lane < count; lane++) {                                             \
                const uint64_t i = row + (uint64_t)lane;                                           \
                struct measured all = lane_get(&lanes, lane);                                      \
                take;                                                                              \
                lane_set(&lanes, lane, &all);                                                      \
            }                                                                                      \
        }                                                                                          \
        return join_lanes(&lanes);                                                                 \
    }

MEASURE(values_f32, float, measured_value(&all, (double)a[i]))
MEASURE(values_f64, double, measured_value(&all, a[i]))
MEASURE(distances_f32, float, measured_distance(&all, (double)a[i], (double)b[i]))
MEASURE(distances_f64, double, measured_distance(&all, a[i], b[i]))
MEASURE(results, struct measured, measured_join(&all, &a[i]))

typedef struct measured block_measure(const void *a, const void *b, uint64_t from, uint64_t to);

struct blocks {
    block_measure *measure;
    const void *a, *b;
    uint64_t count, first; /* elements in all; the first block */
    struct measured *to;
};

static void measure_blocks_from(void *context, int64_t from, int64_t to)
{
    const struct blocks *blocks = context;
    for (uint64_t block = blocks->first + (uint64_t)from; block < blocks->first + (uint64_t)to;
         block++) {
        const uint64_t begin = block * MEASURE_BLOCK;
        const uint64_t left = blocks->count - begin;
        blocks->to[block] = blocks->measure(blocks->a, blocks->b, begin,
                                            begin + (left < MEASURE_BLOCK ? left : MEASURE_BLOCK));
    }
}

/* Blocks [first, end) of `count` elements. */
static void measure_blocks_of(block_measure *measure, const void *a, const void *b, uint64_t count,
                              uint64_t first, uint64_t end, struct measured *to)
{
    struct blocks blocks = {measure, a, b, count, first, to};
    const int64_t number = (int64_t)(end - first);
    share_units(number, number * MEASURE_BLOCK, measure_blocks_from, &blocks);
}

void measure_pass(const struct launch *launch)
{
    static block_measure *const of[2][2] = {
        [DTYPE_F32] = {values_f32, distances_f32},
        [DTYPE_F64] = {values_f64, distances_f64},
    };
    const struct plan *plan = launch->plan;
    struct measured *to = launch->even[0];
    uint64_t count = plan->points, blocks = measure_blocks(count);
    if (plan->inputs) {
        measure_blocks_of(of[plan->dtype][plan->inputs == 2], launch->in[0], launch->in[1], count,
                          launch->from, launch->to, to);
    } else {
        const struct measured *given = to;
        to += count;
        measure_blocks_of(results, given, NULL, count, launch->from, launch->to, to);
    }
    while (launch->to == plan->lines && blocks > 1) {
        const struct measured *from = to;
        to += blocks;
        count = blocks;
        blocks = measure_blocks(count);
        measure_blocks_of(results, from, NULL, count, 0, blocks, to);
    }
}
