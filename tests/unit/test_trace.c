/* The trace's tracks: jobs that overlap never share one, and what does not fit is counted. Its
 * files: each has tracks of its own, and one that fails is followed by another. */
#include "server/metrics/trace.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { FILE_BYTES = 64 << 20, TRACKS = 2048, MINUTE = 120 /* calls of trace_flush() */ };

static uv_loop_t loop;
static char path[] = "/tmp/trace-XXXXXX", old[sizeof path + 2];

static int begin(void **state)
{
    strcpy(path + sizeof path - 7, "XXXXXX");
    const int file = mkstemp(path);
    snprintf(old, sizeof old, "%s.1", path);
    return file < 0 || close(file) != 0 || uv_loop_init(&loop) != 0 ? -1 : 0;
}

static int end(void **state)
{
    return unlink(path) != 0 || uv_loop_close(&loop) != 0 ? -1 : 0;
}

static struct traced_job job(uint32_t uid, uint64_t id, uint64_t begin_us, uint64_t end_us)
{
    struct traced_job job = {.uid = uid, .id = id, .name = "derivative", .status = "OK"};
    job.spans[SPAN_READ] = (struct span){1000 * begin_us, 1000 * begin_us + 500};
    job.spans[SPAN_WRITE] = (struct span){1000 * end_us - 500, 1000 * end_us};
    return job;
}

/* The user's jobs of these numbers, each after the one before. */
static void trace_jobs(struct trace *trace, uint32_t uid, uint64_t first, uint64_t last)
{
    for (uint64_t id = first; id <= last; id++) {
        const struct traced_job one = job(uid, id, 10 * id, 10 * id + 5);
        trace_job(trace, &one);
    }
}

static void rest(struct trace *trace, int calls)
{
    for (int i = 0; i < calls; i++)
        trace_flush(trace);
}

/* What there is, and then begin a file if it is time for one. */
static void write_all(struct trace *trace)
{
    trace_flush(trace);
    uv_run(&loop, UV_RUN_DEFAULT);
    trace_flush(trace);
    uv_run(&loop, UV_RUN_DEFAULT);
}

static char *text(void)
{
    static char text[FILE_BYTES];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

/* The process and track of the slice of a job. */
static void place(const char *text, unsigned long long id, unsigned *process, unsigned *track)
{
    char args[64];
    snprintf(args, sizeof args, "\"args\":{\"job\":%llu,\"msgid\"", id);
    const char *at = strstr(text, args);
    assert_non_null(at);
    while (strncmp(at, "\"pid\"", 5) != 0)
        at--;
    assert_int_equal(sscanf(at, "\"pid\":%u,\"tid\":%u", process, track), 2);
}

TEST(overlapping_jobs_have_tracks_of_their_own, begin, end)
{
    struct trace *trace = trace_open(&loop, path, FILE_BYTES);
    assert_non_null(trace);
    const struct traced_job jobs[] = {job(7, 1, 10, 20), job(7, 2, 15, 30), job(7, 3, 20, 40),
                                      job(8, 4, 50, 60)};
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++)
        trace_job(trace, &jobs[i]);
    trace_close(trace);
    unsigned process[5], track[5];
    const char *written = text();
    for (unsigned id = 1; id <= 4; id++)
        place(written, id, &process[id], &track[id]);
    assert_int_not_equal(track[1], track[2]);
    assert_int_equal(track[1], track[3]);
    assert_int_equal(process[1], process[2]);
    assert_int_not_equal(process[1], process[4]);
    assert_int_not_equal(track[1], track[4]);
    assert_non_null(
        strstr(written, "{\"name\":\"read\",\"ph\":\"X\",\"ts\":10.000,\"dur\":0.500,"));
    assert_null(strstr(written, "\"kernel\""));
    assert_string_equal(written + strlen(written) - 3, "\n]\n");
}

TEST(jobs_that_do_not_fit_are_counted, begin, end)
{
    enum { JOBS = 20000 };
    struct trace *trace = trace_open(&loop, path, FILE_BYTES);
    assert_non_null(trace);
    for (uint64_t id = 1; id <= JOBS; id++) { /* the loop stands still meanwhile */
        const struct traced_job one = job(7, id, 10 * id, 10 * id + 5);
        trace_job(trace, &one);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    trace_flush(trace);
    const struct traced_job last = job(7, JOBS + 1, 10 * JOBS + 10, 10 * JOBS + 15);
    trace_job(trace, &last);
    uv_run(&loop, UV_RUN_DEFAULT);
    trace_close(trace);
    unsigned long long there = 0, left_out = 0;
    for (const char *at = text(); (at = strstr(at, "\"msgid\"")); at++)
        there++;
    const char *said = strstr(text(), " jobs left out");
    assert_non_null(said);
    while (said[-1] != '"')
        said--;
    assert_int_equal(sscanf(said, "%llu", &left_out), 1);
    assert_int_equal(there + left_out, JOBS + 1);
    assert_true(there > 1000);
}

TEST(a_full_file_is_ended_and_kept, begin, end)
{
    struct trace *trace = trace_open(&loop, path, 1000);
    assert_non_null(trace);
    trace_jobs(trace, 7, 1, 10);
    trace_flush(trace);
    trace_jobs(trace, 8, 11, 20); /* while those are written */
    write_all(trace);
    const struct traced_job across = job(9, 21, 5, 215); /* in flight meanwhile */
    trace_job(trace, &across);
    trace_close(trace);
    unsigned process, track;
    place(text(), 21, &process, &track);
    assert_true(process == 1 && track == 1);
    assert_non_null(strstr(text(), "\"user 9\""));
    assert_non_null(strstr(text(), "\"jobs 1\""));
    assert_null(strstr(text(), "\"user 7\""));
    assert_int_equal(rename(old, path), 0);
    place(text(), 10, &process, &track);
    place(text(), 20, &process, &track);
    assert_non_null(strstr(text(), "\"user 8\""));
    assert_string_equal(text() + strlen(text()) - 3, "\n]\n");
}

/* Nobody is left out for ever because others were there before, even if these never come again. */
TEST(each_file_has_room_for_other_users, begin, end)
{
    struct trace *trace = trace_open(&loop, path, 4 << 20);
    assert_non_null(trace);
    for (uint32_t uid = 1; uid <= TRACKS; uid++) {
        trace_jobs(trace, uid, uid, uid);
        if (uid % 256 == 0)
            write_all(trace);
    }
    assert_int_not_equal(access(old, F_OK), 0);
    trace_jobs(trace, TRACKS + 1, TRACKS + 1, 2 * TRACKS); /* there is no track for these */
    write_all(trace);
    assert_int_equal(access(old, F_OK), 0);
    trace_jobs(trace, TRACKS + 1, 2 * TRACKS + 1, 2 * TRACKS + 1);
    trace_close(trace);
    unsigned process, track;
    place(text(), 2 * TRACKS + 1, &process, &track);
    assert_true(process == 1 && track == 1);
    assert_non_null(strstr(text(), "\"2048 jobs left out\""));
    assert_int_equal(rename(old, path), 0);
    place(text(), TRACKS, &process, &track);
    assert_null(strstr(text(), "\"user 2049\""));
}

static struct rlimit files, bytes; /* of descriptors, and of a file */

/* So many at most, from here on. */
static void limit(rlim_t files_most, rlim_t bytes_most)
{
    const struct rlimit few = {files_most, files.rlim_max}, less = {bytes_most, bytes.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
}

/* stderr goes into a pipe from here on. Returns its other end. */
static int catch_log(int *before)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    *before = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    return ends[0];
}

/* What it was given meanwhile. */
static char *caught_log(int end, int before)
{
    static char log[4096];
    dup2(before, STDERR_FILENO);
    close(before);
    const ssize_t n = read(end, log, sizeof log - 1);
    log[n > 0 ? n : 0] = 0;
    close(end);
    return log;
}

TEST(a_file_that_fails_is_followed_by_another, begin, end)
{
    int before;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_FSIZE, &bytes);
    const int log = catch_log(&before);
    struct trace *trace = trace_open(&loop, path, FILE_BYTES);
    assert_non_null(trace);
    limit(files.rlim_cur, 1000);
    trace_jobs(trace, 7, 1, 20);
    write_all(trace); /* some of them */
    limit(files.rlim_cur, 10);
    trace_jobs(trace, 7, 21, 22);
    rest(trace, 3 * MINUTE); /* a file can be begun, and nothing written */
    limit(0, bytes.rlim_cur);
    rest(trace, 3 * MINUTE); /* none can be */
    limit(files.rlim_cur, bytes.rlim_cur);
    trace_jobs(trace, 7, 23, 23); /* not yet */
    rest(trace, MINUTE);
    trace_jobs(trace, 7, 24, 24);
    write_all(trace);
    trace_jobs(trace, 7, 25, 25);
    write_all(trace);
    trace_close(trace);
    const char *said = caught_log(log, before), *lines[3] = {said};
    for (int i = 0; i < 2; i++)
        lines[i + 1] = strchr(lines[i], '\n') + 1;
    assert_non_null(strstr(lines[0], "File too large; no job is traced\n"));
    assert_non_null(strstr(lines[1], "jobs are traced again\n"));
    assert_string_equal(lines[2], "");
    unsigned process, track;
    place(text(), 24, &process, &track);
    place(text(), 25, &process, &track);
    assert_non_null(strstr(text(), "\"3 jobs left out\""));
    assert_string_equal(text() + strlen(text()) - 3, "\n]\n");
    assert_int_equal(rename(old, path), 0);
    assert_int_equal(strlen(text()), 1000); /* and nothing that came to less has replaced it */
    place(text(), 1, &process, &track);
}
