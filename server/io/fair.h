/* Which user's connections the loop serves, and for how long: deficit round robin over users
 * (Shreedhar and Varghese, IEEE/ACM ToN 4(3), 1996), in time of the loop.
 *
 * The connections of a user are watched by an epoll instance of the user's own, and the loop
 * watches that: a thousand ready connections are one event of the loop, and wait in the kernel
 * until it is their user's turn. In each turn of the loop a user who has input gets a slice of
 * time; what a message takes longer, or a settled connection, an accept or a hang-up of the user's
 * costs, is a debt, and the user waits until the slices of further turns have paid it. A turn in
 * which nobody else has anything to do is short, so no time is lost by waiting. A slice is long
 * while only one user is there, and short while others are: they wait for no more than that.
 *
 * All on the loop's thread.
 */
#ifndef SERVER_IO_FAIR_H
#define SERVER_IO_FAIR_H

#include "server/users/contention.h"
#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

struct connection;
struct io;
struct user;

struct fair {
    struct list ready;            /* struct user: with input, in the order of their turns */
    struct contention contention; /* the users whom the loop is at work for */
    uint64_t until_ns;            /* the end of the slice that is being served */
};

void fair_init(struct io *io);
/* Call when no connection will be served any more, while the loop still runs. */
void fair_close(struct io *io);

/* A connection of the user is about to be watched. False: no descriptor, memory or room in the
 * kernel for it (errno). */
bool fair_open(struct io *io, struct user *user);

/* Watch the connection for EPOLLIN and EPOLLOUT, as `events` says, and no longer for anything else;
 * 0: not even for a hang-up. connection_serve() follows in the user's turn. False: the kernel has
 * no room for it. */
bool fair_watch(struct connection *connection, uint32_t events);
/* It has input that was read already and may go on with it in its user's next turn. Harmless a
 * second time; its being closed, or fair_watch() for nothing, ends it. */
void fair_again(struct connection *connection);

/* Is the slice over? To be asked after each message. */
bool fair_is_over(const struct io *io);
/* May the listener take another connection in this turn? Its slice is as long as a user's. */
bool fair_accepts(const struct io *io, uint64_t begun_ns);
/* The user has cost the loop the time since then, outside of connection_serve(). */
void fair_charge(struct io *io, struct user *user, uint64_t since_ns);

/* … and elsewhere: a thread was at work for them for so long. */
void fair_charge_ns(struct user *user, uint64_t ns);

/* The turn's slices. */
void fair_serve(struct io *io);
/* Has somebody more to do, so that the loop must not sleep? */
bool fair_is_due(const struct io *io);

/* Called twice a second: watches of users who have gone are closed. */
void fair_tick(struct io *io);

#endif
