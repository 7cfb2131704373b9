/* What a plan holds beside its own numbers. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/cdefs.h>

__BEGIN_DECLS

/* Rows of weights and whatever else is too much for a plan: bytes without pointers, in an order
 * that its engine knows, made once and never changed. */
struct plan_table {
    uint64_t serial; /* never used twice in a process: a device's copy is known by it */
    uint64_t bytes;
    /* bytes follow, at a multiple of 64: plan_table_rows() */
};

enum { PLAN_TABLE_ALIGN = 64 };

/* A table of so many bytes, all 0: free() it. NULL: no memory. */
struct plan_table *plan_table_new(uint64_t bytes);
void *plan_table_rows(const struct plan_table *table);
/* Make it longer by so many bytes; *table: another one, or the first one where it is NULL. False:
 * no memory, and *table is as it was. */
bool plan_table_grow(struct plan_table **table, uint64_t bytes);

__END_DECLS
