#include "gpu/worker/transfer.h"

#include <string.h>

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static int count(bool to[AXIS_COUNT], const bool from[AXIS_COUNT])
{
    int n = 0;
    for (int i = 0; i < AXIS_COUNT; i++)
        n += to[i] = from[i];
    return n;
}

/* As many of the bytes as are whole units, and of the grain of parts, where these are smaller. */
static uint64_t whole_units(const struct transfer *t, uint64_t bytes)
{
    const uint64_t grain_bytes = t->split.grain * t->unit_bytes;
    const uint64_t of = bytes < grain_bytes ? t->unit_bytes : grain_bytes;
    return bytes < of ? bytes : bytes / of * of;
}

void transfer_init(struct transfer *t, const struct plan *plan, const bool in[AXIS_COUNT],
                   const bool out[AXIS_COUNT], uint64_t slab_bytes)
{
    memset(t, 0, sizeof *t);
    t->split = split_of(plan);
    t->lines = plan->lines;
    t->whole = plan->passes > 1 || !plan->plain || plan->probes > 0;
    t->inputs = count(t->in, in);
    t->outputs = count(t->out, out);
    const uint64_t line_bytes = (uint64_t)plan->axis[AXIS_X].n * plan_element_bytes(plan);
    t->array_bytes = plan->lines * line_bytes;
    struct split *split = &t->split;
    if (t->whole || split->units * split->unit_lines * line_bytes <= slab_bytes) {
        /* Fields as units: no field waits for another. */
        split->unit_lines *= split->units;
        split->units = split->fields;
        split->fields = 1;
        split->reach = 0;
        split->wraps = false;
    }
    t->unit_bytes = split->unit_lines * line_bytes;
    t->field_bytes = split->units * t->unit_bytes;
    t->slab_bytes = whole_units(t, slab_bytes);
    if (split->wraps && split->reach < split->units)
        t->tail = split->reach;
}

void transfer_init_copy(struct transfer *t, uint64_t bytes, bool in, uint64_t slab_bytes)
{
    memset(t, 0, sizeof *t);
    t->split = (struct split){.unit_lines = 1, .units = 1, .fields = 1, .grain = 1};
    t->unit_bytes = t->field_bytes = t->array_bytes = bytes;
    t->slab_bytes = slab_bytes;
    t->in[0] = in;
    t->out[0] = !in;
    t->inputs = in ? 1 : 0;
    t->outputs = t->launches = in ? 0 : 1;
    t->launch_ends[0] = bytes;
}

/* The component at or after `i` that has a place; AXIS_COUNT: none. */
static int placed(const bool has[AXIS_COUNT], int i)
{
    while (i < AXIS_COUNT && !has[i])
        i++;
    return i;
}

/* The next component takes the slab too or, after the last, all have it. */
static void advance_component(const bool has[AXIS_COUNT], int *component, uint64_t *position,
                              uint64_t bytes)
{
    *component = placed(has, *component + 1);
    if (*component == AXIS_COUNT) {
        *component = 0;
        *position += bytes;
    }
}

/* --- in --- */

bool transfer_can_copy_in(const struct transfer *t)
{
    return t->inputs > 0 && t->in_bytes < t->array_bytes;
}

bool transfer_copy_in(struct transfer *t, struct slab *slab)
{
    if (!transfer_can_copy_in(t))
        return false;
    const uint64_t tail = t->tail * t->unit_bytes, at = t->in_bytes % t->field_bytes;
    const uint64_t field = t->in_bytes - at;
    t->in_component = placed(t->in, t->in_component);
    *slab = (struct slab){.component = t->in_component};
    slab->offset = field + (at < tail ? t->field_bytes - tail + at : at - tail);
    slab->bytes = smaller(t->slab_bytes, at < tail ? tail - at : t->field_bytes - at);
    advance_component(t->in, &t->in_component, &t->in_bytes, slab->bytes);
    t->under_way++;
    return true;
}

/* --- lines --- */

/* Units of a field that can be computed, from its first. */
static uint64_t ready_units(const struct transfer *t, uint64_t field)
{
    const struct split *split = &t->split;
    const uint64_t begin = field * t->field_bytes, tail = t->tail * t->unit_bytes;
    if (t->inputs == 0 || t->in_bytes >= begin + t->field_bytes)
        return split->units;
    if (t->in_bytes < begin + tail)
        return 0;
    const uint64_t units = (t->in_bytes - begin - tail) / t->unit_bytes;
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
    if (!t->whole) { /* about a slab */
        uint64_t most = t->slab_bytes / t->unit_bytes;
        most = most < split->grain ? split->grain : most / split->grain * split->grain;
        if (begin + most + split->reach <= split->units)
            end = smaller(ready, begin + most);
    }
    part->from = t->computed;
    part->to = (field * split->units + end) * split->unit_lines;
    part->launch = t->first_launch + t->launches;
    t->computed = part->to;
    if (t->outputs > 0 && !t->whole) {
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
    if (t->outputs > 0) {
        t->launch_ends[t->first_launch % TRANSFER_LAUNCHES] = t->array_bytes;
        t->launches = 1;
    }
}

/* --- out --- */

bool transfer_can_copy_out(const struct transfer *t)
{
    return t->launches > 0;
}

bool transfer_copy_out(struct transfer *t, struct slab *slab)
{
    if (!transfer_can_copy_out(t))
        return false;
    const uint64_t end = t->launch_ends[t->first_launch % TRANSFER_LAUNCHES];
    t->out_component = placed(t->out, t->out_component);
    *slab = (struct slab){.component = t->out_component,
                          .offset = t->out_bytes,
                          .bytes = smaller(t->slab_bytes, end - t->out_bytes),
                          .launch = t->first_launch};
    advance_component(t->out, &t->out_component, &t->out_bytes, slab->bytes);
    if (t->out_bytes == end) {
        t->first_launch++;
        t->launches--;
    }
    t->under_way++;
    return true;
}

void transfer_completed(struct transfer *t)
{
    t->under_way--;
}

bool transfer_is_done(const struct transfer *t)
{
    return t->under_way == 0 && t->computed == t->lines && !transfer_can_copy_in(t) &&
           (t->outputs == 0 || t->out_bytes == t->array_bytes);
}
