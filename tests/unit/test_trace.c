/* The trace's tracks: jobs that overlap never share one, and what does not fit is counted. */
#include "server/metrics/trace.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_BYTES = 64 << 20 };

static uv_loop_t loop;
static char path[] = "/tmp/trace-XXXXXX";

static int begin(void **state)
{
    strcpy(path + sizeof path - 7, "XXXXXX");
    const int file = mkstemp(path);
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
    char old[sizeof path + 2];
    snprintf(old, sizeof old, "%s.1", path);
    struct trace *trace = trace_open(&loop, path, 1000);
    assert_non_null(trace);
    for (uint64_t id = 1; id <= 20; id++) {
        const struct traced_job one = job(7, id, 10 * id, 10 * id + 5);
        trace_job(trace, &one);
        if (id == 10)
            trace_flush(trace);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    trace_close(trace);
    unsigned process, track;
    place(text(), 11, &process, &track);
    assert_non_null(strstr(text(), "\"jobs 1\"")); /* its tracks are named anew */
    assert_int_equal(rename(old, path), 0);
    place(text(), 10, &process, &track);
    assert_string_equal(text() + strlen(text()) - 3, "\n]\n");
}
