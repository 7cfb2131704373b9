/* The end of a turn (an iteration) of the event loop. Users with input are served here (fair.h),
 * and the output of the turn is flushed: the replies of each connection in one write, the orders of
 * each worker in one packet or few. Then the loop blocks, or busy-polls for a while first: waking a
 * sleeping process takes about as long as a small job. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct io;

struct turn {
    uv_prepare_t end;
    uv_idle_t busy_poll; /* while it is active, the loop does not sleep */
    unsigned cores;      /* of the machine */
    uint64_t came_ns;    /* from a connection, when it last did */
};

void turn_open(struct io *io);
void turn_close(struct io *io);
/* Connections that were closed give back what they hold; after the last turn, too. */
void turn_free_closed(struct io *io);
/* A connection has sent something. */
void turn_heard(struct io *io);
