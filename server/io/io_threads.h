/* I/O threads copy payload between sockets and memory while the loop runs. They hold no state and
 * do one recvmsg() or sendmsg() for each load; its result is handed back on the loop.
 *
 * Handing a load over pays only if another connection would wait for the copy: the load is large,
 * and the loop has lately served more than one connection. Else the caller copies itself, which
 * takes less time.
 *
 * Called from the loop's thread alone. */
#pragma once

#include "server/users/contention.h"
#include "base/list.h"
#include "server/users/descriptors.h"

#include <sys/uio.h>

enum {
    IO_THREADS_MOST = 4,
    LOAD_BYTES_LEAST = 64 << 10,
    LOAD_BYTES_MOST = 2 << 20, /* a load holds a thread for so long */
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
    struct contention contention; /* between connections; loop time */
};

/* Start `count` threads (IO_THREADS_MOST at most; 0: none); the system may give fewer. False: the
 * loop cannot be woken, and nothing is open. */
bool io_threads_open(struct io_threads *io_threads, uv_loop_t *loop, uint32_t count);

/* Wait for the loads that are under way, which takes no longer than copying them, and hand them
 * back. No other is taken on. Harmless a second time. */
void io_threads_close(struct io_threads *io_threads);

/* Note that the loop serves this connection. */
void io_threads_meet(struct io_threads *io_threads, const void *connection);

/* Does handing large loads over pay now? */
bool io_threads_wanted(const struct io_threads *io_threads);

/* The bytes that the loop may copy itself for one connection each way in a turn: under contention
 * as many as take 30 µs; else more, since a turn itself costs 13 µs. */
size_t io_threads_turn_bytes(const struct io_threads *io_threads);

/* Called on the loop: `moved` is what recvmsg() or sendmsg() returned; −1: `error` says why. */
typedef void load_ended(void *context, ssize_t moved, int error);

/* Receive at most `bytes`, as passing_receive() does, into `memory` (NULL: drop them). Memory and
 * `passed` belong to the thread until ended(), and the socket stays open. False: it does not pay,
 * or is not possible; nothing was begun. */
bool io_threads_receive(struct io_threads *io_threads, int socket, void *memory, size_t bytes,
                        struct passed_descriptor *passed, load_ended *ended, void *context);

/* Send the pieces, LOAD_PIECES_MOST at most, as far as the socket takes them. The same rules. */
bool io_threads_send(struct io_threads *io_threads, int socket, const struct iovec *pieces,
                     uint32_t count, load_ended *ended, void *context);
