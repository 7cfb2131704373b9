/* What a task leaves in the trace (trace.h). Where there is none, each of these is one branch. */
#pragma once

#include "server/metrics/trace.h"

struct channel_message;
struct task;

/* It leaves the queue: its RUN is sent, or it needs none. */
void task_trace_begin(struct task *task);
/* Its device is done with it; what the worker's FINISHED says, NULL where there was no RUN. */
void task_trace_finished(struct task *task, const struct channel_message *finished);
/* A part of it begins, of which the first counts; one has ended. */
void task_trace_open(struct task *task, enum span_kind kind);
void task_trace_close(struct task *task, enum span_kind kind);
/* It was answered, or can't be any more. */
void task_trace_end(struct task *task);
