/* The end of a turn (an iteration) of the event loop. Here users with input are served, and the
 * output of the turn is flushed: the replies of each connection in one write, the orders of each
 * worker in one packet or few. Then the loop blocks, or busy-polls for a while first: waking a
 * sleeping process takes about as long as a small job.
 *
 * Users share the loop's time by deficit round robin (Shreedhar and Varghese, IEEE/ACM ToN 4(3),
 * 1996). The connections of a user are watched by an epoll instance of the user's own, which the
 * loop watches: a thousand ready connections are one event of the loop, and wait in the kernel
 * until their user's turn. In each turn of the loop a user with input gets a slice of time. A
 * message that takes longer, a settled connection, an accept or a hang-up makes a debt, and the
 * user waits until further slices have paid it. While other users are idle, turns are short, so no
 * time is lost by waiting. Slices are long while one user is active, and short under contention.
 *
 * All on the loop's thread. */
#pragma once

#include "server/users/contention.h"
#include "base/list.h"

#include <uv.h>

struct connection;
struct io;
struct user;

struct turn {
    uv_prepare_t end;
    uv_idle_t busy_poll;          /* while it is active, the loop does not sleep */
    unsigned cores;               /* of the machine */
    uint64_t came_ns;             /* when a connection last sent something */
    struct list ready;            /* struct user: with input, in the order of their turns */
    struct contention contention; /* between the users */
    uint64_t until_ns;            /* the end of the slice that is being served */
};

void turn_open(struct io *io);
/* Call when no connection will be served any more, while the loop still runs. */
void turn_close(struct io *io);
/* A connection has sent something. */
void turn_heard(struct io *io);
/* Called twice a second, not from within a turn: of users who have gone, watches are closed, debts
 * are paid a little, and those who hold nothing may be forgotten (user.h). */
void turn_tick(struct io *io);

/* Call before the first turn_watch() of a connection of the user. False: no descriptor, memory or
 * room in the kernel for it (errno). */
bool turn_watch_user(struct io *io, struct user *user);
/* Watch the connection for EPOLLIN and EPOLLOUT, as `events` says, and no longer for anything else;
 * 0: not even for a hang-up. connection_serve() follows in the user's turn. False: the kernel has
 * no room for it. */
bool turn_watch(struct connection *connection, uint32_t events);
/* It has buffered input and may continue with it in its user's next turn. Harmless a second time;
 * closing it, or turn_watch() with 0, ends it. */
void turn_again(struct connection *connection);

/* Is the slice over? To be asked after each message. */
bool turn_is_over(const struct io *io);
/* May the listener take another connection in this turn? Its slice is as long as a user's. */
bool turn_accepts(const struct io *io, uint64_t begun_ns);
/* Charge the user the loop's time since then, outside of connection_serve(). */
void turn_charge(struct io *io, struct user *user, uint64_t since_ns);
