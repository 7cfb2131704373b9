/* Loads an fdserver with one kind of job, and prints its clients' measurements as JSON.
 *
 *   bench_load --connect PATH --clients 8 --in-flight 16 --seconds 3 --mode resident
 *              --shape 64,64,64
 *
 * Modes: resident (fields on the device, no array on the wire), inline (arrays over the socket),
 * region (arrays in memory from fdclient_alloc(), which the server maps).
 * A client is a thread with its own connection through libfdclient. It keeps that many jobs in
 * flight and submits the next when one is answered. The time of a job is from its submission to its
 * result. --idle opens that many more connections, which send one request and are then silent. */
#include "fdclient.h"

#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { IN_FLIGHT_MOST = 4096 };
#define WARM_UP_S 0.3

enum mode { MODE_RESIDENT, MODE_INLINE, MODE_REGION };

static struct {
    const char *connect;
    int clients, in_flight, idle;
    double seconds;
    enum mode mode;
    struct fdclient_array f; /* shape, and data that all clients send */
    size_t bytes;
    pthread_barrier_t ready;
    _Atomic double begin; /* of the time that counts, which lasts until each client has had a job */
} load = {.clients = 1,
          .in_flight = 1,
          .seconds = 3,
          .f = {.dtype = FDCLIENT_F32, .dimensions = 3, .shape = {64, 64, 64}}};

/* A job in flight. Each has a result of its own, so that none waits for another. */
struct slot {
    uint64_t ticket;
    double submitted;
    struct fdclient_result result;
    struct fdclient_params params;
};

struct client {
    pthread_t thread;
    struct fdclient *connection;
    struct fdclient_array f;
    uint8_t *region; /* f and the slots' results, in MODE_REGION */
    struct slot *slots;
    float *microseconds; /* of each job that ended in the time that counts */
    size_t count, capacity;
    double last; /* when the last of them ended */
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static _Noreturn void give_up(const struct fdclient_error *error)
{
    fprintf(stderr, "bench_load: %s: %s\n", error->code, error->message);
    exit(1);
}

static _Noreturn void no_memory(void)
{
    const struct fdclient_error error = {.code = "OUT_OF_MEMORY", .message = "no memory"};
    give_up(&error);
}

/* --- jobs --- */

static uint64_t put(struct client *client)
{
    struct fdclient_error error;
    uint64_t field;
    if (!fdclient_put(client->connection, &load.f, &field, &error))
        give_up(&error);
    return field;
}

static void prepare(struct client *client)
{
    struct fdclient_error error;
    client->connection = fdclient_open(load.connect, &error);
    if (!client->connection)
        give_up(&error);
    client->slots = calloc((size_t)load.in_flight, sizeof *client->slots);
    if (!client->slots)
        no_memory();
    client->f = load.f;
    if (load.mode == MODE_RESIDENT)
        client->f = (struct fdclient_array){.field = put(client)};
    const size_t step = (load.bytes + 63) / 64 * 64;
    if (load.mode == MODE_REGION) {
        client->region = fdclient_alloc(client->connection, step * ((size_t)load.in_flight + 1));
        if (!client->region)
            no_memory();
        memcpy(client->region, load.f.data, load.bytes);
        client->f.data = client->region;
    }
    for (int i = 0; i < load.in_flight; i++) {
        struct slot *slot = &client->slots[i];
        slot->params = (struct fdclient_params)FDCLIENT_PARAMS;
        slot->params.axis = "x";
        if (load.mode == MODE_RESIDENT) {
            slot->params.out_is_field = true;
            slot->params.out_field[0] = put(client);
        } else if (load.mode == MODE_REGION) {
            slot->result.capacity = load.bytes;
            slot->result.data = client->region + step * ((size_t)i + 1);
        } else {
            slot->result.capacity = load.bytes;
            slot->result.data = malloc(load.bytes);
            if (!slot->result.data)
                no_memory();
            memset(slot->result.data, 0, load.bytes);
        }
    }
}

static void clean_up(struct client *client)
{
    for (int i = 0; i < load.in_flight; i++) {
        struct slot *slot = &client->slots[i];
        if (load.mode == MODE_RESIDENT)
            fdclient_free(client->connection, slot->params.out_field[0], NULL);
        else if (load.mode == MODE_INLINE)
            free(slot->result.data);
    }
    fdclient_dealloc(client->connection, client->region);
    if (load.mode == MODE_RESIDENT)
        fdclient_free(client->connection, client->f.field, NULL);
    fdclient_close(client->connection);
    free(client->slots);
}

static void submit(struct client *client, struct slot *slot)
{
    struct fdclient_error error;
    slot->submitted = now();
    if (!fdclient_submit(client->connection, "derivative", &client->f, &slot->params, &slot->result,
                         &slot->ticket, &error))
        give_up(&error);
}

static void record(struct client *client, double time, double seconds)
{
    client->last = time;
    if (client->count == client->capacity) {
        client->capacity = client->capacity ? 2 * client->capacity : 4096;
        client->microseconds =
            realloc(client->microseconds, client->capacity * sizeof *client->microseconds);
        if (!client->microseconds)
            no_memory();
    }
    client->microseconds[client->count++] = (float)(1e6 * seconds);
}

/* Wait for any job to end; with a single job, as a caller who does nothing else would. */
static struct slot *next(struct client *client)
{
    struct fdclient_error error;
    uint64_t ticket;
    int ended;
    if (load.in_flight == 1) {
        if (!fdclient_wait(client->connection, client->slots[0].ticket, &error))
            give_up(&error);
        return &client->slots[0];
    }
    while ((ended = fdclient_next(client->connection, &ticket, &error)) == 0) {
        struct pollfd wait = {fdclient_descriptor(client->connection),
                              fdclient_events(client->connection), 0};
        poll(&wait, 1, -1);
        if (!fdclient_process(client->connection, &error))
            give_up(&error);
    }
    if (ended < 0)
        give_up(&error);
    for (int i = 0; i < load.in_flight; i++)
        if (client->slots[i].ticket == ticket)
            return &client->slots[i];
    abort();
}

static void *run(void *argument)
{
    struct client *client = argument;
    prepare(client);
    pthread_barrier_wait(&load.ready); /* all are connected; main looks at the clock */
    pthread_barrier_wait(&load.ready);
    const double begin = atomic_load(&load.begin), end = begin + load.seconds;
    int in_flight = load.in_flight;
    for (int i = 0; i < load.in_flight; i++)
        submit(client, &client->slots[i]);
    while (in_flight) {
        struct slot *slot = next(client);
        const double time = now();
        const bool goes_on = time < end || !client->count;
        if (time >= begin && goes_on)
            record(client, time, time - slot->submitted);
        if (goes_on)
            submit(client, slot);
        else
            in_flight--;
    }
    clean_up(client);
    return NULL;
}

/* --- the front, from outside: it is our socket's peer --- */

static pid_t front_of(const struct fdclient *connection)
{
    struct ucred peer = {0};
    socklen_t length = sizeof peer;
    getsockopt(fdclient_descriptor(connection), SOL_SOCKET, SO_PEERCRED, &peer, &length);
    return peer.pid;
}

/* Seconds that it has spent on a CPU. */
static double cpu_of(pid_t pid)
{
    char path[64];
    unsigned long user = 0, kernel = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file) {
        if (fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                   &kernel) != 2)
            user = kernel = 0;
        fclose(file);
    }
    return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

/* Bytes of its own memory that are resident. */
static double memory_of(pid_t pid)
{
    char path[64], line[128];
    double kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "RssAnon:", 8) == 0)
            kib = strtod(line + 8, NULL);
    if (file)
        fclose(file);
    return 1024 * kib;
}

/* Open them, and measure the front's memory for each. */
static double open_idle(struct fdclient **idle, pid_t front)
{
    struct fdclient_error error;
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    const double before = memory_of(front);
    for (int i = 0; i < load.idle; i++) {
        char *json;
        idle[i] = fdclient_open(load.connect, &error);
        if (!idle[i] || !fdclient_call(idle[i], "ping", &json, &error))
            give_up(&error);
        free(json);
    }
    return load.idle ? (memory_of(front) - before) / load.idle : 0;
}

/* --- */

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void report(struct client *clients, double cpu_s, double idle_bytes)
{
    size_t count = 0;
    double seconds = load.seconds;
    for (int i = 0; i < load.clients; i++) {
        count += clients[i].count;
        const double took = clients[i].last - atomic_load(&load.begin);
        seconds = took > seconds ? took : seconds;
    }
    float *all = malloc((count + 1) * sizeof *all);
    if (!all)
        no_memory();
    size_t at = 0;
    for (int i = 0; i < load.clients; i++) {
        if (clients[i].count)
            memcpy(all + at, clients[i].microseconds, clients[i].count * sizeof *all);
        at += clients[i].count;
    }
    qsort(all, count, sizeof *all, by_size);
    const double jobs = count ? (double)count : 1;
    all[count] = 0;
    printf("{\"jobs\": %zu, \"jobs_per_s\": %.1f, \"p50_us\": %.1f, \"p99_us\": %.1f, "
           "\"front_cpu_us_per_job\": %.2f, \"idle_connections\": %d, "
           "\"front_bytes_per_idle_connection\": %.0f}\n",
           count, (double)count / seconds, all[count / 2], all[count * 99 / 100],
           1e6 * cpu_s / jobs, load.idle, idle_bytes);
    free(all);
}

static void measure(void)
{
    struct fdclient_error error;
    struct client *clients = calloc((size_t)load.clients, sizeof *clients);
    struct fdclient **idle = calloc((size_t)load.idle + 1, sizeof *idle);
    struct fdclient *probe = fdclient_open(load.connect, &error);
    if (!clients || !idle)
        no_memory();
    if (!probe)
        give_up(&error);
    const pid_t front = front_of(probe);
    const double idle_bytes = open_idle(idle, front);
    pthread_barrier_init(&load.ready, NULL, (unsigned)load.clients + 1);
    for (int i = 0; i < load.clients; i++)
        if (pthread_create(&clients[i].thread, NULL, run, &clients[i]) != 0)
            no_memory();
    pthread_barrier_wait(&load.ready);
    const double begin = now() + WARM_UP_S;
    atomic_store(&load.begin, begin);
    pthread_barrier_wait(&load.ready);
    const struct timespec warm_up = {.tv_nsec = (long)(1e9 * WARM_UP_S)};
    const struct timespec counts = {.tv_sec = (time_t)load.seconds,
                                    .tv_nsec = (long)(1e9 * (load.seconds - (long)load.seconds))};
    nanosleep(&warm_up, NULL);
    const double cpu = cpu_of(front);
    nanosleep(&counts, NULL);
    const double cpu_s = cpu_of(front) - cpu;
    for (int i = 0; i < load.clients; i++)
        pthread_join(clients[i].thread, NULL);
    report(clients, cpu_s, idle_bytes);
    for (int i = 0; i < load.clients; i++)
        free(clients[i].microseconds);
    for (int i = 0; i < load.idle; i++)
        fdclient_close(idle[i]);
    fdclient_close(probe);
    free(clients);
    free(idle);
}

/* --- options --- */

static bool read_shape(const char *text)
{
    load.f.dimensions = 0;
    while (load.f.dimensions < FDCLIENT_DIMENSIONS) {
        char *rest;
        const unsigned long long n = strtoull(text, &rest, 10);
        if (rest == text || n == 0)
            return false;
        load.f.shape[load.f.dimensions++] = n;
        if (*rest == '\0')
            return true;
        if (*rest != ',')
            return false;
        text = rest + 1;
    }
    return false;
}

static bool read_mode(const char *text)
{
    static const char *const names[] = {
        [MODE_RESIDENT] = "resident", [MODE_INLINE] = "inline", [MODE_REGION] = "region"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i]) == 0) {
            load.mode = (enum mode)i;
            return true;
        }
    return false;
}

static bool read_count(const char *text, int least, int most, int *count)
{
    char *rest;
    const long value = strtol(text, &rest, 10);
    *count = (int)value;
    return *text && !*rest && value >= least && value <= most;
}

static bool read_option(int option)
{
    char *rest;
    switch (option) {
    case 'c':
        load.connect = optarg;
        return true;
    case 'n':
        return read_count(optarg, 1, 1024, &load.clients);
    case 'k':
        return read_count(optarg, 1, IN_FLIGHT_MOST, &load.in_flight);
    case 'i':
        return read_count(optarg, 0, 1 << 20, &load.idle);
    case 's':
        load.seconds = strtod(optarg, &rest);
        return !*rest && load.seconds > 0 && load.seconds < 1e6;
    case 'm':
        return read_mode(optarg);
    case 'f':
        return read_shape(optarg);
    default:
        return false;
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"connect", required_argument, NULL, 'c'},   {"clients", required_argument, NULL, 'n'},
        {"in-flight", required_argument, NULL, 'k'}, {"seconds", required_argument, NULL, 's'},
        {"mode", required_argument, NULL, 'm'},      {"shape", required_argument, NULL, 'f'},
        {"idle", required_argument, NULL, 'i'},      {0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0)
        if (!read_option(option)) {
            fprintf(stderr, "usage: bench_load [--connect PATH] [--clients N] [--in-flight N]\n"
                            "                  [--seconds S] [--mode resident|inline|region]\n"
                            "                  [--shape N,N,N] [--idle N]\n");
            return 2;
        }
    setenv("FDCLIENT_TRANSPORT", load.mode == MODE_REGION ? "region" : "socket", 1);
    size_t points = 1;
    for (uint32_t i = 0; i < load.f.dimensions; i++)
        points *= load.f.shape[i];
    load.bytes = points * sizeof(float);
    float *data = malloc(load.bytes);
    if (!data)
        no_memory();
    for (size_t i = 0; i < points; i++)
        data[i] = (float)(i * 2654435761u % 1000) / 1000;
    load.f.data = data;
    measure();
    free(data);
    return 0;
}
