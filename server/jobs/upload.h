/* The inline arrays of the message that a connection is sending, on their way to a device: memory
 * is reserved when the first payload byte of an array is due, and its bytes are read into one slab
 * after another, each copied on when it is full. Parameters of many numbers (protocol/array.h)
 * are the front's own to read: their bytes go to the heap, LIMIT_BLOCK_BYTES of them in a message.
 *
 * An array that cannot be taken is void: its bytes are read and dropped, and the message is
 * answered with `failure`. */
#pragma once

#include "protocol/array.h"
#include "protocol/splitter.h"
#include "server/users/arena.h"

enum { UPLOAD_DROP_BYTES = 64 << 10 };

/* One array. */
struct arrival {
    struct field *field;       /* referenced; or … */
    unsigned char *numbers;    /* … of a parameter, owned; both NULL: void */
    bool is_numbers;           /* it is of a parameter of many numbers */
    struct failure_place name; /* for errors: "f", "f y", "boundary x-" */
    uint32_t payload;          /* number of its first diverted bin */
    uint32_t map_at;    /* where its map stands in the control bytes, and how far it had come: */
    uint32_t map_pairs; /* with both, the list that its bins are elements of */
    uint64_t expected, received; /* bytes; received counts those announced by the bins so far */
    uint64_t placed;             /* bytes read into slabs or dropped */
};

struct upload {
    struct client *client;
    void *dropped;            /* UPLOAD_DROP_BYTES, for payload that is dropped */
    struct arrival *arrivals; /* count of them, at most LIMIT_ARRAYS */
    uint32_t count;
    struct slab *slab; /* being filled for the latest array; NULL: none */
    uint32_t slab_fill;
    struct slab_waiter waiter;
    void (*resume)(struct upload *upload);
    struct failure failure;
};

/* Zeroed before. resume() is called when an upload that waited for a slab can go on. */
void upload_init(struct upload *upload, struct client *client, void *dropped,
                 void (*resume)(struct upload *upload));

/* A payload begins. */
void upload_begin(struct upload *upload, const struct splitter_payload *payload);

/* Where the next of the `due` payload bytes go, and how many fit there; then say how many came.
 * NULL: no slab is free, resume() follows. */
void *upload_place(struct upload *upload, uint64_t due, size_t *room);
void upload_placed(struct upload *upload, size_t bytes);

/* Copy the received bytes of the latest array to its device; the slab is released when they are
 * there. */
void upload_flush(struct upload *upload);

/* The payload of an inline array of the complete message: a field, to be referenced by a caller who
 * keeps it, or if `numbers` these, which last until upload_drop(). NULL with the failure set: it
 * did not come, or not all of it. */
const struct arrival *upload_find(const struct upload *upload, const struct array *array,
                                  bool numbers, const char *parameter, struct failure *failure);

/* Forget the message. */
void upload_drop(struct upload *upload);
