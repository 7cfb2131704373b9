#include "server/io/io_threads.h"

#include "base/log.h"
#include "base/rights.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { DROP_BYTES = 64 << 10, TURN_BYTES = 128 << 10, TURN_BYTES_ALONE = 1 << 20 };

_Static_assert((int)IO_THREADS_MOST < (int)PASSING_THREADS_MOST, "the loop receives, too");

struct load {
    struct list link;
    int socket;
    struct passed_descriptor *passed; /* NULL: it is sent */
    struct iovec pieces[LOAD_PIECES_MOST];
    uint32_t count;
    ssize_t moved;
    int error;
    load_ended *ended;
    void *context;
};

static void move_load(struct load *load)
{
    if (load->passed) {
        uint8_t dropped[DROP_BYTES];
        void *const memory = load->pieces[0].iov_base;
        size_t bytes = load->pieces[0].iov_len;
        if (!memory && bytes > sizeof dropped)
            bytes = sizeof dropped;
        load->moved = passing_receive(load->socket, memory ? memory : dropped, bytes, load->passed);
    } else {
        load->moved = rights_send(load->socket, load->pieces, load->count, -1);
    }
    load->error = load->moved < 0 ? errno : 0;
}

/* Until it is told to leave and no load waits. */
static void *run_io_thread(void *context)
{
    struct io_threads *io_threads = context;
    pthread_mutex_lock(&io_threads->mutex);
    for (;;) {
        while (list_empty(&io_threads->waiting) && !io_threads->leaving)
            pthread_cond_wait(&io_threads->more, &io_threads->mutex);
        struct load *load = LIST_TAKE(&io_threads->waiting, struct load, link);
        if (!load)
            break;
        pthread_mutex_unlock(&io_threads->mutex);
        move_load(load);
        pthread_mutex_lock(&io_threads->mutex);
        const bool first = list_empty(&io_threads->ended);
        list_push(&io_threads->ended, &load->link);
        pthread_mutex_unlock(&io_threads->mutex);
        if (first)
            uv_async_send(&io_threads->back);
        pthread_mutex_lock(&io_threads->mutex);
    }
    pthread_mutex_unlock(&io_threads->mutex);
    return NULL;
}

static void hand_back(struct io_threads *io_threads)
{
    struct list ended = {0};
    pthread_mutex_lock(&io_threads->mutex);
    list_move(&io_threads->ended, &ended);
    pthread_mutex_unlock(&io_threads->mutex);
    LIST_DRAIN (struct load, load, &ended, link) {
        load_ended *const call = load->ended;
        void *const context = load->context;
        const ssize_t moved = load->moved;
        const int error = load->error;
        list_push_front(&io_threads->spare, &load->link);
        call(context, moved, error);
    }
}

static void on_back(uv_async_t *handle)
{
    hand_back(handle->data);
}

bool io_threads_open(struct io_threads *io_threads, uv_loop_t *loop, uint32_t count)
{
    memset(io_threads, 0, sizeof *io_threads);
    if (uv_async_init(loop, &io_threads->back, on_back) != 0)
        return false;
    io_threads->loop = loop;
    io_threads->back.data = io_threads;
    pthread_mutex_init(&io_threads->mutex, NULL);
    pthread_cond_init(&io_threads->more, NULL);
    while (io_threads->count < count && io_threads->count < IO_THREADS_MOST) {
        const int error = pthread_create(&io_threads->threads[io_threads->count], NULL,
                                         run_io_thread, io_threads);
        if (error) {
            log_warning("no more than %u I/O threads: %s", io_threads->count, strerror(error));
            break;
        }
        io_threads->count++;
    }
    return true;
}

void io_threads_close(struct io_threads *io_threads)
{
    if (!io_threads->loop)
        return;
    const uint32_t count = io_threads->count;
    io_threads->count = 0;
    io_threads->loop = NULL;
    pthread_mutex_lock(&io_threads->mutex);
    io_threads->leaving = true;
    pthread_cond_broadcast(&io_threads->more);
    pthread_mutex_unlock(&io_threads->mutex);
    for (uint32_t i = 0; i < count; i++)
        pthread_join(io_threads->threads[i], NULL);
    hand_back(io_threads);
    LIST_DRAIN (struct load, load, &io_threads->spare, link)
        free(load);
    pthread_cond_destroy(&io_threads->more);
    pthread_mutex_destroy(&io_threads->mutex);
    uv_close((uv_handle_t *)&io_threads->back, NULL);
}

static uint64_t turn_ns(const struct io_threads *io_threads)
{
    return uv_now(io_threads->loop) * UINT64_C(1000000);
}

void io_threads_meet(struct io_threads *io_threads, const void *connection)
{
    if (io_threads->loop)
        contention_note(&io_threads->contention, connection, turn_ns(io_threads));
}

static bool is_alone(const struct io_threads *io_threads)
{
    return !io_threads->loop || contention_is_none(&io_threads->contention, turn_ns(io_threads));
}

bool io_threads_wanted(const struct io_threads *io_threads)
{
    return io_threads->count && !is_alone(io_threads);
}

size_t io_threads_turn_bytes(const struct io_threads *io_threads)
{
    return is_alone(io_threads) ? TURN_BYTES_ALONE : TURN_BYTES;
}

static struct load *new_load(struct io_threads *io_threads)
{
    struct load *spare = LIST_TAKE(&io_threads->spare, struct load, link);
    return spare ? spare : malloc(sizeof *spare);
}

static bool take_on(struct io_threads *io_threads, int socket, struct passed_descriptor *passed,
                    const struct iovec *pieces, uint32_t count, load_ended *ended, void *context)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += pieces[i].iov_len;
    if (bytes < LOAD_BYTES_LEAST || !io_threads_wanted(io_threads))
        return false;
    struct load *load = new_load(io_threads);
    if (!load)
        return false;
    load->socket = socket;
    load->passed = passed;
    memcpy(load->pieces, pieces, count * sizeof *pieces);
    load->count = count;
    load->ended = ended;
    load->context = context;
    pthread_mutex_lock(&io_threads->mutex);
    list_push(&io_threads->waiting, &load->link);
    pthread_mutex_unlock(&io_threads->mutex);
    pthread_cond_signal(&io_threads->more);
    return true;
}

bool io_threads_receive(struct io_threads *io_threads, int socket, void *memory, size_t bytes,
                        struct passed_descriptor *passed, load_ended *ended, void *context)
{
    const struct iovec piece = {memory, bytes};
    return take_on(io_threads, socket, passed, &piece, 1, ended, context);
}

bool io_threads_send(struct io_threads *io_threads, int socket, const struct iovec *pieces,
                     uint32_t count, load_ended *ended, void *context)
{
    return count <= LOAD_PIECES_MOST &&
           take_on(io_threads, socket, NULL, pieces, count, ended, context);
}
