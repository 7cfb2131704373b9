/* Stability bounds that take too long for the loop, those of many axes with coordinates
 * (request_bounds.h) as in a chain of diffusions, are computed on a thread of the loop's pool.
 *
 * The message that needs them is kept, and its connection is not read until they are known; then
 * the message is processed again. One message of each user is on a thread at a time, so that other
 * users need not wait for thousands of messages of one; the user's other messages wait in line and
 * hold nothing. The thread's time is charged to the user as the loop's is (turn.h), copies made for
 * it as the front's memory (memory.h).
 *
 *   BOUNDS_NONE → (BOUNDS_WAITING → BOUNDS_CALLED)? → BOUNDS_FINDING → BOUNDS_KNOWN → BOUNDS_NONE
 *
 * All on the loop's thread, except the computation. */
#pragma once

#include "protocol/request.h"
#include "base/list.h"

#include <uv.h>

struct connection;

enum bounds_state {
    BOUNDS_NONE,    /* no message needs any */
    BOUNDS_WAITING, /* for others of the user */
    BOUNDS_CALLED,  /* it is next among the user's: the message is to be taken again */
    BOUNDS_FINDING,
    BOUNDS_KNOWN, /* the message is to be taken again */
};

/* Of a connection. */
struct bounds {
    enum bounds_state state;
    struct list link;  /* BOUNDS_WAITING: in the user's waiting */
    struct work *work; /* BOUNDS_FINDING, BOUNDS_KNOWN */
};

enum bounds_answer { BOUNDS_GO_ON, BOUNDS_LATER, BOUNDS_REFUSED };

/* Make the threads of the loop's pool. False: a line of the log says why. */
bool bounds_open(uv_loop_t *loop);

/* Call each time that a complete message is taken, before acting upon it. GO_ON: the request has
 * the bounds that it needs, until bounds_release(). LATER: take it again when bounds_due(), and
 * read nothing meanwhile. REFUSED: no memory, with the failure set. */
enum bounds_answer bounds_prepare(struct connection *connection, struct request *request,
                                  struct failure *failure);

/* Is a message held back? */
bool bounds_hold(const struct connection *connection);
/* … and is it to be taken again now? turn_again() was called for it. */
bool bounds_due(const struct connection *connection);

/* The message has been acted upon, or its connection closes. A thread at work goes on alone. */
void bounds_release(struct connection *connection);
