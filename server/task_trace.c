#include "server/task_trace.h"

#include "server/server.h"
#include "server/task.h"

#include <string.h>

static bool off(const struct task *task)
{
    return !task->server->trace;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void task_trace_begin(struct task *task)
{
    if (off(task))
        return;
    task->spans[SPAN_QUEUE] = (struct span){task->received_ns, uv_hrtime()};
    task->bytes = task->kind == TASK_OPERATOR ? job_bytes(&task->job) : task->in[0]->type.bytes;
}

/* Of the arrays that came with the request; they go before its answer does. */
static struct span copied_in(const struct task *task)
{
    struct span all = {0};
    for (int i = 0; i < AXIS_COUNT; i++) {
        const bool own = task->in[i] && (task->in_is_own[i] || task->kind == TASK_PUT);
        if (!own || !task->in[i]->copied.end_ns)
            continue;
        const struct span one = task->in[i]->copied;
        if (!all.end_ns || one.begin_ns < all.begin_ns)
            all.begin_ns = one.begin_ns;
        all.end_ns = later(all.end_ns, one.end_ns);
    }
    return all;
}

void task_trace_finished(struct task *task, uint64_t device_us)
{
    if (off(task))
        return;
    task->spans[SPAN_COPY_IN] = copied_in(task);
    if (!device_us)
        return;
    /* The worker counts how long, not when: its word follows the end at once. */
    const uint64_t now_ns = uv_hrtime(), begun_ns = task->spans[SPAN_QUEUE].end_ns;
    const uint64_t length_ns = 1000 * device_us;
    task->spans[SPAN_KERNEL] =
        (struct span){later(begun_ns, length_ns < now_ns ? now_ns - length_ns : 0), now_ns};
}

void task_trace_fetch(struct task *task)
{
    if (!off(task) && !task->spans[SPAN_COPY_OUT].begin_ns)
        task->spans[SPAN_COPY_OUT].begin_ns = uv_hrtime();
}

void task_trace_fetched(struct task *task)
{
    if (!off(task))
        task->spans[SPAN_COPY_OUT].end_ns = uv_hrtime();
}

void task_trace_write(struct task *task)
{
    if (!off(task) && !task->spans[SPAN_WRITE].begin_ns)
        task->spans[SPAN_WRITE].begin_ns = uv_hrtime();
}

void task_trace_end(struct task *task)
{
    if (off(task))
        return;
    static const char *const kinds[] = {[TASK_PUT] = "put", [TASK_GET] = "get"};
    struct traced_job job = {
        .uid = task->user->uid,
        .id = task->id,
        .msgid = task->msgid,
        .name =
            task->kind == TASK_OPERATOR ? operator_name(task->job.operator_id) : kinds[task->kind],
        .status = status_name(task->status),
        .bytes = task->bytes,
    };
    memcpy(job.spans, task->spans, sizeof job.spans);
    job.spans[SPAN_READ] = (struct span){task->message_ns, task->received_ns};
    if (job.spans[SPAN_WRITE].begin_ns)
        job.spans[SPAN_WRITE].end_ns = uv_hrtime();
    trace_job(task->server->trace, &job);
}
