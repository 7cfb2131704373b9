#include "server/devices/order.h"

#include "server/jobs/task.h"

#include <string.h>

void order_init(struct order *order, struct task *task)
{
    *order = (struct order){.task = task,
                            .user = task->user,
                            .kind = task->kind == TASK_PUT   ? ORDER_READ
                                    : task->kind == TASK_GET ? ORDER_WRITE
                                                             : ORDER_RUN,
                            .progress = task->progress,
                            .job = &task->job,
                            .block = task->block,
                            .in_place = task->in_place,
                            .out_place = task->out_place};
    memcpy(order->in, task->in, sizeof order->in);
    memcpy(order->out, task->out, sizeof order->out);
    memcpy(order->scratch, task->scratch, sizeof order->scratch);
    memcpy(order->operand, task->operand, sizeof order->operand);
    /* An input that nobody wants any more serves as scratch. */
    if (task->kind == TASK_OPERATOR && !task->routine && !task->chain_of && task->in_is_own[0] &&
        task->out[0] && job_inputs(&task->job) == 1 && job_outputs(&task->job) == 1 &&
        !task->scratch[0])
        order->scratch[0] = task->in[0];
}
