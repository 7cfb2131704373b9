/* A request on its way out: its control bytes, the caller's arrays sent from where they lie, and
 * the descriptor that goes with its first byte. */
#pragma once

#include "client/fdclient.h"
#include "client/route.h"

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct outgoing {
    msgpack_sbuffer control; /* the message but for its payload, owned */
    struct iovec *pieces;    /* what is sent, in order; they shrink as they go. Owned */
    size_t count, first;     /* pieces; the first that is not wholly sent */
    size_t in_pieces;        /* bytes of control that are in pieces, while it is built */
    int descriptor;          /* borrowed; −1: none, or sent */
};

/* Bytes of each of the f_count arrays that has data; 0 of a resident one. False: an array is none.
 */
bool outgoing_bytes(const char *method, const struct fdclient_array *f, uint32_t f_count,
                    uint64_t bytes[FDCLIENT_AXES], struct fdclient_error *error);

/* Build the request [0, id, method, [{…}]] for fdclient_submit(). f (f_count arrays: one, or a
 * vector field's) and params may be NULL. Data that goes inline is borrowed until the last byte is
 * sent. */
bool outgoing_init(struct outgoing *out, uint64_t id, const char *method,
                   const struct fdclient_array *f, uint32_t f_count,
                   const struct fdclient_params *params, const struct route *route,
                   struct fdclient_error *error);

/* `register` of a region, `unregister` by its id, `cancel` by a msgid. False: no memory. */
bool outgoing_init_register(struct outgoing *out, uint64_t id, const struct region *region);
bool outgoing_init_unregister(struct outgoing *out, uint64_t id, uint64_t region);
bool outgoing_init_cancel(struct outgoing *out, uint64_t id, uint64_t msgid);
void outgoing_free(struct outgoing *out);

bool outgoing_done(const struct outgoing *out);

/* Send once, without waiting. Bytes sent; −1 with errno set. */
ssize_t outgoing_send(struct outgoing *out, int socket);
