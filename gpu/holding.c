#include "gpu/holding.h"

#include <stdbool.h>
#include <stdlib.h>

static size_t home(const struct holdings *holdings, uint64_t id)
{
    return (size_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (holdings->capacity - 1);
}

/* The slot that holds the id, or the empty one where it belongs. */
static size_t probe(const struct holdings *holdings, uint64_t id)
{
    size_t slot = home(holdings, id);
    while (holdings->slots[slot] && holdings->slots[slot]->id != id)
        slot = (slot + 1) & (holdings->capacity - 1);
    return slot;
}

struct holding *holdings_find(const struct holdings *holdings, uint64_t id)
{
    return holdings->capacity ? holdings->slots[probe(holdings, id)] : NULL;
}

static bool grow(struct holdings *holdings)
{
    struct holdings larger = {.count = holdings->count,
                              .capacity = holdings->capacity ? 2 * holdings->capacity : 64};
    larger.slots = calloc(larger.capacity, sizeof(struct holding *));
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < holdings->capacity; i++) {
        if (holdings->slots[i])
            larger.slots[probe(&larger, holdings->slots[i]->id)] = holdings->slots[i];
    }
    free(holdings->slots);
    *holdings = larger;
    return true;
}

struct holding *holdings_add(struct holdings *holdings, uint64_t id)
{
    if (2 * (holdings->count + 1) > holdings->capacity && !grow(holdings))
        return NULL;
    const size_t slot = probe(holdings, id);
    if (holdings->slots[slot])
        return NULL;
    struct holding *holding = calloc(1, sizeof *holding);
    if (!holding)
        return NULL;
    holding->id = id;
    holdings->slots[slot] = holding;
    holdings->count++;
    return holding;
}

void holdings_remove(struct holdings *holdings, struct holding *holding)
{
    const size_t mask = holdings->capacity - 1;
    size_t hole = probe(holdings, holding->id);
    free(holding);
    holdings->slots[hole] = NULL;
    holdings->count--;
    /* Move back what was pushed past the hole, so that no search stops short of it. */
    for (size_t slot = (hole + 1) & mask; holdings->slots[slot]; slot = (slot + 1) & mask) {
        const size_t wanted = home(holdings, holdings->slots[slot]->id);
        if (((slot - wanted) & mask) >= ((slot - hole) & mask)) {
            holdings->slots[hole] = holdings->slots[slot];
            holdings->slots[slot] = NULL;
            hole = slot;
        }
    }
}

void holdings_free(struct holdings *holdings)
{
    for (size_t i = 0; i < holdings->capacity; i++)
        free(holdings->slots[i]);
    free(holdings->slots);
    *holdings = (struct holdings){0};
}
