
#include "server/jobs/task.h"

#include <string.h>

static bool off(const struct task *task)
{
    return !task->jobs->devices->trace;
}

/* What both cover, and what lies between them. */
static struct span both(struct span a, struct span b)
{
    if (!a.end_ns || !b.end_ns)
        return a.end_ns ? a : b;
    return (struct span){a.begin_ns < b.begin_ns ? a.begin_ns : b.begin_ns,
                         a.end_ns > b.end_ns ? a.end_ns : b.end_ns};
}

/* As the worker says, whose clock is ours; not before it was asked. */
static struct span of_worker(const struct task *task, const struct channel_span *said)
{
    const uint64_t asked_ns = task->spans[SPAN_QUEUE].end_ns;
    if (said->end_ns < asked_ns || said->end_ns > uv_hrtime())
        return (struct span){0};
    return (struct span){said->begin_ns < asked_ns ? asked_ns : said->begin_ns, said->end_ns};
}

void task_trace_begin(struct task *task)
{
    if (off(task))
        return;
    task->spans[SPAN_QUEUE] = (struct span){task->received_ns, uv_hrtime()};
    task->bytes = task->kind == TASK_OPERATOR ? job_bytes(&task->op[task->count - 1].job)
                                              : task->op->in[0]->type.bytes;
}

/* Of the arrays that came with the request; they go before its answer does. */
static struct span copied_in(const struct task *task)
{
    struct span all = {0};
    for (uint32_t k = 0; k < task->count; k++)
        for (int i = 0; i < AXIS_COUNT; i++) {
            const struct op *op = &task->op[k];
            if (op->in[i] && (op->in_is_own[i] || task->kind == TASK_PUT))
                all = both(all, op->in[i]->copied);
        }
    return all;
}

void task_trace_finished(struct task *task, const struct channel_message *finished)
{
    if (off(task))
        return;
    task->spans[SPAN_COPY_IN] = copied_in(task);
    if (!finished)
        return;
    struct span *spans = task->spans;
    spans[SPAN_COPY_IN] = both(spans[SPAN_COPY_IN], of_worker(task, &finished->u.job.copy_in));
    spans[SPAN_KERNEL] = of_worker(task, &finished->u.job.compute);
    spans[SPAN_COPY_OUT] = of_worker(task, &finished->u.job.copy_out);
}

void task_trace_open(struct task *task, enum span_kind kind)
{
    if (!off(task) && !task->spans[kind].begin_ns)
        task->spans[kind].begin_ns = uv_hrtime();
}

void task_trace_close(struct task *task, enum span_kind kind)
{
    if (!off(task))
        task->spans[kind].end_ns = uv_hrtime();
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
        .name = task->kind == TASK_OPERATOR
                    ? operator_name(task->op[task->count - 1].job.operator_id)
                    : kinds[task->kind],
        .status = status_name(task->status),
        .bytes = task->bytes,
    };
    memcpy(job.spans, task->spans, sizeof job.spans);
    job.spans[SPAN_READ] = (struct span){task->message_ns, task->received_ns};
    if (job.spans[SPAN_WRITE].begin_ns)
        job.spans[SPAN_WRITE].end_ns = uv_hrtime();
    trace_job(task->jobs->devices->trace, &job);
}
