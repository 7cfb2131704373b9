/* What takes too long for the loop: bounds of many axes with coordinates (request_bounds.h), as a
 * chain of diffusions may have them, are found on a thread of the loop's pool.
 *
 * The message that needs them stays where it is and its connection is not read until they are
 * known; then the same message is taken again. Of each user one message at a time is at a thread,
 * so that others' need not wait for thousands of one user's; the others of the user wait in line,
 * and hold nothing for it. The thread's time is charged to the user as the loop's is (fair.h), what
 * is copied for it as the front's memory (memory.h).
 *
 *   BOUNDS_NONE → (BOUNDS_WAITING → BOUNDS_CALLED)? → BOUNDS_FINDING → BOUNDS_KNOWN → BOUNDS_NONE
 *
 * All but the finding on the loop's thread.
 */
#ifndef SERVER_IO_BOUNDS_H
#define SERVER_IO_BOUNDS_H

#include "protocol/request.h"
#include "base/list.h"

#include <stdbool.h>

struct connection;

enum bounds_state {
    BOUNDS_NONE,    /* no message needs any */
    BOUNDS_WAITING, /* for others of the user */
    BOUNDS_CALLED,  /* the user's turn is its: the message is to be taken again */
    BOUNDS_FINDING,
    BOUNDS_KNOWN, /* the message is to be taken again */
};

/* A connection's part in it. */
struct bounds {
    enum bounds_state state;
    struct list link;  /* BOUNDS_WAITING: in the user's waiting */
    struct work *work; /* BOUNDS_FINDING, BOUNDS_KNOWN */
};

void bounds_init(struct bounds *bounds);

enum bounds_answer { BOUNDS_GO_ON, BOUNDS_LATER, BOUNDS_REFUSED };

/* Before a complete message of the connection is acted upon, each time that it is taken. GO_ON: the
 * request knows what it needs to, until bounds_release(). LATER: take it again when bounds_due(),
 * and read nothing meanwhile. REFUSED: no memory, with the failure set. */
enum bounds_answer bounds_prepare(struct connection *connection, struct request *request,
                                  struct failure *failure);

/* Is a message held back? */
bool bounds_hold(const struct connection *connection);
/* … and is it to be taken again now? fair_again() was called for it. */
bool bounds_due(const struct connection *connection);

/* The message has been acted upon, or its connection closes. A thread that is at work goes on, and
 * no longer knows the connection. */
void bounds_release(struct connection *connection);

#endif
