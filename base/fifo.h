/* Room for items that are added at the end and taken from the front. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Make room for one more item of so many bytes behind the `count` that begin at *first. The items
 * may move, but where there is memory only if that frees more than half of the room: each moves
 * once on average. False: no memory, and nothing has changed. */
static inline bool fifo_make_room(void **items, uint32_t *first, uint32_t count, uint32_t *capacity,
                                  size_t bytes)
{
    if (*first + count < *capacity)
        return true;
    const uint32_t more = *capacity ? *capacity * 2 : 64;
    const bool grows = count >= *capacity / 2 && *capacity <= UINT32_MAX / 2;
    void *grown = grows ? realloc(*items, more * bytes) : NULL;
    if (grown) {
        *items = grown;
        *capacity = more;
        return true;
    }
    if (count == *capacity)
        return false;
    memmove(*items, (uint8_t *)*items + *first * bytes, count * bytes);
    *first = 0;
    return true;
}
