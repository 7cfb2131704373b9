/* A worker's jobs: their orders, their slices on the device one after another, and how they end. An
 * order that breaks a rule of channel.h ends the process. */
#pragma once

#include "gpu/worker/worker.h"

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

/* The run's slice under way has completed. */
void jobs_piece_completed(struct worker *worker, struct execution *run,
                          const struct completion *completion);
/* A step of the run has completed in the pipeline: finish it, or the copy that it is, where nothing
 * is left to do. */
void jobs_settle(struct worker *worker, struct execution *run);
/* Start those that waited for an array which may be free now. */
void jobs_start_waiting(struct worker *worker);
