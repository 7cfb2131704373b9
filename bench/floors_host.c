#include "bench/floors.h"
#include "gpu/host/share.h"
#include "base/thread_pool.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#ifdef __x86_64__
#include <emmintrin.h>
#endif

enum { SAMPLES = 9, SOCKET_BUFFER_BYTES = 1 << 20 };

uint64_t floors_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double floors_median(double *samples, int n)
{
    qsort(samples, (size_t)n, sizeof *samples, by_value);
    return n % 2 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
}

enum { PAGE = 4096 };

static void touch(void *memory, int64_t from, int64_t to)
{
    for (int64_t p = from; p < to; p++)
        ((char *)memory)[p * PAGE] = (char)p;
}

static char *touched(size_t bytes)
{
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    madvise(memory, bytes, MADV_HUGEPAGE);
    share_units((int64_t)((bytes + PAGE - 1) / PAGE), (int64_t)bytes, touch, memory);
    return memory;
}

/* Copy with non-temporal stores, which do not read the lines of `to` first. Both are aligned, and
 * `bytes` is a multiple of 64. */
static void stream(char *to, const char *from, size_t bytes)
{
#ifdef __x86_64__
    for (size_t i = 0; i < bytes; i += 64)
        for (size_t k = i; k < i + 64; k += 16)
            _mm_stream_si128((void *)(to + k), _mm_load_si128((const void *)(from + k)));
    _mm_sfence();
#else
    memcpy(to, from, bytes);
#endif
}

struct copy {
    char *to;
    const char *from;
    size_t bytes, piece;
    bool streaming;
};

static void copy_piece(void *context, int64_t p)
{
    const struct copy *copy = context;
    const size_t at = (size_t)p * copy->piece, left = copy->bytes - at;
    const size_t bytes = left < copy->piece ? left : copy->piece;
    const size_t whole = copy->streaming ? bytes / 64 * 64 : 0;
    stream(copy->to + at, copy->from + at, whole);
    memcpy(copy->to + at + whole, copy->from + at + whole, bytes - whole);
}

/* The median time of a copy by all threads. Short copies are timed in groups. */
static double shared_copy_us(char *to, const char *from, size_t bytes, bool streaming)
{
    enum { MOST = 1 << 20, LEAST = 64 << 10 };
    size_t piece = bytes / 4 / 64 * 64;
    piece = piece < LEAST ? LEAST : piece > MOST ? MOST : piece;
    const size_t pieces = (bytes + piece - 1) / piece, times = 1 + (256 << 20) / bytes;
    struct copy copy = {to, from, bytes, piece, streaming};
    double samples[SAMPLES];
    for (int i = -1; i < SAMPLES; i++) {
        const uint64_t start = floors_now_ns();
        for (size_t k = 0; k < times; k++)
            thread_pool_for(thread_pool_threads(), (int64_t)pieces, copy_piece, &copy);
        if (i >= 0)
            samples[i] = (double)(floors_now_ns() - start) / 1000 / (double)times;
    }
    return floors_median(samples, SAMPLES);
}

double floors_host_copy_us(size_t bytes)
{
    char *from = touched(bytes), *to = touched(bytes);
    const double cached = shared_copy_us(to, from, bytes, false);
    const double streamed = shared_copy_us(to, from, bytes, true);
    munmap(from, bytes);
    munmap(to, bytes);
    return cached < streamed ? cached : streamed;
}

double floors_memcpy_us(size_t bytes)
{
    char *from = touched(bytes), *to = touched(bytes);
    double samples[SAMPLES];
    for (int i = -1; i < SAMPLES; i++) {
        const uint64_t start = floors_now_ns();
        memcpy(to, from, bytes);
        __asm__ volatile("" : : "r"(to) : "memory");
        if (i >= 0)
            samples[i] = (double)(floors_now_ns() - start) / 1000;
    }
    munmap(from, bytes);
    munmap(to, bytes);
    return floors_median(samples, SAMPLES);
}

struct drain {
    int socket;
    size_t bytes;
};

static void *drain(void *argument)
{
    const struct drain *drain = argument;
    char *buffer = touched(SOCKET_BUFFER_BYTES);
    for (size_t left = drain->bytes; left;) {
        const ssize_t n =
            read(drain->socket, buffer, left < SOCKET_BUFFER_BYTES ? left : SOCKET_BUFFER_BYTES);
        if (n <= 0)
            break;
        left -= (size_t)n;
    }
    char done = 1;
    if (write(drain->socket, &done, 1) != 1)
        perror("write");
    munmap(buffer, SOCKET_BUFFER_BYTES);
    return NULL;
}

static void stream_pair(int ends[2])
{
    const int buffer_bytes = 4 << 20;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
        perror("socketpair");
        exit(1);
    }
    for (int i = 0; i < 2; i++)
        setsockopt(ends[i], SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
}

double floors_socket_us(size_t bytes)
{
    char *from = touched(SOCKET_BUFFER_BYTES);
    double samples[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        int ends[2];
        pthread_t thread;
        stream_pair(ends);
        struct drain other = {ends[1], bytes};
        const uint64_t start = floors_now_ns();
        if (pthread_create(&thread, NULL, drain, &other) != 0)
            exit(1);
        for (size_t left = bytes; left;) {
            const ssize_t n =
                write(ends[0], from, left < SOCKET_BUFFER_BYTES ? left : SOCKET_BUFFER_BYTES);
            if (n <= 0)
                break;
            left -= (size_t)n;
        }
        char done;
        if (read(ends[0], &done, 1) != 1)
            perror("read");
        samples[i] = (double)(floors_now_ns() - start) / 1000;
        pthread_join(thread, NULL);
        close(ends[0]);
        close(ends[1]);
    }
    munmap(from, SOCKET_BUFFER_BYTES);
    return floors_median(samples, SAMPLES);
}

enum { TRIPS = 2000, TRIP_BYTES = 64 };

static void *echo(void *argument)
{
    const int descriptor = *(const int *)argument;
    char buffer[TRIP_BYTES];
    for (int i = 0; i < TRIPS; i++)
        if (read(descriptor, buffer, sizeof buffer) != TRIP_BYTES ||
            write(descriptor, buffer, sizeof buffer) != TRIP_BYTES)
            break;
    return NULL;
}

double floors_socket_round_trip_us(void)
{
    int ends[2];
    pthread_t thread;
    char buffer[TRIP_BYTES] = {0};
    static double samples[TRIPS];
    stream_pair(ends);
    if (pthread_create(&thread, NULL, echo, &ends[1]) != 0)
        exit(1);
    for (int i = 0; i < TRIPS; i++) {
        const uint64_t start = floors_now_ns();
        if (write(ends[0], buffer, sizeof buffer) != TRIP_BYTES ||
            read(ends[0], buffer, sizeof buffer) != TRIP_BYTES)
            break;
        samples[i] = (double)(floors_now_ns() - start) / 1000;
    }
    pthread_join(thread, NULL);
    close(ends[0]);
    close(ends[1]);
    return floors_median(samples, TRIPS);
}
