#include "server/metrics/trace.h"

#include "base/log.h"
#include "base/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BUFFER_BYTES = 1 << 20,
    JOB_BYTES = 4 << 10, /* the events of a job take less */
    TRACKS_MOST = 2048,
    RESTS = 120 /* calls of trace_flush() after a failure: a minute */
};

/* Two tracks of a user, in one file: of a job, and of its copies. */
struct track {
    uint32_t uid;
    uint32_t process; /* there: from 1 up, as users come; viewers take 0 for no process */
    uint32_t number;  /* of the user's tracks: 1, 2, … */
    uint64_t end_ns;  /* of its last job */
};

struct buffer {
    size_t length;
    char bytes[BUFFER_BYTES];
};

struct trace {
    uv_loop_t *loop;
    const char *path;
    int file; /* −1: it failed, and another is begun after a rest */
    uint32_t rested;
    bool failing; /* since then no events were written: nothing more is said of it */
    uint64_t file_bytes, bytes_most;
    struct buffer buffers[2], *filling, *written; /* the latter by the thread while `writing` */
    bool writing;
    uv_fs_t request;
    uint64_t left_out; /* jobs, since the last one that was not */
    uint32_t track_count;
    struct track tracks[TRACKS_MOST];
};

static const char *const span_names[SPAN_COUNT] = {"read",   "queue",    "copy-in",
                                                   "kernel", "copy-out", "write"};

__attribute__((format(printf, 2, 3))) static void add(struct buffer *buffer, const char *format,
                                                      ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int n =
        vsnprintf(buffer->bytes + buffer->length, BUFFER_BYTES - buffer->length, format, arguments);
    va_end(arguments);
    buffer->length += n > 0 ? (size_t)n : 0;
}

static uint32_t track_number(const struct trace *trace, const struct track *track, bool copies)
{
    return 1 + 2 * (uint32_t)(track - trace->tracks) + copies;
}

static void name_track(struct trace *trace, const struct track *track, struct buffer *buffer)
{
    static const char *const kinds[] = {"jobs", "copies"};
    add(buffer,
        ",\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"name\":\"user %u\"}}",
        track->process, track->uid);
    for (int i = 0; i < 2; i++) {
        const uint32_t number = track_number(trace, track, i);
        add(buffer,
            ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%u,\"tid\":%u,"
            "\"args\":{\"name\":\"%s %u\"}}"
            ",\n{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":%u,\"tid\":%u,"
            "\"args\":{\"sort_index\":%u}}",
            track->process, number, kinds[i], track->number, track->process, number, number);
    }
}

/* The first track of the user that is free again when the job begins. Jobs come in the order of
 * their ends, so those of a track never overlap. NULL: there is none. */
static struct track *choose_track(struct trace *trace, uint32_t uid, uint64_t begin_ns)
{
    uint32_t process = trace->track_count + 1, number = 1;
    for (uint32_t i = 0; i < trace->track_count; i++) {
        struct track *track = &trace->tracks[i];
        if (track->uid != uid)
            continue;
        if (track->end_ns <= begin_ns)
            return track;
        process = track->process;
        number++;
    }
    if (trace->track_count == TRACKS_MOST) {
        /* As if it were written: else the file, and so the lack of tracks, might never end. */
        trace->file_bytes += JOB_BYTES;
        return NULL;
    }
    struct track *track = &trace->tracks[trace->track_count++];
    *track = (struct track){.uid = uid, .process = process, .number = number};
    name_track(trace, track, trace->filling);
    return track;
}

static void add_slice(struct trace *trace, const char *name, struct span span,
                      const struct track *track, bool copies)
{
    const uint64_t length_ns = span.end_ns - span.begin_ns;
    add(trace->filling,
        ",\n{\"name\":\"%s\",\"ph\":\"X\",\"ts\":%" PRIu64 ".%03u,\"dur\":%" PRIu64
        ".%03u,\"pid\":%u,\"tid\":%u",
        name, span.begin_ns / 1000, (unsigned)(span.begin_ns % 1000), length_ns / 1000,
        (unsigned)(length_ns % 1000), track->process, track_number(trace, track, copies));
}

static struct span whole(const struct traced_job *job)
{
    struct span whole = job->spans[SPAN_READ];
    for (int i = 0; i < SPAN_COUNT; i++)
        if (job->spans[i].end_ns > whole.end_ns)
            whole.end_ns = job->spans[i].end_ns;
    return whole;
}

static void add_job(struct trace *trace, const struct traced_job *job, const struct track *track)
{
    add_slice(trace, job->name, whole(job), track, false);
    add(trace->filling,
        ",\"args\":{\"job\":%" PRIu64 ",\"msgid\":%" PRIu64 ",\"bytes\":%" PRIu64
        ",\"status\":\"%s\"}}",
        job->id, job->msgid, job->bytes, job->status);
    for (int i = 0; i < SPAN_COUNT; i++) {
        if (!job->spans[i].end_ns)
            continue;
        add_slice(trace, span_names[i], job->spans[i], track,
                  i == SPAN_COPY_IN || i == SPAN_COPY_OUT);
        add(trace->filling, ",\"args\":{\"job\":%" PRIu64 "}}", job->id);
    }
}

static void fail_trace(struct trace *trace, const char *what, int error)
{
    if (!trace->failing)
        log_error("%s: %s: %s; no job is traced", trace->path, what, strerror(error));
    trace->failing = true;
    trace->rested = 0;
    rights_close(trace->file);
    trace->file = -1;
}

static void write_now(struct trace *trace, const char *bytes, size_t length)
{
    while (trace->file >= 0 && length) {
        const ssize_t n = write(trace->file, bytes, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            fail_trace(trace, "write", errno);
            return;
        }
        bytes += n;
        length -= (size_t)n;
        trace->file_bytes += (uint64_t)n;
    }
}

static void begin_file(struct trace *trace)
{
    static const char head[] = "[\n{\"name\":\"fdserver\",\"ph\":\"M\",\"pid\":1,"
                               "\"args\":{\"version\":\"" FDSERVER_VERSION "\"}}";
    trace->file = open(trace->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (trace->file < 0)
        fail_trace(trace, "open", errno);
    write_now(trace, head, sizeof head - 1);
    trace->file_bytes = 0; /* of events: a file without any is not worth keeping */
    trace->track_count = 0;
}

/* What is being filled is on this file's tracks: it goes there or, if the file failed, nowhere. */
static void end_file(struct trace *trace)
{
    write_now(trace, trace->filling->bytes, trace->filling->length);
    trace->filling->length = 0;
    write_now(trace, "\n]\n", 3);
    rights_close(trace->file);
    trace->file = -1;
}

/* Begin a file, and keep the one before if it has any events and is still there. */
static void rotate(struct trace *trace)
{
    char old_path[PATH_MAX + sizeof ".1"];
    snprintf(old_path, sizeof old_path, "%s.1", trace->path);
    end_file(trace);
    if (trace->file_bytes && rename(trace->path, old_path) != 0 && errno != ENOENT)
        fail_trace(trace, "rename", errno);
    else
        begin_file(trace);
}

static void on_written(uv_fs_t *request)
{
    struct trace *trace = request->data;
    const ssize_t n = request->result;
    uv_fs_req_cleanup(request);
    trace->writing = false;
    if (n < 0) {
        fail_trace(trace, "write", (int)-n);
        return;
    }
    trace->file_bytes += (uint64_t)n;
    /* Any rest that the thread left: a full disk shows here. */
    write_now(trace, trace->written->bytes + n, trace->written->length - (size_t)n);
    if (trace->failing && trace->file >= 0) {
        trace->failing = false;
        log_info("%s: jobs are traced again", trace->path);
    }
}

void trace_flush(struct trace *trace)
{
    if (trace->writing)
        return;
    if (trace->file < 0 ? ++trace->rested >= RESTS : trace->file_bytes >= trace->bytes_most)
        rotate(trace);
    if (!trace->filling->length || trace->file < 0)
        return;
    struct buffer *const full = trace->filling;
    trace->filling = trace->written;
    trace->filling->length = 0;
    trace->written = full;
    const uv_buf_t bytes = uv_buf_init(full->bytes, (unsigned)full->length);
    trace->request.data = trace;
    const int status =
        uv_fs_write(trace->loop, &trace->request, trace->file, &bytes, 1, -1, on_written);
    trace->writing = status == 0;
    if (status != 0)
        fail_trace(trace, "write", -status);
}

void trace_job(struct trace *trace, const struct traced_job *job)
{
    if (trace->file < 0) {
        trace->left_out++;
        return;
    }
    if (BUFFER_BYTES - trace->filling->length < JOB_BYTES)
        trace_flush(trace);
    struct track *track = NULL;
    if (BUFFER_BYTES - trace->filling->length >= JOB_BYTES)
        track = choose_track(trace, job->uid, job->spans[SPAN_READ].begin_ns);
    if (!track) {
        trace->left_out++;
        return;
    }
    if (trace->left_out) {
        add(trace->filling,
            ",\n{\"name\":\"%" PRIu64 " jobs left out\",\"ph\":\"i\",\"s\":\"g\",\"ts\":%" PRIu64
            ",\"pid\":%u,\"tid\":%u}",
            trace->left_out, job->spans[SPAN_READ].begin_ns / 1000, track->process,
            track_number(trace, track, false));
        trace->left_out = 0;
    }
    add_job(trace, job, track);
    track->end_ns = whole(job).end_ns;
}

struct trace *trace_open(uv_loop_t *loop, const char *path, uint64_t bytes_most)
{
    struct trace *trace = calloc(1, sizeof *trace);
    if (!trace)
        return NULL;
    trace->loop = loop;
    trace->path = path;
    trace->bytes_most = bytes_most;
    trace->filling = &trace->buffers[0];
    trace->written = &trace->buffers[1];
    begin_file(trace);
    if (trace->file >= 0)
        return trace;
    free(trace);
    return NULL;
}

void trace_close(struct trace *trace)
{
    if (!trace)
        return;
    end_file(trace);
    free(trace);
}
