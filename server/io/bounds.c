#include "server/io/bounds.h"

#include "base/log.h"
#include "protocol/request_bounds.h"
#include "server/io/connection.h"
#include "server/users/memory.h"
#include "server/io/io.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct work {
    uv_work_t work;
    struct user *user;
    struct connection *connection; /* NULL: it has closed */
    uint64_t bytes;                /* of all of it, charged */
    uint64_t ns;                   /* that the thread was at it */
    struct request_bounds bounds;
};

static void *wait_for_others(void *mutex)
{
    pthread_mutex_lock(mutex);
    pthread_mutex_unlock(mutex);
    return NULL;
}

static void do_nothing(uv_work_t *work)
{
    (void)work;
}

/* libuv starts its pool of threads for the first work, and ends the process where it cannot. So it
 * gets work at the start, after a trial that as many threads can run at once. */
bool bounds_open(uv_loop_t *loop)
{
    enum { POOL = 4 };
    static uv_work_t work;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_t threads[POOL];
    int count = 0, error = 0;
    pthread_mutex_lock(&mutex);
    while (count < POOL &&
           !(error = pthread_create(&threads[count], NULL, wait_for_others, &mutex)))
        count++;
    pthread_mutex_unlock(&mutex);
    while (count > 0)
        pthread_join(threads[--count], NULL);
    if (error) {
        log_error("no threads for the loop's pool: %s", strerror(error));
        return false;
    }
    return uv_queue_work(loop, &work, do_nothing, NULL) == 0;
}

bool bounds_hold(const struct connection *connection)
{
    return connection->bounds.state != BOUNDS_NONE;
}

bool bounds_due(const struct connection *connection)
{
    return connection->bounds.state == BOUNDS_CALLED || connection->bounds.state == BOUNDS_KNOWN;
}

/* The user's turn goes to the connection that has waited longest. */
static void call_next(struct user *user)
{
    struct connection *next = LIST_TAKE(&user->bounds.waiting, struct connection, bounds.link);
    user->bounds.busy = next != NULL;
    if (!next)
        return;
    next->bounds.state = BOUNDS_CALLED;
    turn_again(next);
}

static void free_work(struct work *work)
{
    memory_release(work->user, work->bytes);
    free(work);
}

static uint64_t thread_ns(void)
{
    struct timespec time = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static void find_bounds(uv_work_t *handle)
{
    struct work *work = LIST_ENTRY(handle, struct work, work);
    const uint64_t begun_ns = thread_ns();
    request_bounds_find(&work->bounds);
    work->ns = thread_ns() - begun_ns;
}

static void on_found(uv_work_t *handle, int status)
{
    (void)status; /* none is cancelled */
    struct work *work = LIST_ENTRY(handle, struct work, work);
    struct user *user = work->user;
    struct connection *connection = work->connection;
    user->turn.credit_ns -= (int64_t)work->ns;
    if (connection) {
        connection->bounds.state = BOUNDS_KNOWN;
        turn_again(connection);
    } else {
        free_work(work);
    }
    call_next(user);
}

static bool begin_bounds(struct connection *connection, const struct request_bounds *list,
                         uint64_t bytes, struct failure *failure)
{
    bytes += sizeof(struct work) - sizeof(struct request_bounds);
    struct work *work = memory_new(connection->user, bytes, "spacing", failure);
    if (!work)
        return false;
    work->user = connection->user;
    work->connection = connection;
    work->bytes = bytes;
    request_bounds_copy(list, &work->bounds);
    connection->user->bounds.busy = true;
    connection->bounds.state = BOUNDS_FINDING;
    connection->bounds.work = work;
    uv_queue_work(connection->io->loop, &work->work, find_bounds, on_found); /* cannot fail */
    return true;
}

enum bounds_answer bounds_prepare(struct connection *connection, struct request *request,
                                  struct failure *failure)
{
    struct bounds *bounds = &connection->bounds;
    if (bounds->state == BOUNDS_KNOWN) {
        request_bounds_give(request, &bounds->work->bounds);
        return BOUNDS_GO_ON;
    }
    struct request_bounds list;
    const uint64_t bytes = request_bounds_list(request, &list);
    if (bytes == 0)
        return BOUNDS_GO_ON;
    if (bounds->state == BOUNDS_NONE && connection->user->bounds.busy) {
        bounds->state = BOUNDS_WAITING;
        list_push(&connection->user->bounds.waiting, &bounds->link);
        return BOUNDS_LATER;
    }
    return begin_bounds(connection, &list, bytes, failure) ? BOUNDS_LATER : BOUNDS_REFUSED;
}

void bounds_release(struct connection *connection)
{
    struct bounds *bounds = &connection->bounds;
    list_remove(&bounds->link);
    if (bounds->state == BOUNDS_CALLED)
        call_next(connection->user);
    else if (bounds->state == BOUNDS_KNOWN)
        free_work(bounds->work);
    else if (bounds->state == BOUNDS_FINDING)
        bounds->work->connection = NULL;
    bounds->work = NULL;
    bounds->state = BOUNDS_NONE;
}
