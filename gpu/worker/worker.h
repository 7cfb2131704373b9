/* What the parts of a worker have in common: its device, what is resident there, and how they speak
 * to the front.
 *
 *   main.c    the process and its loop: what comes goes to the two below
 *   jobs.c    runs, slice by slice or in the pipeline
 *   store.c   arrays, clients' regions, and copies between them and the arena
 *
 * One thread. */
#pragma once

#include "gpu/backend.h"
#include "gpu/worker/channel.h"
#include "gpu/worker/ids.h"
#include "gpu/worker/pipeline.h"
#include "gpu/worker/plans.h"
#include "gpu/worker/region.h"
#include "gpu/worker/execution.h"

#include <stdbool.h>
#include <stdint.h>

struct copy;

#define WORKER_BROKEN_FRONT_EXIT 65

/* What the backend is given to name a piece of work: the address of what it belongs to, and in its
 * lowest bits which kind that is. */
enum token {
    TOKEN_RUN,  /* struct execution: a slice of it */
    TOKEN_COPY, /* struct copy */
    TOKEN_STEP, /* struct step, of the pipeline */
    TOKEN_KIND = 3
};

struct worker {
    const struct backend *backend;
    int device;
    bool open; /* the ARENA has come */
    uint8_t *arena;
    uint64_t arena_bytes;
    bool direct;                  /* the backend computes in regions themselves */
    uint32_t under_way;           /* completions that the backend owes, beside the pipeline's */
    uint32_t copies;              /* of these, between the arena and arrays */
    uint64_t copied, ended;       /* such copies, and all else, that have completed */
    struct channel_queue answers; /* sent at the end of a turn of the loop */
    /* The store's. */
    struct ids holdings;
    uint64_t unknown; /* arrays that there was no memory to note */
    struct regions regions;
    struct copy *free_copies;
    /* The jobs'. */
    struct executions runs;
    struct pipeline pipeline;
    struct plans plans;
};

/* The front broke a rule of channel.h: nothing that it says can be trusted any more. */
_Noreturn void worker_broken(const char *rule, uint64_t id);

/* There is no memory for what the worker cannot do without. Where an order can be refused alone it
 * is. */
_Noreturn void worker_out_of_memory(void);

/* Say it to the front, at the end of the turn; sooner, waiting for the front to listen, where there
 * is no memory to keep it in. */
void worker_answer(struct worker *worker, const struct channel_message *message);
