/* What a task leaves in the trace (trace.h). Where there is none, each of these is one branch. */
#pragma once

struct channel_message;
struct task;

/* It leaves the queue: its RUN is sent, or it needs none. */
void task_trace_begin(struct task *task);
/* Its device is done with it; what the worker's FINISHED says, NULL where there was no RUN. */
void task_trace_finished(struct task *task, const struct channel_message *finished);
/* A piece of its result is fetched from the device; one has come. */
void task_trace_fetch(struct task *task);
void task_trace_fetched(struct task *task);
/* The first byte of its answer is about to be written. */
void task_trace_write(struct task *task);
/* It was answered, or can't be any more. */
void task_trace_end(struct task *task);
