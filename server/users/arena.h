/* The staging arena: a sealed memfd cut into slabs, through which all payload passes between
 * sockets and workers. It is the only place in the front where payload lies; other memory of
 * the front is charged by memory.h.
 *
 * Uploads and replies have half each, so that neither can starve the other; users share each half
 * by reserve_shares(). A user who holds none may also have the last slab, and nobody passes one who
 * holds none and waits.
 */
#pragma once

#include "server/users/send_window.h"

#include <sys/types.h>

enum share { SHARE_UPLOAD, SHARE_REPLY, SHARE_COUNT };

struct slab {
    struct mailbox *mailbox; /* whose slot it is (server/devices/mailbox.h); NULL: the arena's */
    struct list link;        /* free, or in its device's list of copies */
    uint32_t number;
    uint64_t uses; /* of a slot: how often it was taken */
    enum share share;
    struct user *user;      /* its holder; NULL: free */
    uid_t last_uid;         /* whose bytes it has held */
    uint32_t used_bytes;    /* how far they reach, from its begin */
    bool goes_up;           /* to the array; else from it */
    struct field *field;    /* that array, while a worker reads or writes the slab, or is about to;
                               referenced. NULL: none does */
    uint64_t offset, bytes; /* in it */
    struct field *part;     /* the array of one device that has them, referenced: `field` or … */
    uint64_t part_offset;   /* … a part of it; and where they begin there */
    struct record record;   /* in the user's send window */
    void (*copied)(struct slab *slab, void *context, bool ok); /* from the array */
    void *context;
};

/* Slabs that a waiter may ask for at once. */
enum { SLABS_AT_ONCE = 8 };

/* A waiter for slabs. ready() is called when `count` can be had, after the waiter was
 * taken off its queue; it is expected to take them. */
struct slab_waiter {
    struct list link;
    struct user *user;
    enum share share;
    uint32_t count;   /* 1 to SLABS_AT_ONCE */
    uint64_t arrival; /* a number that rises */
    void (*ready)(struct slab_waiter *waiter);
};

/* A user's waiters for slabs of one share, by `count` − 1. Only the first of each is looked at when
 * a slab is released: those behind it need as much. */
struct slab_queue {
    struct list link; /* in the arena, where there may be waiters */
    struct user *user;
    struct list waiting[SLABS_AT_ONCE]; /* struct slab_waiter, first come first */
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
    struct list queues[SHARE_COUNT]; /* struct slab_queue, least recently served first */
    uint64_t arrivals;
    bool serving;
    const struct user *woken; /* meanwhile: whose turn it is */
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
/* Wake waiters that can go on: at the end of a turn, in which one that others waited behind may
 * have been forgotten. */
void arena_serve(struct arena *arena);

uint8_t *arena_memory(const struct arena *arena, const struct slab *slab);
/* The same, to write at most `bytes` from its beginning: so much is cleared before another user
 * gets the slab. */
uint8_t *arena_memory_to_write(const struct arena *arena, struct slab *slab, uint64_t bytes);
uint64_t arena_offset(const struct arena *arena, const struct slab *slab);
