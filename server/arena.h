/* The staging arena: a sealed memfd cut into slabs, through which all payload passes between
 * sockets and workers. It is the only place in the front where payload lies, so it bounds the
 * front's memory.
 *
 * Uploads and replies have half each, so that neither can starve the other. A user may hold as many
 * slabs of a share as it leaves free (dynamic thresholds: Choudhury and Hahne, IEEE/ACM ToN 6(2),
 * 1998): one user alone gets half, and a newcomer always finds some.
 */
#ifndef SERVER_ARENA_H
#define SERVER_ARENA_H

#include "server/list.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum share { SHARE_UPLOAD, SHARE_REPLY, SHARE_COUNT };

struct user;
struct field;

struct slab {
    struct list link; /* free, or in its device's list of copies */
    uint32_t number;
    enum share share;
    struct user *user;   /* who holds it; NULL: free */
    uid_t last_uid;      /* whose bytes it has held */
    bool used;           /* has it held any? */
    bool copying;        /* a worker reads or writes it */
    struct field *field; /* the array it is copied to or from; referenced */
    void (*copied)(struct slab *slab, void *context, bool ok);
    void *context;
};

/* Somebody who waits for slabs. ready() is called when `count` can be had, after the waiter was
 * taken off the list; it is expected to take them. */
struct slab_waiter {
    struct list link;
    struct user *user;
    enum share share;
    uint32_t count;
    void (*ready)(struct slab_waiter *waiter);
};

struct arena {
    int descriptor;
    uint8_t *memory;
    uint64_t bytes;
    uint32_t slab_bytes; /* a power of two */
    uint32_t slab_count;
    struct slab *slabs;
    struct list free; /* last in, first out: an idle arena's pages stay untouched */
    uint32_t total[SHARE_COUNT], taken[SHARE_COUNT];
    struct list waiters;
    bool serving;
};

bool arena_open(struct arena *arena, uint64_t bytes);
void arena_close(struct arena *arena);

/* Take `count` slabs at once or none. Slabs that held another user's bytes are cleared. */
bool arena_take(struct arena *arena, struct user *user, enum share share, uint32_t count,
                struct slab **slabs);
void arena_release(struct arena *arena, struct slab *slab);

/* Wait; a waiter that waits already stays where it is. arena_forget() is harmless on one that does
 * not. */
void arena_wait(struct arena *arena, struct slab_waiter *waiter);
void arena_forget(struct slab_waiter *waiter);

uint8_t *arena_memory(const struct arena *arena, const struct slab *slab);
uint64_t arena_offset(const struct arena *arena, const struct slab *slab);

#endif
