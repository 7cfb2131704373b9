#include "server/users/arena.h"

#include "base/log.h"
#include "base/rights.h"
#include "server/users/reserve.h"
#include "server/users/user.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SLABS_LEAST = 256, SLAB_BYTES_MOST = 1 << 20 };

bool arena_open(struct arena *arena, uint64_t bytes)
{
    memset(arena, 0, sizeof *arena);
    /* Large slabs make large copies; at least 256 of them keep many users moving. */
    arena->slab_bytes = 1 << 16;
    while (arena->slab_bytes < SLAB_BYTES_MOST && bytes / (arena->slab_bytes * 2) >= SLABS_LEAST)
        arena->slab_bytes *= 2;
    arena->slab_count = (uint32_t)(bytes / arena->slab_bytes);
    arena->bytes = (uint64_t)arena->slab_count * arena->slab_bytes;
    arena->slabs = calloc(arena->slab_count, sizeof *arena->slabs);
    arena->memory = rights_memory("fdserver-staging", arena->bytes, &arena->descriptor);
    if (!arena->memory || !arena->slabs) {
        log_error("staging arena of %llu bytes: %s", (unsigned long long)arena->bytes,
                  strerror(errno));
        arena_close(arena);
        return false;
    }
    arena->total[SHARE_UPLOAD] = arena->slab_count / 2;
    arena->total[SHARE_REPLY] = arena->slab_count - arena->total[SHARE_UPLOAD];
    for (uint32_t i = 0; i < arena->slab_count; i++) {
        arena->slabs[i].number = i;
        list_push(&arena->free, &arena->slabs[i].link);
    }
    return true;
}

void arena_close(struct arena *arena)
{
    if (arena->memory)
        munmap(arena->memory, arena->bytes);
    rights_close(arena->descriptor);
    free(arena->slabs);
    arena->memory = NULL;
    arena->descriptor = -1;
    arena->slabs = NULL;
}

static bool is_empty(const struct slab_queue *queue)
{
    for (int i = 0; i < SLABS_AT_ONCE; i++)
        if (!list_empty(&queue->waiting[i]))
            return false;
    return true;
}

/* Of the users who wait and hold none, the one who was served least recently; NULL: there is none.
 */
static const struct user *first_without(struct arena *arena, enum share share)
{
    LIST_EACH (struct slab_queue, queue, &arena->queues[share], link)
        if (!queue->user->slabs[share] && !is_empty(queue))
            return queue->user;
    return NULL;
}

/* While a user who holds none waits for several, nobody else takes any: else users who each need
 * one would take every slab that is released. That one may have all that are left. */
static bool may_take(struct arena *arena, const struct user *user, enum share share, uint32_t count)
{
    const uint32_t left = arena->total[share] - arena->taken[share];
    const struct user *without = first_without(arena, share);
    const bool is_next = user == without || (user == arena->woken && !user->slabs[share]);
    if (without && !is_next)
        return false;
    if (!user->slabs[share] && (is_next || count == 1))
        return count <= left;
    return reserve_shares(left, user->slabs[share], count);
}

bool arena_take(struct arena *arena, struct user *user, enum share share, uint32_t count,
                struct slab **slabs)
{
    if (!may_take(arena, user, share, count))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct slab *slab = LIST_TAKE(&arena->free, struct slab, link);
        if (slab->last_uid != user->uid) {
            memset(arena_memory(arena, slab), 0, slab->used_bytes);
            slab->used_bytes = 0;
        }
        slab->last_uid = user->uid;
        slab->user = user;
        slab->share = share;
        slabs[i] = slab;
    }
    arena->taken[share] += count;
    user->slabs[share] += count;
    return true;
}

/* The first to come of those of the queue's waiters that can go on; NULL: none can. */
static struct slab_waiter *first_ready(struct arena *arena, struct slab_queue *queue,
                                       enum share share)
{
    struct slab_waiter *first = NULL;
    for (uint32_t i = 0; i < SLABS_AT_ONCE && may_take(arena, queue->user, share, i + 1); i++) {
        struct slab_waiter *waiter = LIST_FIRST(&queue->waiting[i], struct slab_waiter, link);
        if (waiter && (!first || waiter->arrival < first->arrival))
            first = waiter;
    }
    return first;
}

/* The waiter to wake next, of users in turn. NULL: none can go on. */
static struct slab_waiter *next_waiter(struct arena *arena)
{
    for (int share = 0; share < SHARE_COUNT; share++) {
        struct list *const queues = &arena->queues[share];
        LIST_EACH (struct slab_queue, queue, queues, link) {
            struct slab_waiter *waiter = first_ready(arena, queue, (enum share)share);
            if (waiter || is_empty(queue))
                list_remove(&queue->link);
            if (waiter) {
                list_push(queues, &queue->link);
                return waiter;
            }
        }
    }
    return NULL;
}

/* Wake those who can go on. A waiter may take, release and wait again from inside; it ends because
 * each one that was woken has left its queue or taken a slab. */
void arena_serve(struct arena *arena)
{
    if (arena->serving)
        return;
    arena->serving = true;
    for (struct slab_waiter *waiter; (waiter = next_waiter(arena));) {
        list_remove(&waiter->link);
        arena->woken = waiter->user;
        waiter->ready(waiter);
    }
    arena->woken = NULL;
    arena->serving = false;
}

void arena_release(struct arena *arena, struct slab *slab)
{
    arena->taken[slab->share]--;
    slab->user->slabs[slab->share]--;
    slab->user = NULL;
    list_push_front(&arena->free, &slab->link);
    arena_serve(arena);
}

void arena_wait(struct arena *arena, struct slab_waiter *waiter)
{
    struct slab_queue *queue = &waiter->user->slab_queues[waiter->share];
    if (!list_empty(&waiter->link))
        return;
    waiter->arrival = ++arena->arrivals;
    queue->user = waiter->user;
    list_push(&queue->waiting[waiter->count - 1], &waiter->link);
    if (list_empty(&queue->link))
        list_push(&arena->queues[waiter->share], &queue->link);
}

void arena_forget(struct slab_waiter *waiter)
{
    list_remove(&waiter->link);
}

uint8_t *arena_memory(const struct arena *arena, const struct slab *slab)
{
    return arena->memory + arena_offset(arena, slab);
}

uint8_t *arena_memory_to_write(const struct arena *arena, struct slab *slab, uint64_t bytes)
{
    if (bytes > slab->used_bytes)
        slab->used_bytes = (uint32_t)bytes;
    return arena_memory(arena, slab);
}

uint64_t arena_offset(const struct arena *arena, const struct slab *slab)
{
    return (uint64_t)slab->number * arena->slab_bytes;
}
