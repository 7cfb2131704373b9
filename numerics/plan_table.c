#include "numerics/plan_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct plan_table *plan_table_new(uint64_t bytes)
{
    static_assert(sizeof(struct plan_table) <= PLAN_TABLE_ALIGN, "before the bytes");
    static _Atomic uint64_t serial;
    const uint64_t align = PLAN_TABLE_ALIGN;
    const uint64_t all = align + (bytes + align - 1) / align * align;
    struct plan_table *table = aligned_alloc(align, all);
    if (!table)
        return NULL;
    memset(table, 0, all);
    table->serial = ++serial;
    table->bytes = bytes;
    return table;
}

bool plan_table_grow(struct plan_table **table, uint64_t bytes)
{
    const uint64_t before = *table ? (*table)->bytes : 0;
    struct plan_table *longer = plan_table_new(before + bytes);
    if (!longer)
        return false;
    if (*table)
        memcpy(plan_table_rows(longer), plan_table_rows(*table), before);
    free(*table);
    *table = longer;
    return true;
}

void *plan_table_rows(const struct plan_table *table)
{
    return (char *)(uintptr_t)table + PLAN_TABLE_ALIGN;
}
