/* The descriptors of the process: who may have the last of them, and those that clients pass.
 *
 * The kernel gives out the lowest free number, so the number of a new descriptor shows how full the
 * table is:
 *
 *   0 … what users hold … │ the last eighth: for users who hold none │ the reserve │ limit
 *
 * From the reserve a connection can be accepted and its user identified, and a worker started, at
 * any time.
 *
 * `register` takes one descriptor that a client passes; all others are closed off the loop, since
 * the last close of a lingering socket, of a file on a user's own file system, or of much memory
 * takes as long as that user likes. So the number of a user's descriptors that wait to be closed is
 * bounded: of a sixteenth of all descriptors by dynamic thresholds (reserve.h). A client that
 * passes one more, or several in a message while few descriptors are free, is disconnected, and its
 * socket is closed with those descriptors still in it. Such a close may hang, and must not hold one
 * of our descriptors meanwhile: a thread with a table of its own closes the socket by ending. No
 * socket lingers for a thread that ends. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <uv.h>

struct config;
struct failure;
struct user;
struct users;

/* Raise the limit as far as the options may need, make libuv's table that long (libuv ends the
 * process where it cannot grow it later), lower --max-connections to what is possible, and start
 * the threads that close. False: a line of the log says why. */
bool descriptors_open(struct users *users, uv_loop_t *loop, struct config *config);

/* May the user keep this new descriptor? The last eighth is for users who hold none; connected: the
 * connection that asks does not count. */
bool descriptors_allow(const struct user *user, int descriptor, bool connected);

/* The same of one that keeps memory, a region's or an exported field's, of which a user and all
 * users have so many at most. False with OVER_BUDGET; also where descriptor is −1. */
bool descriptors_allow_memory(const struct user *user, int descriptor, struct failure *failure);

/* Is it one of the reserve? (As in descriptors_allow(), its number is noted: it shows how full the
 * table is.) */
bool descriptors_are_few(const struct users *users, int descriptor);

/* Call twice a second: see whether messages with many descriptors fit again. */
void descriptors_tick(void);

/* The number of a user's descriptors that wait to be closed. While it is 0, and no call below is
 * under way that has its address, nobody uses it: the user may be forgotten. */
struct passing_account {
    _Atomic uint32_t awaiting;
};

/* Descriptors that came with the bytes of a connection and have not been taken yet. */
struct passed_descriptor {
    struct passing_account *account; /* of the user who passes them */
    int descriptor;                  /* owned; −1: none, or not one alone: */
    bool many;                       /* more came, and all were closed */
    bool no_room;                    /* one was lost: the process has no descriptor left */
};

static inline bool passing_any(const struct passed_descriptor *passed)
{
    return passed->descriptor >= 0 || passed->many || passed->no_room;
}

/* Start the threads that close, of a process that may have so many descriptors. False: a line of
 * the log says why. */
bool passing_open(uint64_t descriptors);

/* Threads that may call passing_receive() at once: the loop's and I/O threads. */
enum { PASSING_THREADS_MOST = 5 };

/* recv() without waiting; a descriptor that comes along is added to `passed`. A read never goes
 * past the bytes that a descriptor came with (unix(7) joins no others to them). EUSERS: another
 * comes, and too many of the user's wait to be closed; EMFILE: several come, and few are free. */
ssize_t passing_receive(int socket, void *bytes, size_t length, struct passed_descriptor *passed);

/* Close what was not taken. */
void passing_forget(struct passed_descriptor *passed);

/* close(), off the loop. */
void passing_close(int descriptor, struct passing_account *account);

/* The same of a region's, a worker's or our own descriptor, which counts as nobody's: of memory
 * whose users are bounded elsewhere. */
void passing_close_own(int descriptor);

/* Close a connection's socket. Descriptors that are still in it are taken first, so that none is
 * closed on the loop. */
void passing_close_socket(int socket, struct passing_account *account);
