#include "gpu/worker/transfer.h"

#include <string.h>

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void set_places(struct transfer_way *way, const bool has[AXIS_COUNT])
{
    for (int i = 0; i < AXIS_COUNT; i++)
        way->count += way->has[i] = has[i];
}

/* As many of the bytes as are whole units, and of the grain of parts, where these are smaller. */
static uint64_t whole_units(const struct transfer *t, uint64_t bytes)
{
    const uint64_t grain_bytes = t->split.grain * t->unit_bytes;
    const uint64_t of = bytes < grain_bytes ? t->unit_bytes : grain_bytes;
    return bytes < of ? bytes : bytes / of * of;
}

void transfer_init(struct transfer *t, const struct plan *plan, const bool in[AXIS_COUNT],
                   const bool out[AXIS_COUNT], uint64_t chunk_bytes)
{
    memset(t, 0, sizeof *t);
    t->split = split_of(plan);
    t->lines = plan->lines;
    t->whole = plan->passes > 1 || !plan->plain || plan->probes > 0;
    set_places(&t->ways[WAY_IN], in);
    set_places(&t->ways[WAY_OUT], out);
    const uint64_t line_bytes = (uint64_t)plan->axis[AXIS_X].n * plan_element_bytes(plan);
    t->array_bytes = plan->lines * line_bytes;
    struct split *split = &t->split;
    if (t->whole || split->units * split->unit_lines * line_bytes <= chunk_bytes) {
        /* Fields as units: no field waits for another. */
        split->unit_lines *= split->units;
        split->units = split->fields;
        split->fields = 1;
        split->reach = 0;
        split->wraps = false;
    }
    t->unit_bytes = split->unit_lines * line_bytes;
    t->field_bytes = split->units * t->unit_bytes;
    t->chunk_bytes = whole_units(t, chunk_bytes);
    if (split->wraps && split->reach < split->units)
        t->tail = split->reach;
}

void transfer_init_copy(struct transfer *t, uint64_t bytes, enum way way, uint64_t chunk_bytes)
{
    memset(t, 0, sizeof *t);
    t->split = (struct split){.unit_lines = 1, .units = 1, .fields = 1, .grain = 1};
    t->unit_bytes = t->field_bytes = t->array_bytes = bytes;
    t->chunk_bytes = chunk_bytes;
    set_places(&t->ways[way], (const bool[AXIS_COUNT]){true});
    t->launches = way == WAY_OUT;
    t->launch_ends[0] = bytes;
}

/* --- copies --- */

bool transfer_can_copy(const struct transfer *t, enum way way)
{
    const struct transfer_way *in = &t->ways[WAY_IN];
    return way == WAY_OUT ? t->launches > 0 : in->count > 0 && in->bytes < t->array_bytes;
}

/* The component that is next; AXIS_COUNT: all after `from` have the chunk. */
static int next_component(const struct transfer_way *way, int from)
{
    while (from < AXIS_COUNT && !way->has[from])
        from++;
    return from;
}

/* Where the next input chunk lies. */
static void place_input(const struct transfer *t, struct chunk *chunk)
{
    const uint64_t tail = t->tail * t->unit_bytes, at = t->ways[WAY_IN].bytes % t->field_bytes;
    const uint64_t field = t->ways[WAY_IN].bytes - at;
    chunk->offset = field + (at < tail ? t->field_bytes - tail + at : at - tail);
    chunk->bytes = smaller(t->chunk_bytes, at < tail ? tail - at : t->field_bytes - at);
}

bool transfer_copy(struct transfer *t, enum way way, struct chunk *chunk)
{
    struct transfer_way *const w = &t->ways[way];
    const uint64_t end = t->launch_ends[t->first_launch % TRANSFER_LAUNCHES];
    if (!transfer_can_copy(t, way))
        return false;
    w->component = next_component(w, w->component);
    *chunk = (struct chunk){.component = w->component,
                            .offset = w->bytes,
                            .bytes = smaller(t->chunk_bytes, end - w->bytes),
                            .launch = t->first_launch};
    if (way == WAY_IN)
        place_input(t, chunk);
    w->component = next_component(w, w->component + 1);
    if (w->component == AXIS_COUNT) {
        w->component = 0;
        w->bytes += chunk->bytes;
    }
    if (way == WAY_OUT && w->bytes == end) {
        t->first_launch++;
        t->launches--;
    }
    t->under_way++;
    return true;
}

/* --- lines --- */

/* Units of a field that can be computed, from its first. */
static uint64_t ready_units(const struct transfer *t, uint64_t field)
{
    const struct split *split = &t->split;
    const uint64_t begin = field * t->field_bytes, tail = t->tail * t->unit_bytes;
    const uint64_t in_bytes = t->ways[WAY_IN].bytes;
    if (t->ways[WAY_IN].count == 0 || in_bytes >= begin + t->field_bytes)
        return split->units;
    if (in_bytes < begin + tail)
        return 0;
    const uint64_t units = (in_bytes - begin - tail) / t->unit_bytes;
    return units > split->reach ? (units - split->reach) / split->grain * split->grain : 0;
}

bool transfer_compute(struct transfer *t, struct part *part)
{
    const struct split *split = &t->split;
    if (t->computed == t->lines || t->launches == TRANSFER_LAUNCHES)
        return false;
    const uint64_t unit = t->computed / split->unit_lines;
    const uint64_t field = unit / split->units, begin = unit % split->units;
    const uint64_t ready = ready_units(t, field);
    if (ready <= begin || (t->whole && ready < split->units))
        return false;
    uint64_t end = ready;
    if (!t->whole) { /* about a chunk */
        uint64_t most = t->chunk_bytes / t->unit_bytes;
        most = most < split->grain ? split->grain : most / split->grain * split->grain;
        if (begin + most + split->reach <= split->units)
            end = smaller(ready, begin + most);
    }
    part->from = t->computed;
    part->to = (field * split->units + end) * split->unit_lines;
    part->launch = t->first_launch + t->launches;
    t->computed = part->to;
    if (t->ways[WAY_OUT].count > 0 && !t->whole) {
        t->launch_ends[part->launch % TRANSFER_LAUNCHES] =
            part->to / split->unit_lines * t->unit_bytes;
        t->launches++;
    }
    t->under_way++;
    return true;
}

void transfer_passes_completed(struct transfer *t)
{
    t->under_way--;
    if (t->ways[WAY_OUT].count > 0) {
        t->launch_ends[t->first_launch % TRANSFER_LAUNCHES] = t->array_bytes;
        t->launches = 1;
    }
}

void transfer_completed(struct transfer *t)
{
    t->under_way--;
}

bool transfer_is_done(const struct transfer *t)
{
    return t->under_way == 0 && t->computed == t->lines && !transfer_can_copy(t, WAY_IN) &&
           (t->ways[WAY_OUT].count == 0 || t->ways[WAY_OUT].bytes == t->array_bytes);
}
