/* A worker: its device, the arrays on it, and how it speaks to the front. An order that breaks a
 * rule of channel.h ends the process.
 *
 *   main.c    the process and its loop: orders and completions go to the two below
 *   jobs.c    runs: their slices on the device one after another, and how they end
 *   store.c   arrays, clients' regions, and copies between them and the arena
 *   exported.c  arrays in memory that other processes map
 *   peers.c   arrays that go to workers of other nodes, and come from there
 *
 * One thread. */
#pragma once

#include "gpu/backend.h"
#include "gpu/worker/channel.h"
#include "gpu/worker/execution.h"
#include "gpu/worker/ids.h"
#include "gpu/worker/pipeline.h"
#include "gpu/worker/plans.h"
#include "gpu/worker/region.h"

#include <stdbool.h>
#include <stdint.h>

#define WORKER_BROKEN_FRONT_EXIT 65

struct worker {
    const struct backend *backend;
    int device;
    bool open; /* the ARENA has come */
    uint8_t *arena;
    uint64_t arena_bytes;
    bool direct;       /* the backend computes in regions themselves */
    bool communicates; /* it has communicators */
    int wake;          /* eventfd: something completed, or a region is mapped */
    /* What the backend has been given: copies between the arena and arrays, and for jobs, of which
     * the pipeline counts its own that are under way. */
    struct channel_work copies, jobs, disconnects;
    uint32_t exchanges;           /* under way */
    struct channel_queue answers; /* sent at the end of a turn of the loop */
    /* The store's. */
    struct ids holdings;
    uint64_t unknown; /* arrays that there was no memory to note */
    struct regions regions;
    void *mailbox; /* owned; NULL: none was asked for, or there was no memory */
    uint64_t mailbox_bytes;
    struct ids peers; /* communicators, by number */
    /* The jobs'. */
    struct executions runs;
    struct pipeline pipeline;
    struct plans plans;
};

/* Some of it has completed. */
static inline void worker_completed(struct channel_work *work)
{
    work->under_way--;
    work->ended++;
}

/* The front broke a rule of channel.h: nothing that it says can be trusted any more. */
_Noreturn void worker_broken(const char *rule, uint64_t id);

/* There is no memory for what the worker cannot do without. Where an order can be refused alone it
 * is. */
_Noreturn void worker_out_of_memory(void);

/* Send it to the front at the end of the turn; at once, waiting for the front to read, where there
 * is no memory to keep it in. */
void worker_answer(struct worker *worker, const struct channel_message *message);

/* --- store.c --- */

/* Release all arrays and regions. Nothing is under way. */
void store_close(struct worker *worker);
/* REGION; takes the descriptor. */
void store_map(struct worker *worker, const struct channel_message *message, int memfd);
/* MAPPED of each region that has been mapped, or could not be, since the last call. */
void store_answer_mapped(struct worker *worker);
/* MAILBOX: allocate it, and answer with its descriptor. */
void store_open_mailbox(struct worker *worker, uint64_t bytes);
/* ALLOCATE, RELEASE. */
void store_allocate(struct worker *worker, const struct channel_message *message);
void store_release(struct worker *worker, uint64_t id);
/* UPLOAD, DOWNLOAD. */
void store_copy(struct worker *worker, const struct channel_message *message);
/* That copy has completed; region NULL: of the arena. */
void store_copied(struct worker *worker, struct holding *holding, struct region *region,
                  bool is_upload, uint64_t tag);
/* Does it have memory, with all that was uploaded to it? */
bool store_has_memory(const struct holding *holding);
/* The array of that id, which is there; or one of no bytes, where it may be one that there was no
 * memory to note. */
struct holding *store_find(const struct worker *worker, uint64_t id);

/* May so many bytes of it be copied to, or from, now? Else the front is broken. */
void store_check_copy(const struct holding *holding, uint64_t offset, uint64_t bytes,
                      bool is_upload);

/* Is no copy and no run of it under way? */
bool store_is_unused(const struct holding *holding);

/* --- exported.c --- */

struct exporting;
/* EXPORT. */
void exported_begin(struct worker *worker, const struct channel_message *message);
/* A piece of its contents has been copied. */
void exported_copied(struct worker *worker, struct exporting *exporting);
/* Begin to copy a result of the run to the exported array that it belongs to, after the launch
 * that makes it, or (NULL) at once. jobs_came_home() follows, run->coming_home times. */
void exported_bring_home(struct worker *worker, struct execution *run, const void *launch,
                         int output);

/* --- peers.c --- */

/* CONNECT, EXCHANGE, DISCONNECT. False: it is none of them. */
bool peers_take(struct worker *worker, const struct channel_message *message);
/* One of these has completed. */
void peers_completed(struct worker *worker, const struct completion *completion);

/* --- jobs.c --- */

/* The backend is open. */
void jobs_open(struct worker *worker);
/* Forget all of them. Nothing is under way. */
void jobs_close(struct worker *worker);
/* RUN: the message that the inbox has handed out last, with its descriptor, or −1, which is not
 * taken. */
void jobs_run(struct worker *worker, const struct channel_run *given,
              const struct channel_inbox *inbox, int descriptor);
/* MEASURE. */
void jobs_measure(struct worker *worker, const struct channel_message *message);
/* CANCEL: takes effect at the end of the slice under way. */
void jobs_cancel(struct worker *worker, uint64_t id);
/* A part of the run's result has come to its exported array. */
void jobs_came_home(struct worker *worker, struct execution *run);
/* The run's slice under way has completed, or the edges of its own planes have. */
void jobs_slice_completed(struct worker *worker, struct execution *run,
                          const struct completion *completion);
/* A copy or launch of the run has completed in the pipeline: finish it, or the copy that it is,
 * where nothing is left to do. */
void jobs_settle(struct worker *worker, struct execution *run);
/* Start waiting runs whose arrays are free now. */
void jobs_start_waiting(struct worker *worker);
