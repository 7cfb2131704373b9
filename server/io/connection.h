/* A client's connection: its socket, the splitter that cuts its bytes into messages, the arrays
 * that come with them, and the replies that it is owed.
 *
 * It is read unless (a) its next byte is payload and it has no slab, (b) many of its replies are
 * unread, (c) bounds that its message needs are being computed (bounds.h), or (d) it has half-
 * closed. A half-closed connection gets the replies it is owed and is closed then; the work of one
 * that its peer closed is cancelled. */
#pragma once

#include "server/io/bounds.h"
#include "server/devices/region.h"
#include "server/io/outbox.h"
#include "server/jobs/upload.h"

struct connection {
    struct list link;
    struct list changed_link; /* in io->changed; closed, in io->closed */
    struct list again_link;   /* in its user's turn.again */
    struct io *io;
    struct user *user;
    int socket;
    uint32_t events;      /* that are watched (turn.h) */
    uint32_t seen;        /* … and have come, while it waits in turn.again */
    bool rests;           /* its user's slice is over */
    bool end_of_input;    /* half-closed */
    bool receiving;       /* an I/O thread does, into the upload's slab */
    bool closing;         /* as soon as no I/O thread has a load of it */
    bool closed;          /* and freed once no descriptors are in the socket */
    bool close_when_sent; /* after the error that is in the outbox */
    uint64_t read_ns;     /* when something last came */
    uint64_t message_ns;  /* when the message that is coming began */
    struct splitter splitter;
    uint8_t *leftover; /* bytes that were read and must wait; owned */
    uint32_t leftover_bytes;
    uint64_t counted_bytes; /* of its own memory (memory.h) */
    struct bounds bounds;   /* that the message which is complete waits for */
    bool is_last;           /* … and the last in the bytes that were read at once */
    struct passed_descriptor
        passed; /* with the bytes of the message under way, or with those left over */

    struct upload upload;
    struct outbox outbox;
    struct client client;        /* the receiver of its tasks' results */
    struct region_owner regions; /* registered here, and gone with it */
};

/* Take over an accepted socket. */
void connection_open(struct io *io, int socket);

/* Process its input while its user's slice lasts: `events` are those of epoll that have come, and
 * there may be buffered input. */
void connection_serve(struct connection *connection, uint32_t events);

/* Close it: its uploads are dropped and its work is cancelled, now or, where an I/O thread has a
 * load of it, at the end of the turn in which that comes back. */
void connection_close(struct connection *connection);

/* Free a closed connection. Called at the end of a turn, when no caller uses it. */
void connection_free(struct connection *connection);

/* Send what waits and watch for what can come next. Called at the end of a turn of the loop in
 * which something changed. */
void connection_settle(struct connection *connection);

/* Its replies have changed: it is to be settled. */
void connection_changed(struct outbox *outbox);

/* Called twice a second: flush uploads that stand still, time them out, notice hang-ups. */
void connection_tick(struct connection *connection, uint64_t now_ns);

/* --- message.c: a message whose bytes are complete, to be unpacked, decoded and acted upon --- */

/* Act upon the complete message; or leave it where it is, to be taken again when bounds_due(). */
void message_take(struct connection *connection);

/* The rest of the bytes cannot be parsed: answer with the error, then close. */
void message_fail(struct connection *connection, enum status status, const char *text);

/* Answers register or unregister for the connection whose regions these are (region.h). */
void message_region_answered(struct region_owner *owner, uint64_t msgid,
                             const struct region *region, const struct failure *failure);
