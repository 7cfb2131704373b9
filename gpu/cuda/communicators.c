#include "gpu/cuda/communicators.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/wake.h"
#include "gpu/cuda/fault.h"
#include "gpu/cuda/nccl_library.h"
#include "gpu/cuda/operations.h"
#include "gpu/cuda/queues.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    /* Of the device, at most, for a kernel of NCCL's: others compute meanwhile. Between two H200,
     * 4 take 85 GB/s, and 16 take 171. */
    BLOCKS = 16,
    /* An exchange that takes longer is given up, before the front takes a worker that waits in a
     * call of CUDA's for its end (cudaFree() does) for one that hangs. */
    EXCHANGE_US = 4 * 1000 * 1000,
    /* How a thread waits: a short exchange takes some 100 µs. */
    YIELD_US = 500,
    SLEEP_US = 1000 /* at most, and a part of the time so far: */
};

/* What the worker's thread orders, and takes back when it is done. */
struct order {
    struct list link;
    enum { CONNECT, EXCHANGE, DISCONNECT } kind;
    struct communicator *of;
    const void *sent;
    void *received;
    size_t sent_bytes, received_bytes;
    struct completion completion;
};

struct communicator {
    pthread_t thread;
    nccl_comm comm; /* the thread's; NULL: it is not there, or has been aborted */
    int rank;
    struct nccl_id id;
    cudaStream_t stream;
    cudaEvent_t end; /* of the latest exchange */
    /* Guarded by the mutex: */
    struct list orders;
    pthread_cond_t ordered;
    bool leaves; /* a DISCONNECT is among them */
};

static struct {
    struct nccl_library nccl;
    int device, wake;
    pthread_mutex_t mutex; /* guards what follows */
    struct list done;
    _Atomic bool some; /* of them: asked without the mutex */
} all = {.mutex = PTHREAD_MUTEX_INITIALIZER};

bool communicators_open(int device, int wake)
{
    const char *library = getenv("FDSERVER_NCCL");
    all.device = device;
    all.wake = wake;
    if (!library || !*library)
        return false;
    setenv("NCCL_NVLS_ENABLE", "0", 0); /* multicast, of no use to two ranks */
    return nccl_library_load(library, &all.nccl);
}

/* --- the thread --- */

static bool leaves(struct communicator *c)
{
    pthread_mutex_lock(&all.mutex);
    const bool leaves = c->leaves;
    pthread_mutex_unlock(&all.mutex);
    return leaves;
}

/* Wait a little for something that has been waited for since then. */
static void pause_since(uint64_t begin_us)
{
    const uint64_t us = (clock_us() - begin_us) / 16;
    if (us < YIELD_US / 16)
        sched_yield();
    else
        usleep(us < SLEEP_US ? (useconds_t)us : SLEEP_US);
}

/* False: the call has failed. */
static bool succeeds(int result, const char *what)
{
    if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS)
        return true;
    log_warning("%s: %s", what, all.nccl.ncclGetErrorString(result));
    return false;
}

/* Wait until NCCL has done the work of the last call or, where it is to have ended, until the
 * device has done it, too. */
static bool await(struct communicator *c, uint64_t begin_us, uint64_t most_us, bool ended)
{
    for (; !leaves(c) && clock_us() - begin_us < most_us; pause_since(begin_us)) {
        int state = NCCL_SUCCESS;
        const cudaError_t error = ended ? cudaEventQuery(c->end) : cudaErrorNotReady;
        if (error != cudaErrorNotReady) {
            fault_never(error, "an exchange");
            return true;
        }
        if (!succeeds(all.nccl.ncclCommGetAsyncError(c->comm, &state), "ncclCommGetAsyncError") ||
            !succeeds(state, "a communicator"))
            return false;
        if (state == NCCL_SUCCESS && !ended)
            return true;
    }
    return false;
}

static bool begin(struct communicator *c)
{
    struct nccl_config config = NCCL_CONFIG;
    config.blocking = 0;
    config.max_ctas = BLOCKS;
    return succeeds(all.nccl.ncclCommInitRankConfig(&c->comm, 2, c->id, c->rank, &config),
                    "ncclCommInitRankConfig") &&
           await(c, clock_us(), UINT64_MAX, false);
}

/* Put it on the stream. */
static bool put(struct communicator *c, const struct order *exchange)
{
    bool ok = succeeds(all.nccl.ncclGroupStart(), "ncclGroupStart");
    if (ok && exchange->sent_bytes)
        ok = succeeds(all.nccl.ncclSend(exchange->sent, exchange->sent_bytes, NCCL_INT8,
                                        1 - c->rank, c->comm, c->stream),
                      "ncclSend");
    if (ok && exchange->received_bytes)
        ok = succeeds(all.nccl.ncclRecv(exchange->received, exchange->received_bytes, NCCL_INT8,
                                        1 - c->rank, c->comm, c->stream),
                      "ncclRecv");
    return succeeds(all.nccl.ncclGroupEnd(), "ncclGroupEnd") && ok;
}

static bool carry_out(struct communicator *c, const struct order *exchange)
{
    const uint64_t begin_us = clock_us();
    if (!put(c, exchange) || !await(c, begin_us, EXCHANGE_US, false))
        return false;
    fault_never(cudaEventRecord(c->end, c->stream), "cudaEventRecord");
    return await(c, begin_us, EXCHANGE_US, true);
}

/* Then nothing of it is on the device any more. */
static void abort_all(struct communicator *c)
{
    if (c->comm)
        succeeds(all.nccl.ncclCommAbort(c->comm), "ncclCommAbort");
    c->comm = NULL;
    fault_never(cudaStreamSynchronize(c->stream), "an exchange that was aborted");
}

static struct order *await_order(struct communicator *c)
{
    pthread_mutex_lock(&all.mutex);
    while (list_empty(&c->orders))
        pthread_cond_wait(&c->ordered, &all.mutex);
    struct order *order = LIST_TAKE(&c->orders, struct order, link);
    pthread_mutex_unlock(&all.mutex);
    return order;
}

static void complete(struct order *order)
{
    pthread_mutex_lock(&all.mutex);
    list_push(&all.done, &order->link);
    all.some = true;
    pthread_mutex_unlock(&all.mutex);
    wake_send(all.wake);
}

static void *run(void *of)
{
    struct communicator *c = of;
    bool ok = true, ends = false;
    fault_never(cudaSetDevice(all.device), "cudaSetDevice");
    while (!ends) {
        struct order *order = await_order(c);
        ends = order->kind == DISCONNECT;
        const bool was = ok;
        ok = ok && !leaves(c) && (order->kind == CONNECT ? begin(c) : carry_out(c, order));
        if (was && !ok)
            abort_all(c);
        order->completion.failed = !ok;
        complete(order);
    }
    return NULL;
}

/* --- the worker's thread --- */

/* Its stream is of the highest priority: others wait for what comes and goes. */
static bool open_stream(struct communicator *c)
{
    int least = 0, greatest = 0;
    return fault_check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "priorities") &&
           fault_check(cudaStreamCreateWithPriority(&c->stream, cudaStreamNonBlocking, greatest),
                       "a stream") &&
           fault_check(cudaEventCreateWithFlags(&c->end, cudaEventDisableTiming), "an event");
}

static void close_stream(struct communicator *c)
{
    if (c->end)
        cudaEventDestroy(c->end);
    if (c->stream)
        cudaStreamDestroy(c->stream);
    pthread_cond_destroy(&c->ordered);
    free(c);
}

static void give_order(const struct order *given)
{
    struct communicator *c = given->of;
    struct order *order = operations_allocate(sizeof *order);
    *order = *given;
    pthread_mutex_lock(&all.mutex);
    list_push(&c->orders, &order->link);
    c->leaves = c->leaves || order->kind == DISCONNECT;
    pthread_cond_signal(&c->ordered);
    pthread_mutex_unlock(&all.mutex);
}

struct communicator *communicators_connect(int rank, uint8_t id[COMMUNICATOR_ID_BYTES],
                                           struct token token)
{
    struct communicator *c = operations_allocate(sizeof *c);
    pthread_cond_init(&c->ordered, NULL);
    c->rank = rank;
    memcpy(&c->id, id, sizeof c->id);
    const bool named = rank != 0 || succeeds(all.nccl.ncclGetUniqueId(&c->id), "ncclGetUniqueId");
    memcpy(id, &c->id, sizeof c->id);
    if (named && open_stream(c) && pthread_create(&c->thread, NULL, run, c) == 0) {
        give_order(&(struct order){.kind = CONNECT, .of = c, .completion.token = token});
        return c;
    }
    close_stream(c);
    return NULL;
}

void communicators_exchange(struct communicator *c, const void *sent, size_t sent_bytes,
                            void *received, size_t received_bytes, struct token token)
{
    queues_let_wait(c->stream);
    give_order(&(struct order){.kind = EXCHANGE,
                               .of = c,
                               .sent = sent,
                               .received = received,
                               .sent_bytes = sent_bytes,
                               .received_bytes = received_bytes,
                               .completion.token = token});
}

void communicators_disconnect(struct communicator *c, struct token token)
{
    give_order(&(struct order){.kind = DISCONNECT, .of = c, .completion.token = token});
}

bool communicators_reap(struct completion *completion)
{
    if (!all.some)
        return false;
    pthread_mutex_lock(&all.mutex);
    struct order *order = LIST_TAKE(&all.done, struct order, link);
    all.some = !list_empty(&all.done);
    pthread_mutex_unlock(&all.mutex);
    *completion = order->completion;
    if (order->kind == DISCONNECT) {
        pthread_join(order->of->thread, NULL);
        close_stream(order->of);
    }
    free(order);
    return true;
}
