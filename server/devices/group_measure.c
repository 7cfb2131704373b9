#include "server/devices/group_run.h"

/* Elements of a plane of the array that it measures. */
static uint64_t plane_elements(const struct group_run *run)
{
    const struct field *array = run->in[0];
    return array->parts->plane_bytes / dtype_element_bytes(array->type.dtype);
}

static struct subdomain blocks_of(const struct group_run *run, uint32_t i)
{
    return subdomain_blocks(run->cut.planes, plane_elements(run), run->cut.count, i);
}

uint64_t group_measure_ghosts(const struct group_run *run)
{
    const bool reads = run->order->sums && run->rounds == 0;
    return reads ? subdomain_block_ghosts(run->cut.planes, plane_elements(run), run->cut.count) : 0;
}

bool group_measure_joins(const struct group_run *run)
{
    return run->order && run->order->kind == ORDER_MEASURE && run->rounds == 2;
}

void group_measure_part(const struct group_run *run, uint32_t i, struct order *order)
{
    const struct decomposition *cut = &run->cut;
    const uint64_t elements = plane_elements(run), all = cut->planes * elements,
                   of = dtype_element_bytes(run->in[0]->type.dtype);
    const struct subdomain own = subdomain_of(cut->planes, cut->count, i);
    uint64_t begin = own.begin * elements, end = own.end * elements;
    if (group_measure_joins(run)) {
        order->in[0] = order->out[0];
        order->in[1] = NULL;
        order->ahead = 0;
        order->behind = order->in[0]->type.bytes - measure_blocks(all) * sizeof(struct measured);
        return;
    }
    if (run->order->sums) {
        const struct subdomain blocks = blocks_of(run, i);
        begin = blocks.begin * MEASURE_BLOCK;
        end = blocks.end * MEASURE_BLOCK < all ? blocks.end * MEASURE_BLOCK : all;
        order->ahead += (begin - own.begin * elements) * of;
    }
    order->behind = order->in[0]->type.bytes - order->ahead - (end - begin) * of;
}

/* The first member's begin its array, where they are. */
void group_measure_gather(struct group_run *run)
{
    for (uint32_t i = 1; i < run->cut.count; i++) {
        const struct subdomain blocks = blocks_of(run, i);
        struct field *const *parts = run->out[0]->parts->at;
        group_exchange_part(run, parts[i], 0, parts[0], blocks.begin * sizeof(struct measured),
                            (blocks.end - blocks.begin) * sizeof(struct measured));
    }
}
