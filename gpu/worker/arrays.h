/* The arrays and places of an order: found by their numbers, and checked against the channel's
 * rules (gpu/worker/channel.h). Where the front breaks one, the worker ends. */
#pragma once

#include "gpu/worker/execution.h"

struct worker;

/* Find those of a RUN, whose plan is made. False: there was no memory for one of them. */
bool arrays_find(const struct worker *worker, struct execution *run,
                 const struct channel_run *given);

/* Was there memory for all of its arrays? */
bool arrays_have_memory(const struct execution *run);

/* Has the array so many bytes between run->ahead and run->behind? */
bool arrays_have_size(const struct execution *run, const struct holding *holding, uint64_t bytes);
