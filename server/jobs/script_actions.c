/* The actions of a job script: the order of each, and what follows from its end. */
#include "protocol/request_job.h"
#include "server/jobs/answer.h"
#include "server/jobs/job_script.h"
#include "server/jobs/task.h"
#include "numerics/stability.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Begin from the latest result or, without one, from the operator's input. */
static void begin_from(struct order *order, struct field *reached)
{
    if (!reached)
        return;
    order->in[0] = reached;
    order->in_place = NULL;
}

static void set_steps(const struct script *script, const struct op *op, struct action *action)
{
    action->job = op->job;
    action->job.steps =
        action->kind == ACTION_RUN ? op->job.steps - script->steps_done : script->every;
    action->order.job = &action->job;
    begin_from(&action->order, script->reached);
    if (action->kind == ACTION_SEGMENT && script->snapshot == SNAPSHOT_FIELD)
        action->order.out[0] = script->array[SCRIPT_FRESH];
}

static void set_estimate(const struct script *script, const struct op *op, struct action *action)
{
    struct order *order = &action->order;
    script_estimate(&op->job, action->kind == ACTION_FINER, &action->job);
    order->job = &action->job;
    memset(order->out, 0, sizeof order->out);
    if (action->kind == ACTION_FINER)
        memcpy(order->out, &script->array[SCRIPT_FINER], sizeof order->out);
    else
        order->out[0] = script->array[SCRIPT_SAME];
    memcpy(order->scratch, &script->array[SCRIPT_WORK], sizeof order->scratch);
    order->progress = false;
    order->operand[OPERAND_PROBES] = NULL;
    if (job_has_steps(&op->job))
        begin_from(order, op->out[0]);
    if (script->block) {
        order->block = script->block;
        job_block_key(script->block, action->job.more.block_bytes, action->job.more.block_key);
    }
}

static void set_measure(const struct script *script, const struct op *op, struct action *action)
{
    struct order *order = &action->order;
    const int i = action->component;
    struct field *of = action->kind == ACTION_COEFFICIENT ? op->operand[OPERAND_COEFFICIENT]
                       : action->kind == ACTION_VALUES    ? op->out[i]
                       : job_has_steps(&op->job)          ? script->array[SCRIPT_SAME]
                                                          : op->out[i];
    order->kind = ORDER_MEASURE;
    order->sums = action->kind != ACTION_COEFFICIENT;
    order->in_place = NULL;
    memset(order->in, 0, sizeof order->in);
    memset(order->out, 0, sizeof order->out);
    memset(order->operand, 0, sizeof order->operand);
    order->in[0] = of;
    order->in[1] = action->kind == ACTION_DISTANCES ? script->array[SCRIPT_FINER + i] : NULL;
    order->out[0] = op->result;
}

static void set_order(struct task *task, struct action *action)
{
    const struct script *script = task->script;
    const struct op *op = &task->op[action->op];
    struct order *order = &action->order;
    op_order(op, order);
    order->out_place = NULL; /* the result goes there when all is done */
    order->chain = task->is_chain ? task->id : 0;
    order->ends_round = task->is_chain && action->ends_round;
    switch (action->kind) {
    case ACTION_SEGMENT:
        set_steps(script, op, action);
        break;
    case ACTION_RUN:
        if (script->steps_done)
            set_steps(script, op, action);
        break;
    case ACTION_SAME:
    case ACTION_FINER:
        set_estimate(script, op, action);
        break;
    case ACTION_COEFFICIENT:
    case ACTION_VALUES:
    case ACTION_DISTANCES:
        set_measure(script, op, action);
        break;
    case ACTION_WRITE:
        order->kind = ORDER_WRITE;
        order->in[0] = op->out[action->component];
        order->out_place = &op->out_place[action->component];
        break;
    default: /* no order */
        break;
    }
}

/* The time steps of the jobs whose κ the script begins with measuring. */
static bool judge(struct task *task)
{
    struct failure *failure = &task->script->failure;
    for (const struct action *action = task->script->action; action->kind == ACTION_COEFFICIENT;
         action++) {
        struct op *op = &task->op[action->op];
        const struct measured *k = &action->order.measured;
        if (request_job_measured(&op->job, op->cfl, k->nan > 0 ? NAN : k->min, k->max,
                                 (double)task->user->users->config->max_work, failure))
            continue;
        return task->is_chain && request_chain_place(NULL, failure, action->op);
    }
    return true;
}

/* The snapshot's array becomes a field, and another one takes its place. */
static bool publish(struct task *task)
{
    struct script *script = task->script;
    struct failure *failure = &script->failure;
    struct field *field = script->array[SCRIPT_FRESH];
    if (field_publish(field, failure)) {
        script_leave_snapshot(script);
        script->taken = field;
        script->array[SCRIPT_FRESH] = NULL;
        field_access(field, &script->access, task, false); /* nobody else has heard of it */
        script->reached = field;
        if (script->round < script->rounds)
            script->array[SCRIPT_FRESH] =
                field_new(task->device, task->user, &task->op->type, failure);
    }
    if (failure->code)
        snprintf(failure->parameter, sizeof failure->parameter, "snapshot");
    return script->taken == field;
}

/* [2, "snapshot", [{"msgid", "step", "time", "out"}]]. False: there is no memory for it. */
static bool tell(struct task *task, struct field *field)
{
    const struct script *script = task->script;
    struct answer answer;
    answer_init(&answer);
    reply_write_snapshot(&answer.packer, task->msgid, script->steps_done,
                         (double)script->steps_done * task->op->job.dt);
    if (script->snapshot == SNAPSHOT_FIELD)
        reply_write_field(&answer.packer, field->id, &field->type);
    else
        answer_array(&answer, field);
    if (!answer.text.size)
        return failure_set(&task->script->failure, STATUS_OUT_OF_MEMORY, "snapshot",
                           "the server has no memory for the snapshot's message");
    task->jobs->calls->answer(task->client->outbox, task->msgid, &answer, task);
    schedule_rest(&task->entry, true);
    return true;
}

/* Nobody was told of the snapshot's field. */
static void withdraw_taken(const struct script *script)
{
    if (script->taken && script->taken->id)
        field_withdraw(script->taken);
}

/* The client, if there is one, is told of it. False: it could not be taken. */
static bool take_snapshot(struct task *task)
{
    struct script *script = task->script;
    script->reached = task->op->out[0];
    if (script->snapshot == SNAPSHOT_FIELD && !publish(task))
        return false;
    if (!task->client || tell(task, script->reached))
        return true;
    withdraw_taken(script);
    return false;
}

/* False: the script is broken. */
static bool begin(struct task *task, struct action *action)
{
    struct script *script = task->script;
    bool ok, goes_on = false;
    if (action->kind == ACTION_JUDGE) {
        ok = judge(task);
    } else if (action->kind == ACTION_SNAPSHOT) {
        ok = take_snapshot(task);
        goes_on = ok && task->client;                    /* until it is sent */
    } else if ((ok = goes_on = !script->failure.code)) { /* else no array for the next snapshot */
        set_order(task, action);
        task_order(task, &action->order, ++task->jobs->last_task);
    }
    if (!goes_on)
        script_action_ended(script, action);
    return ok;
}

void script_go_on(struct task *task)
{
    struct script *script = task->script;
    for (struct action *action; (action = script_next(script));)
        if (!begin(task, action))
            script->broken = true;
    if (!script_is_done(script))
        return;
    const struct failure failure = script->failure; /* the script ends with the task */
    if (script->broken)
        task_fail_with(task, &failure);
    else
        task_succeed(task);
}

static void note_measure(const struct task *task, const struct action *action)
{
    const struct job *job = &task->op->job;
    struct reply_report *report = &task->script->report[action->component];
    const struct measured *measured = &action->order.measured;
    const double numbers = (double)job_points(job) - measured->nan;
    if (action->kind == ACTION_VALUES) {
        const double dt_max = job_has_steps(job) ? job_dt_max(job) : 0;
        report->has_values = numbers > 0;
        report->min = measured->min;
        report->max = measured->max;
        report->mean = measured->sum / numbers;
        report->nan = (uint64_t)measured->nan;
        report->has_stability = dt_max > 0 && isfinite(dt_max);
        report->stability = job->dt / dt_max;
    } else if (action->kind == ACTION_DISTANCES) {
        const double times = job_has_steps(job) ? (double)job->steps : 1;
        report->has_error = numbers > 0;
        report->error_max = times * measured->max;
        report->error_rms = times * sqrt(measured->sum / numbers);
    }
}

static bool is_answered(const struct op *op)
{
    const struct task *task = op->task;
    for (uint32_t i = 0; i < task->answers; i++)
        if (&task->op[task->answer[i].link] == op)
            return true;
    return false;
}

/* It has run once more: after the last time it releases the arrays that are needed no longer. */
static void op_ended(struct op *op)
{
    if (++op->ended < op->task->repeat)
        return;
    op_let_go(op->in, AXIS_COUNT);
    op_let_go(op->scratch, AXIS_COUNT);
    if (!is_answered(op) && op->out_kind == OUT_INLINE)
        op_let_go(op->out, AXIS_COUNT);
}

static void note(struct task *task, struct action *action)
{
    struct op *op = &task->op[action->op];
    if (action->kind == ACTION_SEGMENT) {
        task->script->steps_done += task->script->every;
        op->ended += action->order.out[0] == op->out[0];
    } else if (action->kind == ACTION_RUN && task->is_chain) {
        action->waits = false; /* its plan is made */
        op_ended(op);
    } else if (action->kind == ACTION_VALUES || action->kind == ACTION_DISTANCES) {
        note_measure(task, action);
    }
}

static void cancel_orders(const struct task *task)
{
    struct script *script = task->script;
    script->broken = true;
    for (uint32_t i = 0; i < script->count; i++)
        if (script->action[i].order.id)
            device_cancel(task->device, &script->action[i].order);
}

void script_order_ended(struct task *task, struct order *order, enum status status)
{
    struct script *script = task->script;
    struct action *action = LIST_ENTRY(order, struct action, order);
    script_action_ended(script, action);
    if (status == STATUS_OK)
        note(task, action);
    if (status == STATUS_OK || script->broken)
        return;
    failure_set(&script->failure, status, NULL, "%s", status_text(status));
    cancel_orders(task);
}

void script_snapshot_ended(struct task *task)
{
    struct script *script = task->script;
    schedule_rest(&task->entry, false);
    for (uint32_t i = 0; i < script->count; i++)
        if (script->action[i].kind == ACTION_SNAPSHOT && script->action[i].under_way)
            script_action_ended(script, &script->action[i]);
}

bool script_stop(struct task *task)
{
    cancel_orders(task);
    if (task->reply && task->jobs->calls->withdraw(task->reply))
        withdraw_taken(task->script);
    if (!task->reply)
        script_snapshot_ended(task);
    return task->script->under_way > 0;
}

void script_tear(struct task *task)
{
    for (uint32_t k = 0; k < task->count; k++)
        for (int i = 0; i < AXIS_COUNT && task->op[k].ended; i++)
            if (task->op[k].out[i] && task->op[k].out[i]->resident)
                task->op[k].out[i]->torn = true;
}
