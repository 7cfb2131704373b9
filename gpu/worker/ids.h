/* What the front names by ids: a table from id to item. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ids_slot {
    uint64_t id; /* 0: empty */
    void *item;
};

struct ids {
    struct ids_slot *slots; /* open addressing */
    size_t count, capacity; /* capacity: a power of two, or 0 */
};

/* NULL where there is none. */
void *ids_find(const struct ids *ids, uint64_t id);
/* id ≠ 0. False where it is taken or there is no memory. */
bool ids_add(struct ids *ids, uint64_t id, void *item);
/* Forget one that is there; the item is the caller's. */
void ids_remove(struct ids *ids, uint64_t id);
/* Free the table, not the items. */
void ids_free(struct ids *ids);
