/* Memory that the client and its server share: a sealed memfd, mapped here, registered there.
 * Either the caller's, from fdclient_alloc(), or of the pool that ordinary arrays are copied
 * through. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum region_state {
    REGION_ASKED, /* `register` is under way, or was never sent */
    REGION_READY,
    REGION_REFUSED, /* plain memory: the server did not take it */
    REGION_SPENT    /* of the pool: no longer safe to go on with (connection.c says when); to be
                       dropped */
};

struct region {
    struct region *next;
    uint8_t *memory;
    size_t bytes;
    int descriptor; /* owned until `register` is sent; −1 */
    uint64_t id;    /* on the wire; READY */
    enum region_state state;
    bool pooled;
    bool busy; /* POOLED: a job uses it */
};

/* A new one of exactly that size. NULL: no memory. */
struct region *region_make(size_t bytes, bool pooled);
void region_free(struct region *region);

/* What to make for the pool so that an array of that size fits: a few sizes for all, so that arrays
 * of a similar one share. */
size_t region_pool_bytes(size_t bytes);

/* The ready region that holds the whole array at an offset that the server takes, and that is not
 * the pool's. NULL: none. */
struct region *region_around(struct region *first, const void *data, size_t bytes);

/* The smallest idle region of the pool that the array fits in, and that is not much too large for
 * it. NULL: none. */
struct region *region_idle(struct region *first, size_t bytes);
