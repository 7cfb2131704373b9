#include "gpu/worker/holding.h"

#include <stdlib.h>

struct holding *holdings_find(const struct ids *holdings, uint64_t id)
{
    return ids_find(holdings, id);
}

struct holding *holdings_add(struct ids *holdings, uint64_t id)
{
    struct holding *holding = calloc(1, sizeof *holding);
    if (holding && ids_add(holdings, id, holding)) {
        holding->id = id;
        return holding;
    }
    free(holding);
    return NULL;
}

void holdings_remove(struct ids *holdings, struct holding *holding)
{
    ids_remove(holdings, holding->id);
    free(holding);
}

void holdings_free(struct ids *holdings)
{
    for (size_t i = 0; i < holdings->capacity; i++)
        free(holdings->slots[i].item);
    ids_free(holdings);
}
