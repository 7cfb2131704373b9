/* --trace FILE: where the time of each job went, in Chrome's trace event format, for Perfetto and
 * chrome://tracing. Events are written when a job is answered.
 *
 * A user (uid) is a process there. A job is a slice on one of its user's tracks "jobs N", with
 * read, queue, kernel and write inside it in this order, and copies that overlap them on the track
 * "copies N". Tracks are shared by jobs that follow each other. ts is CLOCK_MONOTONIC in
 * microseconds.
 *
 * The file is a JSON array whose end is missing while it is written, as the viewers expect. At
 * `bytes_most` it is ended and renamed to FILE.1, and a new one is begun, with tracks of its own.
 * It is written by a thread of libuv's; jobs that end while it cannot keep up, or while there are
 * too many tracks, are left out and counted. A minute after a failure a new one is begun, too.
 */
#pragma once

#include <uv.h>

enum span_kind {
    SPAN_READ,     /* from the first bytes of the request to the last */
    SPAN_QUEUE,    /* until it was sent to the worker */
    SPAN_COPY_IN,  /* of its arrays to the device: from the first slab's begin to the last's end */
    SPAN_KERNEL,   /* the same of what the device computes; small arrays are copied in it */
    SPAN_COPY_OUT, /* of its result, as copy-in */
    SPAN_WRITE,    /* from the first byte of the answer to the last */
    SPAN_COUNT
};

/* uv_hrtime(); both 0: there was none. */
struct span {
    uint64_t begin_ns, end_ns;
};

struct traced_job {
    uint32_t uid;
    uint64_t id, msgid;
    const char *name, *status; /* its method and how it was answered: words of ours */
    uint64_t bytes;            /* of an array of it */
    struct span spans[SPAN_COUNT];
};

/* NULL, with a line in the log, where the file cannot be made; it is readable by its owner alone.
 * `path` must last. */
struct trace *trace_open(uv_loop_t *loop, const char *path, uint64_t bytes_most);
void trace_job(struct trace *trace, const struct traced_job *job);
/* Write the collected events, in a new file if it is time for one; called twice a second. */
void trace_flush(struct trace *trace);
/* Write the rest and end the file. The loop has ended. NULL is allowed. */
void trace_close(struct trace *trace);
