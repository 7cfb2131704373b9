#include "server/arena.h"

#include "gpu/log.h"
#include "server/user.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SLABS_LEAST = 256, SLAB_BYTES_MOST = 1 << 20 };

bool arena_open(struct arena *arena, uint64_t bytes)
{
    memset(arena, 0, sizeof *arena);
    list_init(&arena->free);
    list_init(&arena->waiters);
    /* Large slabs make large copies; at least 256 of them keep many users moving. */
    arena->slab_bytes = 1 << 16;
    while (arena->slab_bytes < SLAB_BYTES_MOST && bytes / (arena->slab_bytes * 2) >= SLABS_LEAST)
        arena->slab_bytes *= 2;
    arena->slab_count = (uint32_t)(bytes / arena->slab_bytes);
    arena->bytes = (uint64_t)arena->slab_count * arena->slab_bytes;
    arena->memory = MAP_FAILED;
    arena->descriptor = memfd_create("fdserver-staging", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    arena->slabs = calloc(arena->slab_count, sizeof *arena->slabs);
    if (arena->descriptor >= 0 && ftruncate(arena->descriptor, (off_t)arena->bytes) == 0 &&
        fcntl(arena->descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        arena->memory =
            mmap(NULL, arena->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, arena->descriptor, 0);
    if (arena->memory == MAP_FAILED || !arena->slabs) {
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
    if (arena->memory && arena->memory != MAP_FAILED)
        munmap(arena->memory, arena->bytes);
    if (arena->descriptor >= 0)
        close(arena->descriptor);
    free(arena->slabs);
    arena->memory = NULL;
    arena->descriptor = -1;
    arena->slabs = NULL;
}

static bool may_take(const struct arena *arena, const struct user *user, enum share share,
                     uint32_t count)
{
    const uint32_t left = arena->total[share] - arena->taken[share];
    return count <= left && user->slabs[share] + count <= left - count;
}

bool arena_take(struct arena *arena, struct user *user, enum share share, uint32_t count,
                struct slab **slabs)
{
    if (!may_take(arena, user, share, count))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct slab *slab = LIST_ENTRY(list_first(&arena->free), struct slab, link);
        list_remove(&slab->link);
        if (slab->used && slab->last_uid != user->uid)
            memset(arena_memory(arena, slab), 0, arena->slab_bytes);
        slab->used = true;
        slab->last_uid = user->uid;
        slab->user = user;
        slab->share = share;
        slabs[i] = slab;
    }
    arena->taken[share] += count;
    user->slabs[share] += count;
    return true;
}

/* Wake those who can go on. A waiter may take, release and wait again from inside, so the scan
 * begins anew after each; it ends because each one that was woken has left the list or taken a
 * slab. */
static void serve(struct arena *arena)
{
    if (arena->serving)
        return;
    arena->serving = true;
    struct list *link = arena->waiters.next;
    while (link != &arena->waiters) {
        struct slab_waiter *waiter = LIST_ENTRY(link, struct slab_waiter, link);
        link = link->next;
        if (!may_take(arena, waiter->user, waiter->share, waiter->count))
            continue;
        list_remove(&waiter->link);
        waiter->ready(waiter);
        link = arena->waiters.next;
    }
    arena->serving = false;
}

void arena_release(struct arena *arena, struct slab *slab)
{
    arena->taken[slab->share]--;
    slab->user->slabs[slab->share]--;
    slab->user = NULL;
    list_push_front(&arena->free, &slab->link);
    serve(arena);
}

void arena_wait(struct arena *arena, struct slab_waiter *waiter)
{
    if (list_empty(&waiter->link))
        list_push(&arena->waiters, &waiter->link);
}

void arena_forget(struct slab_waiter *waiter)
{
    list_remove(&waiter->link);
}

uint8_t *arena_memory(const struct arena *arena, const struct slab *slab)
{
    return arena->memory + arena_offset(arena, slab);
}

uint64_t arena_offset(const struct arena *arena, const struct slab *slab)
{
    return (uint64_t)slab->number * arena->slab_bytes;
}
