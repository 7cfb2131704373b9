/* A libnccl.so.2 for emulated devices: what gpu/cuda/nccl_library.h uses of it, for two ranks on
 * one machine. A group's sends and receives go at once on its stream, through a Unix socket, each
 * with its size, which must be what the other rank expects. The file that NCCL_ON_HOST names makes
 * it fail: "hang" exchanges nothing, "error" says so, "never" connects nothing either. The
 * one named so with .done gets a byte for each rank's exchange that is done. */
#include "gpu/cuda/nccl_library.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { TICK_MS = 10, FAILED = 3 };

struct piece {
    uint8_t *memory;
    uint64_t bytes, done; /* of its size and itself */
    bool is_there;
};

struct exchange {
    nccl_comm comm;
    cudaStream_t stream;
    struct piece sent, received;
    uint64_t size; /* of what comes */
};

struct ncclComm {
    int rank, socket;
    char name[128];
    _Atomic bool connected, aborted;
    _Atomic int polls; /* until it says that a call is done */
    atomic_int failed, under_way;
};

static _Thread_local struct exchange group; /* of the thread's ncclGroupStart() */

static bool fault(const char *name)
{
    const char *path = getenv("NCCL_ON_HOST");
    char text[16] = "";
    FILE *file = path ? fopen(path, "r") : NULL;
    const bool is = file && fgets(text, sizeof text, file) && strcmp(text, name) == 0;
    if (file)
        fclose(file);
    return is;
}

static void address_of(const char *name, struct sockaddr_un *address)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX; /* in no folder */
    snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "%.100s", name);
}

int ncclGetUniqueId(struct nccl_id *id)
{
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return FAILED;
    memset(id, 0, sizeof *id);
    snprintf(id->bytes, sizeof id->bytes, "nccl-on-host-%016llx", (unsigned long long)random);
    return NCCL_SUCCESS;
}

const char *ncclGetErrorString(int error)
{
    return error == FAILED ? "an emulated error" : "another error";
}

/* --- connecting --- */

static bool await(int socket, short events)
{
    struct pollfd polls = {.fd = socket, .events = events};
    return poll(&polls, 1, TICK_MS) == 1;
}

static void *make(void *of)
{
    struct ncclComm *comm = of;
    struct sockaddr_un address;
    const int one = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address_of(comm->name, &address);
    if (comm->rank == 0 &&
        (bind(one, (struct sockaddr *)&address, sizeof address) || listen(one, 1)))
        comm->failed = FAILED;
    while (fault("never") && !comm->aborted)
        usleep(1000 * TICK_MS);
    while (comm->rank && !comm->aborted &&
           connect(one, (struct sockaddr *)&address, sizeof address) != 0)
        usleep(1000 * TICK_MS);
    while (!comm->rank && !comm->aborted && comm->socket < 0)
        if (await(one, POLLIN))
            comm->socket = accept4(one, NULL, NULL, SOCK_CLOEXEC);
    if (comm->rank)
        comm->socket = one;
    else
        close(one);
    comm->connected = true;
    return NULL;
}

int ncclCommInitRankConfig(nccl_comm *made, int ranks, struct nccl_id id, int rank,
                           struct nccl_config *config)
{
    struct ncclComm *comm = *made = calloc(1, sizeof *comm);
    if (!comm || ranks != 2 || config->blocking || config->magic != 0xcafebeef)
        return FAILED;
    comm->rank = rank;
    comm->socket = -1;
    memcpy(comm->name, id.bytes, sizeof comm->name - 1);
    pthread_t thread;
    return pthread_create(&thread, NULL, make, comm) || pthread_detach(thread) ? FAILED
                                                                               : NCCL_IN_PROGRESS;
}

int ncclCommGetAsyncError(nccl_comm comm, int *error)
{
    *error = comm->failed        ? comm->failed
             : !comm->connected  ? NCCL_IN_PROGRESS
             : comm->polls-- > 0 ? NCCL_IN_PROGRESS
                                 : NCCL_SUCCESS;
    return NCCL_SUCCESS;
}

int ncclCommAbort(nccl_comm comm)
{
    comm->aborted = true;
    while (!comm->connected || comm->under_way)
        usleep(1000);
    if (comm->socket >= 0)
        close(comm->socket);
    free(comm);
    return NCCL_SUCCESS;
}

/* --- exchanging --- */

int ncclGroupStart(void)
{
    group = (struct exchange){0};
    return NCCL_SUCCESS;
}

static int add(struct piece *piece, void *memory, size_t bytes, nccl_comm comm, cudaStream_t stream)
{
    if (piece->is_there)
        abort(); /* two pieces one way */
    *piece = (struct piece){.memory = memory, .bytes = bytes, .is_there = true};
    group.comm = comm;
    group.stream = stream;
    return NCCL_SUCCESS;
}

int ncclSend(const void *memory, size_t count, int type, int peer, nccl_comm comm,
             cudaStream_t stream)
{
    (void)type, (void)peer;
    return add(&group.sent, (void *)(uintptr_t)memory, count, comm, stream);
}

int ncclRecv(void *memory, size_t count, int type, int peer, nccl_comm comm, cudaStream_t stream)
{
    (void)type, (void)peer;
    return add(&group.received, memory, count, comm, stream);
}

/* What of the piece is next: its size, then its bytes. */
static size_t next(struct piece *piece, uint64_t *size, void **at)
{
    const bool is_size = piece->done < sizeof *size;
    *at = is_size ? (uint8_t *)size + piece->done : piece->memory + piece->done - sizeof *size;
    return is_size ? sizeof *size - piece->done : piece->bytes + sizeof *size - piece->done;
}

static bool is_done(const struct piece *piece)
{
    return !piece->is_there || piece->done == piece->bytes + sizeof piece->bytes;
}

static void move(struct exchange *exchange, struct piece *piece)
{
    uint64_t size = piece->bytes;
    void *at;
    const bool sends = piece == &exchange->sent;
    const size_t bytes = next(piece, sends ? &size : &exchange->size, &at);
    const ssize_t n = sends ? send(exchange->comm->socket, at, bytes, MSG_DONTWAIT | MSG_NOSIGNAL)
                            : recv(exchange->comm->socket, at, bytes, MSG_DONTWAIT);
    if (n > 0)
        piece->done += (uint64_t)n;
    else if (n == 0 || errno != EAGAIN) /* a peer that is gone is not noticed */
        usleep(1000 * TICK_MS);
    if (!sends && piece->done == sizeof size && exchange->size != piece->bytes)
        abort(); /* the ranks are out of step */
}

static void note_done(void)
{
    const char *path = getenv("NCCL_ON_HOST");
    char name[4096];
    snprintf(name, sizeof name, "%s.done", path ? path : "/dev/null/");
    FILE *file = fopen(name, "a");
    if (!file)
        return;
    fputc('.', file);
    fclose(file);
}

static void carry_out(void *of)
{
    struct exchange *exchange = of;
    struct ncclComm *comm = exchange->comm;
    while (!comm->aborted && (!is_done(&exchange->sent) || !is_done(&exchange->received))) {
        const short events = (short)((is_done(&exchange->sent) ? 0 : POLLOUT) |
                                     (is_done(&exchange->received) ? 0 : POLLIN));
        if (fault("hang") || !await(comm->socket, events))
            continue;
        if (!is_done(&exchange->sent))
            move(exchange, &exchange->sent);
        if (!is_done(&exchange->received))
            move(exchange, &exchange->received);
    }
    if (!comm->aborted)
        note_done();
    comm->under_way--;
    free(exchange);
}

int ncclGroupEnd(void)
{
    struct exchange *exchange = malloc(sizeof *exchange);
    if (!exchange)
        return FAILED;
    *exchange = group;
    if (fault("error") || fault("never")) {
        exchange->comm->failed = FAILED;
        free(exchange);
        return NCCL_IN_PROGRESS;
    }
    exchange->comm->under_way++;
    exchange->comm->polls = 2;
    cudaLaunchHostFunc(exchange->stream, carry_out, exchange);
    return NCCL_IN_PROGRESS;
}
