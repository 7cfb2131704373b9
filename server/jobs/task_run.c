/* A task on its device: from what it waits for, over its orders, to what its worker says of them.
 */
#include "server/jobs/job_script.h"
#include "server/jobs/relay.h"
#include "server/jobs/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- what it leaves in the trace (trace.h) --- */

static bool off(const struct task *task)
{
    return !task || !task->jobs->devices->trace;
}

/* The span from the earlier begin to the later end. */
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

/* It leaves the queue: its RUN is sent, or it needs none. */
static void task_trace_begin(struct task *task)
{
    if (!off(task))
        task->spans[SPAN_QUEUE] = (struct span){task->received_ns, uv_hrtime()};
}

/* Of the arrays that came with the request; they go before its answer does. */
static struct span copied_in(const struct task *task)
{
    struct span all = {0};
    for (uint32_t k = 0; k < task->count; k++)
        for (int i = 0; i < AXIS_COUNT; i++) {
            const struct op *op = &task->op[k];
            if (op->in[i] && op->in_is_own[i])
                all = both(all, op->in[i]->copied);
        }
    return all;
}

/* Its device is done with it; what the worker's FINISHED says, NULL where there was no RUN. */
static void task_trace_finished(struct task *task, const struct channel_message *finished)
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
    static const char *const kinds[] = {
        [TASK_PUT] = "put", [TASK_GET] = "get", [TASK_EXPORT] = "export"};
    const struct op *last = &task->op[task->count - 1];
    struct traced_job job = {
        .uid = task->user->uid,
        .id = task->id,
        .msgid = task->msgid,
        .name =
            task->kind == TASK_OPERATOR ? operator_name(last->job.operator_id) : kinds[task->kind],
        .status = status_name(task->status),
        .bytes = task->spans[SPAN_QUEUE].end_ns ? last->type.bytes : 0, /* it has begun */
    };
    memcpy(job.spans, task->spans, sizeof job.spans);
    job.spans[SPAN_READ] = (struct span){task->message_ns, task->received_ns};
    if (job.spans[SPAN_WRITE].begin_ns)
        job.spans[SPAN_WRITE].end_ns = uv_hrtime();
    trace_job(task->jobs->devices->trace, &job);
}

/* The time in which its bytes go between regions and the device, by estimate. */
static int64_t copy_ns(const struct task *task)
{
    const struct op *op = task->op;
    uint64_t bytes = 0;
    if (task->is_chain || (task->kind == TASK_OPERATOR && task->device->info.direct))
        return 0;
    for (int i = 0; i < AXIS_COUNT; i++)
        bytes +=
            ((op->in_place[i].region != NULL) + (op->out_place[i].region != NULL)) * op->type.bytes;
    if (task->kind == TASK_EXPORT)
        bytes = op->type.bytes;
    return schedule_copy(bytes);
}

int64_t task_cost_ns(const struct task *task)
{
    const struct flow *flow = &task->part->flow;
    double ns = 0, plans_ns = 0;
    for (uint32_t i = 0; i < task->count && task->kind == TASK_OPERATOR; i++) {
        ns += (double)schedule_estimate(flow, &task->op[i].job);
        plans_ns += (double)schedule_plan(flow, &task->op[i].job);
    }
    ns = ns * (double)task->repeat + plans_ns + (double)copy_ns(task);
    if (task->script)
        ns += (double)script_cost_ns(flow, &task->op->job, task->script->estimates);
    return ns < 0x1p50 ? (int64_t)ns : INT64_C(1) << 50;
}

static void make_ready(struct task *task)
{
    if ((task->kind == TASK_GET && task->op->out_kind == OUT_INLINE) ||
        (task->kind == TASK_EXPORT && field_is_exported(task->op->in[0]))) {
        task_trace_begin(task);
        task_succeed(task);
        return;
    }
    task_step(task, TASK_READY);
    task->entry.arrival = task->id;
    task->entry.cost_ns = task_cost_ns(task);
    schedule_add(&task->device->schedule, &task->part->flow, &task->entry);
    task_dispatch(task->device);
}

/* Send small inputs on their way, each part of a distributed one by itself; false: no slab for the
 * next one yet. */
static bool upload_small(struct op *op)
{
    struct arena *arena = &op->task->jobs->devices->arena;
    struct slab *slab;
    for (int i = 0; i < OP_READS; i++) {
        struct field *field = op->read[i];
        while (op->small[i]) {
            if (!arena_take(arena, op->task->user, SHARE_UPLOAD, 1, &slab))
                return false;
            const uint64_t at = op->small_sent[i], bytes = field_stretch(field, at);
            memcpy(arena_memory_to_write(arena, slab, bytes), op->small[i] + at, bytes);
            op->small_sent[i] += bytes;
            if (op->small_sent[i] == field->type.bytes) {
                free(op->small[i]);
                op->small[i] = NULL;
            }
            device_upload(field, at, slab, bytes);
        }
    }
    return true;
}

static bool has_all(const struct task *task)
{
    for (uint32_t k = 0; k < task->count; k++)
        for (int i = 0; i < OP_READS; i++)
            if (task->op[k].small[i])
                return false;
    return !task->ungranted;
}

/* Is it written by one of the first `count` operators? */
static bool is_written(const struct task *task, uint32_t count, const struct field *field)
{
    for (uint32_t k = 0; k < count; k++)
        for (int i = 0; i < AXIS_COUNT; i++)
            if (task->op[k].out[i] == field)
                return true;
    return false;
}

/* Does it read a field that was left half-written, and that no operator before writes? */
static bool is_torn(const struct task *task)
{
    for (uint32_t k = 0; k < task->count; k++)
        for (int i = 0; i < OP_READS; i++) {
            struct field *const read = task->op[k].read[i];
            if (read && relay_source(task, read)->torn && !is_written(task, k, read))
                return true;
        }
    return false;
}

static void put_arrived(struct task *task)
{
    task_trace_begin(task);
    task_trace_finished(task, NULL);
    if (field_is_refused(task->op->in[0]))
        task_fail(task, STATUS_OUT_OF_MEMORY, "the device could not allocate the field");
    else
        task_succeed(task);
}

void task_proceed(struct task *task)
{
    if (task->state != TASK_WAITING || !has_all(task))
        return;
    if (is_torn(task)) {
        task_fail(task, STATUS_FIELD_LOST, "a job that wrote the field was stopped half-way");
        return;
    }
    if (!relays_go_on(task))
        return;
    const bool arrives = task->kind == TASK_PUT && !task->op->in_place[0].region;
    if ((arrives || task->kind == TASK_EXPORT) && task->op->in[0]->copies)
        task->op->in[0]->awaited_by = task;
    else if (arrives)
        put_arrived(task);
    else
        make_ready(task);
}

/* Where the worker of its own device is gone, worker_lost() follows. */
static void on_copied(struct task *task, const struct field *field)
{
    if (!field->lost || field->device != task->device)
        task_proceed(task);
}

static void on_slab(struct slab_waiter *waiter)
{
    struct task *task = LIST_ENTRY(waiter, struct task, small_waiter);
    for (uint32_t k = 0; k < task->count; k++)
        for (int i = 0; i < OP_READS; i++) {
            const struct field *field = task->op[k].read[i];
            if (field && field->lost)
                return; /* worker_lost() follows */
        }
    for (uint32_t k = 0; k < task->count; k++)
        if (!upload_small(&task->op[k])) {
            arena_wait(&task->jobs->devices->arena, waiter);
            return;
        }
    task_proceed(task);
}

void task_begin(struct task *task)
{
    task->small_waiter = (struct slab_waiter){
        .user = task->user, .share = SHARE_UPLOAD, .count = 1, .ready = on_slab};
    on_slab(&task->small_waiter);
}

/* A task that fails here lets the next one go: one after another, not one inside the other. */
static void on_granted(struct task *task)
{
    struct jobs *jobs = task->jobs;
    if (--task->ungranted)
        return;
    list_push(&jobs->granted, &task->granted_link);
    if (jobs->granting)
        return;
    jobs->granting = true;
    LIST_DRAIN (struct task, next, &jobs->granted, granted_link)
        task_proceed(next);
    jobs->granting = false;
}

static void on_region_lost(struct task *task, enum status status)
{
    if (task->state != TASK_WAITING)
        return;
    char text[96];
    snprintf(text, sizeof text, "%s could not map a region of this job", task->device->name);
    task_fail(task, status, text);
}

void op_order(const struct op *op, struct order *order)
{
    struct task *task = op->task;
    *order = (struct order){.task = task,
                            .user = task->user,
                            .kind = task->kind == TASK_PUT      ? ORDER_READ
                                    : task->kind == TASK_GET    ? ORDER_WRITE
                                    : task->kind == TASK_EXPORT ? ORDER_EXPORT
                                                                : ORDER_RUN,
                            .priority = task->entry.priority,
                            .arrival = task->id,
                            .progress = task->progress && !task->is_chain,
                            .job = &op->job,
                            .block = op->block,
                            .in_place = op->in_place,
                            .out_place = op->out_place};
    memcpy(order->in, op->in, sizeof order->in);
    memcpy(order->out, op->out, sizeof order->out);
    memcpy(order->scratch, op->scratch, sizeof order->scratch);
    memcpy(order->operand, op->operand, sizeof order->operand);
    /* An input that nobody wants any more serves as scratch. */
    if (task->kind == TASK_OPERATOR && !task->script && op->in_is_own[0] && op->out[0] &&
        job_inputs(&op->job) == 1 && job_outputs(&op->job) == 1 && !op->scratch[0])
        order->scratch[0] = op->in[0];
}

void task_order(struct task *task, struct order *order, uint64_t id)
{
    order->id = id;
    order->is_short = schedule_is_short(&task->entry);
    device_order(task->device, order);
}

void task_begin_run(struct entry *entry)
{
    struct task *task = LIST_ENTRY(entry, struct task, entry);
    task_step(task, TASK_HAND_OVER);
    task_trace_begin(task);
    for (uint32_t k = 0; k < task->count; k++)
        for (int i = 0; i < OPERANDS; i++)
            if (task->op[k].operand_place[i].region)
                device_copy_operand(task->op[k].operand[i], &task->op[k].operand_place[i]);
    if (task->script) {
        script_go_on(task);
        return;
    }
    op_order(task->op, &task->order);
    task_order(task, &task->order, task->id);
}

void task_dispatch(struct device *device)
{
    if (device->state == DEVICE_CLOSED || device->losing)
        return;
    for (struct entry *entry; (entry = schedule_next(&device->schedule));)
        entry->begin(entry);
}

static void on_progress(struct order *order, uint64_t passes)
{
    struct task *task = order->task;
    task_step(task, TASK_PROGRESS);
    const uint64_t before = task->script ? task->script->steps_done : 0;
    if (task->client && !task->stop)
        task->jobs->calls->progress(task->client->outbox, task->msgid,
                                    before + job_steps_done(order->job, passes),
                                    task->op->job.steps);
}

void task_part_ended(struct task *task)
{
    struct device *device = task->device;
    if (!task->stop)
        script_go_on(task);
    else if (!task->script->under_way)
        task_fail_stopped(task);
    task_dispatch(device); /* it may rest now */
}

static void on_finished(struct order *order, enum status status, const struct channel_message *said)
{
    struct task *task = order->task;
    const bool begun = !said || said->u.job.done > 0;
    const uint64_t device_us = said ? said->u.job.device_us : 0;
    if (said)
        task_trace_finished(task, said);
    if (begun || status == STATUS_OK) {
        for (int i = 0; i < AXIS_COUNT && order->kind == ORDER_RUN; i++)
            if (order->out[i] && order->out[i]->resident)
                order->out[i]->torn = status != STATUS_OK;
        task->device_ns += schedule_time(device_us);
        if (!task->script)
            task->device_ns += copy_ns(task);
    }
    if (status == STATUS_OK && order->kind == ORDER_RUN)
        schedule_learn(&task->part->flow, order->job, device_us);
    if (task->script) {
        script_order_ended(task, order, status);
        task_part_ended(task);
    } else if (task->stop)
        task_fail_stopped(task);
    else if (task->kind == TASK_PUT && field_is_refused(task->op->in[0]))
        task_fail(task, STATUS_OUT_OF_MEMORY, "the device could not allocate the field");
    else if (status == STATUS_OK)
        task_succeed(task);
    else
        task_fail(task, status, status_text(status));
}

/* DEVICE_LOST, unless the task's reply can still be sent. */
static void device_lost(struct task *task)
{
    if (task->reply)
        task->jobs->calls->lost(task->reply);
    if (task->state == TASK_REPLYING) {
        list_remove(&task->device_link);
        return;
    }
    if (task->stop) {
        task_fail_stopped(task);
        return;
    }
    char text[96];
    snprintf(text, sizeof text, "the worker of %s ended while it held this job",
             task->device->name);
    task_fail(task, STATUS_DEVICE_LOST, text);
}

/* A failing task leaves the list, and its answer may make others leave; none comes back. */
static void on_worker_lost(struct device *device)
{
    struct list doomed = {0};
    list_move(&device->tasks, &doomed);
    LIST_DRAIN (struct task, task, &doomed, device_link) {
        list_push(&device->tasks, &task->device_link);
        device_lost(task);
    }
    device->losing = false;
    task_dispatch(device);
}

static void on_leaving(struct device *device)
{
    task_drain(device, false);
}

const struct device_events task_events = {.granted = on_granted,
                                          .region_lost = on_region_lost,
                                          .copied = on_copied,
                                          .progress = on_progress,
                                          .finished = on_finished,
                                          .worker_lost = on_worker_lost,
                                          .leaving = on_leaving,
                                          .dispatch = task_dispatch};
