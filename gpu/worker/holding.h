/* The arrays that a worker holds, by the front's ids, and who uses them now. One thread. */
#pragma once

#include "gpu/worker/ids.h"

#include <stdbool.h>
#include <stdint.h>

/* Device memory. Two arrays of one size may exchange theirs. */
struct block {
    void *memory; /* NULL: there was none to be had */
    uint64_t bytes;
    uint64_t owner;
};

struct holding {
    uint64_t id;
    struct block block;
    bool failed;      /* there was no memory to carry out an upload to it */
    uint32_t uploads; /* begun and not completed */
    uint32_t downloads;
    uint32_t region_uploads; /* of uploads those that are begun slab by slab */
    uint32_t readers;        /* unfinished jobs that read it */
    uint32_t writers;        /* unfinished jobs that write it */
};

/* NULL where there is none. */
struct holding *holdings_find(const struct ids *holdings, uint64_t id);
/* Take in a new one, zeroed but for its id. NULL where the id is taken or there is no memory. */
struct holding *holdings_add(struct ids *holdings, uint64_t id);
/* Forget one and free it; its block is the caller's to release before. */
void holdings_remove(struct ids *holdings, struct holding *holding);
/* Free the table and what is left in it, but for the blocks. */
void holdings_free(struct ids *holdings);
