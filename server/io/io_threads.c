#include "server/io/io_threads.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { DROP_BYTES = 64 << 10, TURN_BYTES = 128 << 10, TURN_BYTES_ALONE = 1 << 20 };

struct load {
    struct list link;
    int socket;
    struct passed *passed; /* NULL: it is sent */
    struct iovec pieces[LOAD_PIECES_MOST];
    uint32_t count;
    ssize_t moved;
    int error;
    load_carried *carried;
    void *context;
};

static void carry(struct load *load)
{
    if (load->passed) {
        uint8_t dropped[DROP_BYTES];
        void *const memory = load->pieces[0].iov_base;
        size_t bytes = load->pieces[0].iov_len;
        if (!memory && bytes > sizeof dropped)
            bytes = sizeof dropped;
        load->moved = passed_receive(load->socket, memory ? memory : dropped, bytes, load->passed);
    } else {
        const struct msghdr message = {.msg_iov = load->pieces, .msg_iovlen = load->count};
        do
            load->moved = sendmsg(load->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        while (load->moved < 0 && errno == EINTR);
    }
    load->error = load->moved < 0 ? errno : 0;
}

/* Until the carriers leave and nothing waits any more. */
static void *run(void *context)
{
    struct carriers *carriers = context;
    pthread_mutex_lock(&carriers->mutex);
    for (;;) {
        struct list *link;
        while (!(link = list_first(&carriers->waiting)) && !carriers->leaving)
            pthread_cond_wait(&carriers->more, &carriers->mutex);
        if (!link)
            break;
        list_remove(link);
        pthread_mutex_unlock(&carriers->mutex);
        carry(LIST_ENTRY(link, struct load, link));
        pthread_mutex_lock(&carriers->mutex);
        const bool first = list_empty(&carriers->carried);
        list_push(&carriers->carried, link);
        pthread_mutex_unlock(&carriers->mutex);
        if (first)
            uv_async_send(&carriers->back);
        pthread_mutex_lock(&carriers->mutex);
    }
    pthread_mutex_unlock(&carriers->mutex);
    return NULL;
}

/* What has been carried by now. */
static void hand_back(struct carriers *carriers)
{
    struct list carried;
    list_init(&carried);
    pthread_mutex_lock(&carriers->mutex);
    list_move(&carriers->carried, &carried);
    pthread_mutex_unlock(&carriers->mutex);
    for (struct list *link; (link = list_first(&carried));) {
        const struct load *load = LIST_ENTRY(link, struct load, link);
        load_carried *const call = load->carried;
        void *const context = load->context;
        const ssize_t moved = load->moved;
        const int error = load->error;
        list_remove(link);
        list_push_front(&carriers->spare, link);
        call(context, moved, error);
    }
}

static void on_back(uv_async_t *handle)
{
    hand_back(handle->data);
}

bool carriers_open(struct carriers *carriers, uv_loop_t *loop, uint32_t count)
{
    memset(carriers, 0, sizeof *carriers);
    list_init(&carriers->waiting);
    list_init(&carriers->carried);
    list_init(&carriers->spare);
    if (uv_async_init(loop, &carriers->back, on_back) != 0)
        return false;
    carriers->loop = loop;
    carriers->back.data = carriers;
    pthread_mutex_init(&carriers->mutex, NULL);
    pthread_cond_init(&carriers->more, NULL);
    while (carriers->count < count && carriers->count < CARRIERS_MOST) {
        const int error = pthread_create(&carriers->threads[carriers->count], NULL, run, carriers);
        if (error) {
            log_warning("no more than %u threads to carry payload: %s", carriers->count,
                        strerror(error));
            break;
        }
        carriers->count++;
    }
    return true;
}

void carriers_close(struct carriers *carriers)
{
    if (!carriers->loop)
        return;
    const uint32_t count = carriers->count;
    carriers->count = 0;
    carriers->loop = NULL;
    pthread_mutex_lock(&carriers->mutex);
    carriers->leaving = true;
    pthread_cond_broadcast(&carriers->more);
    pthread_mutex_unlock(&carriers->mutex);
    for (uint32_t i = 0; i < count; i++)
        pthread_join(carriers->threads[i], NULL);
    hand_back(carriers);
    for (struct list *link; (link = list_first(&carriers->spare));) {
        list_remove(link);
        free(LIST_ENTRY(link, struct load, link));
    }
    pthread_cond_destroy(&carriers->more);
    pthread_mutex_destroy(&carriers->mutex);
    uv_close((uv_handle_t *)&carriers->back, NULL);
}

static uint64_t turn_ns(const struct carriers *carriers)
{
    return uv_now(carriers->loop) * UINT64_C(1000000);
}

void carriers_meet(struct carriers *carriers, const void *connection)
{
    if (carriers->loop)
        company_meet(&carriers->company, connection, turn_ns(carriers));
}

static bool is_alone(const struct carriers *carriers)
{
    return !carriers->loop || company_is_alone(&carriers->company, turn_ns(carriers));
}

bool carriers_wanted(const struct carriers *carriers)
{
    return carriers->count && !is_alone(carriers);
}

size_t carriers_turn_bytes(const struct carriers *carriers)
{
    return is_alone(carriers) ? TURN_BYTES_ALONE : TURN_BYTES;
}

static struct load *new_load(struct carriers *carriers)
{
    struct list *link = list_first(&carriers->spare);
    if (!link)
        return malloc(sizeof(struct load));
    list_remove(link);
    return LIST_ENTRY(link, struct load, link);
}

/* Where it is worth it. */
static bool take_on(struct carriers *carriers, int socket, struct passed *passed,
                    const struct iovec *pieces, uint32_t count, load_carried *carried,
                    void *context)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += pieces[i].iov_len;
    if (bytes < LOAD_BYTES_LEAST || !carriers_wanted(carriers))
        return false;
    struct load *load = new_load(carriers);
    if (!load)
        return false;
    load->socket = socket;
    load->passed = passed;
    memcpy(load->pieces, pieces, count * sizeof *pieces);
    load->count = count;
    load->carried = carried;
    load->context = context;
    pthread_mutex_lock(&carriers->mutex);
    list_push(&carriers->waiting, &load->link);
    pthread_mutex_unlock(&carriers->mutex);
    pthread_cond_signal(&carriers->more);
    return true;
}

bool carriers_receive(struct carriers *carriers, int socket, void *memory, size_t bytes,
                      struct passed *passed, load_carried *carried, void *context)
{
    const struct iovec piece = {memory, bytes};
    return take_on(carriers, socket, passed, &piece, 1, carried, context);
}

bool carriers_send(struct carriers *carriers, int socket, const struct iovec *pieces,
                   uint32_t count, load_carried *carried, void *context)
{
    return count <= LOAD_PIECES_MOST &&
           take_on(carriers, socket, NULL, pieces, count, carried, context);
}
