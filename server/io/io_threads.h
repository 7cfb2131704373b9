/* I/O threads copy payload between sockets and memory while the loop goes on. They hold no state
 * and do one recvmsg() or sendmsg() for each load; its result is handed back on the loop.
 *
 * A load is worth the hand-over only where somebody else would wait for the copy: it is large, and
 * the loop has lately been at work for more than one connection. Else the caller copies itself,
 * which takes less time.
 *
 * Called from the loop's thread alone.
 */
#ifndef SERVER_IO_IO_THREADS_H
#define SERVER_IO_IO_THREADS_H

#include "server/users/contention.h"
#include "base/list.h"
#include "server/users/descriptor_passing.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <uv.h>

enum {
    IO_THREADS_MOST = 4,
    LOAD_BYTES_LEAST = 64 << 10,
    LOAD_BYTES_MOST = 2 << 20, /* what a caller should give: it holds a thread for so long */
    LOAD_PIECES_MOST = 64
};

struct io_threads {
    uv_loop_t *loop;
    uv_async_t back; /* there are loads in `ended` */
    pthread_t threads[IO_THREADS_MOST];
    uint32_t count; /* of the threads; 0: the loop does it all */
    pthread_mutex_t mutex;
    pthread_cond_t more;
    struct list waiting, ended; /* struct load; under the mutex, as is: */
    bool leaving;
    struct list spare;            /* struct load, for the next ones */
    struct contention contention; /* the connections that the loop is at work for; loop time */
};

/* Start `count` threads (IO_THREADS_MOST at most; 0: none); the system may give fewer. False: the
 * loop cannot be woken, and nothing is open. */
bool io_threads_open(struct io_threads *io_threads, uv_loop_t *loop, uint32_t count);

/* Wait for the loads that are under way, which takes no longer than copying them, and hand them
 * back. No other is taken on. Harmless a second time. */
void io_threads_close(struct io_threads *io_threads);

/* The loop is at work for this connection. */
void io_threads_meet(struct io_threads *io_threads, const void *connection);

/* Is it worth it now, for what is large? */
bool io_threads_wanted(const struct io_threads *io_threads);

/* What the loop may copy itself for one connection each way in one turn: others wait for 30 µs;
 * where there is none, a turn's own cost (13 µs) counts for more. */
size_t io_threads_turn_bytes(const struct io_threads *io_threads);

/* Called on the loop: `moved` is what recvmsg() or sendmsg() returned; −1: `error` says why. */
typedef void load_ended(void *context, ssize_t moved, int error);

/* Receive at most `bytes`, as passing_receive() does, into `memory` (NULL: drop them). Memory and
 * `passed` belong to the thread until ended(), and the socket stays open. False: it is not worth
 * it, or cannot be had; nothing was begun. */
bool io_threads_receive(struct io_threads *io_threads, int socket, void *memory, size_t bytes,
                        struct passed_descriptor *passed, load_ended *ended, void *context);

/* Send the pieces, LOAD_PIECES_MOST at most, as far as the socket takes them. The same rules. */
bool io_threads_send(struct io_threads *io_threads, int socket, const struct iovec *pieces,
                     uint32_t count, load_ended *ended, void *context);

#endif
