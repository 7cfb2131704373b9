#include "gpu/worker/ids.h"

#include <stdlib.h>

static size_t home(const struct ids *ids, uint64_t id)
{
    return (size_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (ids->capacity - 1);
}

/* The slot that holds the id, or the empty one where it belongs. */
static struct ids_slot *probe(const struct ids *ids, uint64_t id)
{
    size_t slot = home(ids, id);
    while (ids->slots[slot].id && ids->slots[slot].id != id)
        slot = (slot + 1) & (ids->capacity - 1);
    return &ids->slots[slot];
}

void *ids_find(const struct ids *ids, uint64_t id)
{
    return ids->capacity && id ? probe(ids, id)->item : NULL;
}

static bool grow(struct ids *ids)
{
    struct ids larger = {.count = ids->count, .capacity = ids->capacity ? 2 * ids->capacity : 64};
    larger.slots = calloc(larger.capacity, sizeof *larger.slots);
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < ids->capacity; i++)
        if (ids->slots[i].id)
            *probe(&larger, ids->slots[i].id) = ids->slots[i];
    free(ids->slots);
    *ids = larger;
    return true;
}

bool ids_add(struct ids *ids, uint64_t id, void *item)
{
    if (2 * (ids->count + 1) > ids->capacity && !grow(ids))
        return false;
    struct ids_slot *slot = probe(ids, id);
    if (slot->id)
        return false;
    *slot = (struct ids_slot){id, item};
    ids->count++;
    return true;
}

void ids_remove(struct ids *ids, uint64_t id)
{
    const size_t mask = ids->capacity - 1;
    size_t hole = (size_t)(probe(ids, id) - ids->slots);
    ids->slots[hole] = (struct ids_slot){0};
    ids->count--;
    /* Move back what was pushed past the hole, so that no search stops short of it. */
    for (size_t slot = (hole + 1) & mask; ids->slots[slot].id; slot = (slot + 1) & mask) {
        const size_t wanted = home(ids, ids->slots[slot].id);
        if (((slot - wanted) & mask) >= ((slot - hole) & mask)) {
            ids->slots[hole] = ids->slots[slot];
            ids->slots[slot] = (struct ids_slot){0};
            hole = slot;
        }
    }
}

void ids_free(struct ids *ids)
{
    free(ids->slots);
    *ids = (struct ids){0};
}
