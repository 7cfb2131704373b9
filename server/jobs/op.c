
#include "server/jobs/task.h"

#include <stdlib.h>
#include <string.h>

void op_init(struct op *op, struct task *task)
{
    op->task = task;
    for (int i = 0; i < OP_ACCESSES; i++)
        list_init(&op->access[i].link);
    for (int i = 0; i < OP_READS; i++)
        list_init(&op->read_place[i].link);
    for (int i = 0; i < AXIS_COUNT; i++)
        list_init(&op->out_place[i].link);
}

void op_note_access(struct op *op, struct field *field, bool writes)
{
    struct task *task = op->task;
    for (uint32_t k = 0; k < task->count; k++)
        for (int i = 0; i < OP_ACCESSES; i++)
            if (task->op[k].access[i].field == field) {
                task->op[k].access[i].writes |= writes;
                return;
            }
    int i = 0;
    while (op->access[i].field)
        i++;
    op->access[i].field = field_reference(field);
    op->access[i].writes = writes;
}

static void release(struct field **fields, int count)
{
    for (int i = 0; i < count; i++) {
        field_release(fields[i]);
        fields[i] = NULL;
    }
}

void op_release(struct op *op)
{
    for (int i = 0; i < OP_READS; i++) {
        free(op->small[i]);
        op->small[i] = NULL;
    }
    if (op->in[0] && op->in[0]->put == op->task)
        op->in[0]->put = NULL;
    release(op->array, OP_ARRAYS);
    free(op->block);
    op->block = NULL;
    for (int i = 0; i < OP_ACCESSES; i++) {
        struct field *field = op->access[i].field;
        if (!field)
            continue;
        field_access_end(&op->access[i]);
        field_release(field);
    }
}

void op_end_places(struct op *op)
{
    for (int i = 0; i < OP_READS; i++)
        region_use_end(&op->read_place[i]);
    for (int i = 0; i < AXIS_COUNT; i++)
        region_use_end(&op->out_place[i]);
}

static bool is_answered(const struct op *op)
{
    const struct task *task = op->task;
    for (uint32_t i = 0; i < task->answers; i++)
        if (&task->op[task->answer[i].of.link] == op)
            return true;
    return false;
}

void op_ended(struct op *op)
{
    if (++op->ended < op->task->repeat)
        return;
    release(op->in, AXIS_COUNT);
    release(op->scratch, AXIS_COUNT);
    if (!is_answered(op) && op->out_kind == OUT_INLINE)
        release(op->out, AXIS_COUNT);
}

void op_withdraw(struct field *const fields[AXIS_COUNT])
{
    for (int i = 0; i < AXIS_COUNT; i++)
        if (fields[i] && fields[i]->id)
            field_withdraw(fields[i]);
}

bool op_publish(struct field *const fields[AXIS_COUNT], struct failure *failure)
{
    for (int i = 0; i < AXIS_COUNT; i++)
        if (fields[i] && !field_publish(fields[i], failure)) {
            op_withdraw(fields);
            return false;
        }
    return true;
}

void op_order(const struct op *op, struct order *order)
{
    struct task *task = op->task;
    *order = (struct order){.task = task,
                            .user = task->user,
                            .kind = task->kind == TASK_PUT   ? ORDER_READ
                                    : task->kind == TASK_GET ? ORDER_WRITE
                                                             : ORDER_RUN,
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
