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

/* The end of these blocks in the array's elements. */
static uint64_t end_of(const struct group_run *run, struct subdomain blocks)
{
    const uint64_t all = run->cut.planes * plane_elements(run), end = blocks.end * MEASURE_BLOCK;
    return end < all ? end : all;
}

uint64_t group_measure_reads(const struct group_run *run)
{
    return run->order->sums ? run->in[0]->parts->behind : 0;
}

void group_measure_fetch(struct group_run *run, struct field *field)
{
    const struct field_parts *parts = field->parts;
    const uint64_t element = dtype_element_bytes(field->type.dtype);
    for (uint32_t i = 0; i + 1 < parts->count; i++) {
        const struct subdomain own = subdomain_of(parts->planes, parts->count, i),
                               blocks = blocks_of(run, i);
        const uint64_t end = blocks.begin < blocks.end ? end_of(run, blocks) * element : 0;
        for (uint64_t at = own.end * parts->plane_bytes, bytes; at < end; at += bytes) {
            const uint64_t stretch = field_stretch(field, at),
                           first = own.begin * parts->plane_bytes,
                           there = SUBDOMAIN_GHOSTS * parts->plane_bytes + at - first;
            uint64_t from;
            struct field *part = field_at(field, at, &from);
            bytes = stretch < end - at ? stretch : end - at;
            group_exchange_part(run, part, from, parts->at[i], there, bytes);
        }
    }
}

bool group_measure_joins(const struct group_run *run)
{
    return run->order && run->order->kind == ORDER_MEASURE && run->rounds == 2;
}

bool group_measure_is_last(const struct group_run *run)
{
    return !run->order->sums || group_measure_joins(run) ||
           measure_blocks(run->cut.planes * plane_elements(run)) == 1;
}

bool group_measure_part(const struct group_run *run, uint32_t i, struct order *order)
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
        return true;
    }
    if (run->order->sums) {
        const struct subdomain blocks = blocks_of(run, i);
        order->measured = measured_none();
        if (blocks.begin == blocks.end)
            return false;
        begin = blocks.begin * MEASURE_BLOCK;
        end = end_of(run, blocks);
        order->ahead += (begin - own.begin * elements) * of;
    }
    order->behind = order->in[0]->type.bytes - order->ahead - (end - begin) * of;
    return true;
}

/* The first member's begin its array, where they are. */
void group_measure_gather(struct group_run *run)
{
    for (uint32_t i = 1; i < run->cut.count; i++) {
        const struct subdomain blocks = blocks_of(run, i);
        struct field *const *parts = run->out[0]->parts->at;
        if (blocks.begin < blocks.end)
            group_exchange_part(run, parts[i], 0, parts[0], blocks.begin * sizeof(struct measured),
                                (blocks.end - blocks.begin) * sizeof(struct measured));
    }
}
