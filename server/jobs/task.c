/* Happy path of an operator: accept (arrays reserved, accesses queued) → granted → queued → its
 * user's turn → RUN → FINISHED → reply staged and sent → done. A put waits for its copies, a get
 * for its turn at the field. Failures on the way: no room (nothing was accepted); the worker
 * refused memory or was lost; the client cancels or hangs up, or the time is up; the server drains.
 * Each ends in task_fail_with() or task_end(), once. What happens on the device is task_run.c's. */
#include "server/jobs/task.h"

#include "base/log.h"
#include "server/jobs/admission.h"
#include "server/jobs/answer.h"
#include "server/jobs/exports.h"
#include "server/jobs/placement.h"
#include "server/jobs/relay.h"
#include "server/jobs/requirements.h"
#include "server/users/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* How long the answer to a stopped job waits for the worker to let it go: some pieces. */
#define LET_GO_NS UINT64_C(100000000)

/* Change the state by the event. An event that may not come is a fault of the server: it is logged.
 */
void task_step(struct task *task, enum task_event event)
{
    struct jobs *jobs = task->jobs;
    const enum task_state next = task_state_after(task->state, event);
    if (next == TASK_STATE_COUNT) {
        log_error("job %llu: the event %d came in state %d", (unsigned long long)task->id, event,
                  task->state);
        assert(!"an event that its state does not take");
        return;
    }
    jobs->tasks[task->state]--;
    jobs->tasks[next]++;
    task->state = next;
}

static bool with_worker(const struct task *task)
{
    return task->state == TASK_RUNNING || task->state == TASK_STOPPING;
}

/* There is an answer: it needs the device no longer. */
static void step_to_answer(struct task *task)
{
    struct schedule *schedule = &task->device->schedule;
    placement_set_due(task, 0);
    if (task->state == TASK_QUEUED)
        schedule_remove(schedule, &task->entry);
    if (with_worker(task))
        schedule_done(schedule, &task->entry, task->device_ns);
    task_step(task, TASK_ANSWER);
}

void op_let_go(struct field **fields, int count)
{
    for (int i = 0; i < count; i++) {
        field_release(fields[i]);
        fields[i] = NULL;
    }
}

static void op_release(struct op *op)
{
    for (int i = 0; i < OP_READS; i++) {
        free(op->small[i]);
        op->small[i] = NULL;
    }
    if (op->in[0] && op->in[0]->awaited_by == op->task)
        op->in[0]->awaited_by = NULL;
    op_let_go(op->array, OP_ARRAYS);
    free(op->block);
    op->block = NULL;
    while (op->accesses > 0) {
        struct access *access = &op->access[--op->accesses];
        struct field *field = access->field;
        field_access_end(access);
        field_release(field);
    }
}

/* Give back what the task holds, but for its places. */
static void release(struct task *task)
{
    arena_forget(&task->small_waiter);
    list_remove(&task->granted_link);
    relays_release(task);
    for (uint32_t i = 0; i < task->count; i++)
        op_release(&task->op[i]);
    script_free(task->script);
    task->script = NULL;
    admission_uncharge(task);
}

static void note_answered(struct client *client, uint64_t msgid)
{
    client->answered[client->answered_count++ % CLIENT_ANSWERED] = msgid;
}

static void task_end(struct task *task)
{
    struct user *user = task->user;
    struct device *device = task->device;
    task_trace_end(task);
    task_step(task, TASK_END);
    deadline_forget(&task->deadline);
    USER_COUNT(user, ended[task->outcome], 1);
    if (task->client)
        note_answered(task->client, task->msgid);
    list_remove(&task->device_link);
    list_remove(&task->client_link);
    release(task);
    /* Last, when the answer is out: an unregister that waits is answered after the jobs that it
     * waited for. */
    for (uint32_t k = 0; k < task->count; k++)
        for (int i = 0; i < OP_PLACES; i++)
            region_use_end(&task->op[k].place[i]);
    USER_COUNT(user, jobs, -1);
    memory_release(user, task->front_bytes);
    free(task);
    task_dispatch(device);
}

/* An error is its answer: it holds nothing more, and the device knows it no longer. Where nobody is
 * there to hear it, it ends. */
static void answer_failure(struct task *task, const struct failure *failure)
{
    deadline_forget(&task->deadline);
    release(task);
    list_remove(&task->device_link);
    task->status = failure->code;
    task->outcome = failure->code == STATUS_CANCELLED ? TASK_CANCELLED
                    : failure->code == STATUS_TIMEOUT ? TASK_TIMED_OUT
                                                      : TASK_FAILED;
    if (task->client)
        task->jobs->calls->failure(task->client->outbox, task->msgid, task, failure);
    else
        task_end(task);
}

void task_fail_with(struct task *task, const struct failure *failure)
{
    step_to_answer(task);
    if (task->script)
        script_tear(task);
    answer_failure(task, failure);
}

void task_fail(struct task *task, enum status status, const char *text)
{
    struct failure failure = {0};
    failure_set(&failure, status, NULL, "%s", text);
    task_fail_with(task, &failure);
}

static void set_stopped(const struct task *task, struct failure *failure)
{
    static const struct {
        enum status status;
        const char *text;
    } answers[] = {[STOP_CANCELLED] = {STATUS_CANCELLED, "cancelled"},
                   [STOP_TIMED_OUT] = {STATUS_TIMEOUT, "not done within its timeout"},
                   [STOP_DRAINED] = {STATUS_TIMEOUT, "not done when the time to drain was over"}};
    failure_set(failure, answers[task->stop].status, NULL, "%s", answers[task->stop].text);
}

void task_fail_stopped(struct task *task)
{
    struct failure failure = {0};
    set_stopped(task, &failure);
    task_fail_with(task, &failure);
}

/* Not for tasks that are replying. The worker lets a stopped job go after the piece at work, and
 * the answer waits for that, but not for long: the worker may hang. */
static void stop(struct task *task, enum task_stop why)
{
    const bool runs = task->state == TASK_RUNNING;
    task_step(task, TASK_STOP);
    task->stop = why;
    if (runs && !task->script)
        device_cancel(task->device, &task->order);
    else if (!with_worker(task) || (runs && !script_stop(task))) {
        task_fail_stopped(task);
        return;
    }
    if (!runs)
        return;
    deadline_forget(&task->deadline);
    deadline_set(&task->jobs->deadlines, &task->deadline, uv_hrtime() + LET_GO_NS);
}

static void record_latency(const struct task *task)
{
    const uint64_t us = (uv_hrtime() - task->received_ns) / 1000;
    latency_record(&task->user->counters.latency, us);
    latency_record(&task->user->users->counters.latency, us);
}

/* Answer a stopped job that the worker has not let go. From here on the task has no client, as
 * after a hang-up, and holds what it has until the worker has finished with it or ended. */
static void answer_early(struct task *task)
{
    struct failure failure = {0};
    if (!task->client || task->reply) /* a snapshot is sent to its end first */
        return;
    set_stopped(task, &failure);
    for (uint32_t k = 0; k < task->count; k++)
        for (int i = 0; i < AXIS_COUNT; i++)
            region_use_hold(&task->op[k].out_place[i]);
    task->jobs->calls->failure(task->client->outbox, task->msgid, NULL, &failure);
    record_latency(task);
    note_answered(task->client, task->msgid);
    list_remove(&task->client_link);
    task->client = NULL;
}

/* The arrays, by component, that answer `i` makes fields of. NULL: none. */
static struct field *const *new_fields(const struct task *task, uint32_t i)
{
    const struct request_answer *answer = &task->answer[i];
    return answer->kind == OUT_NEW_FIELD ? op_results(&task->op[answer->link]) : NULL;
}

static void withdraw_fields(const struct task *task)
{
    for (uint32_t i = 0; i < task->answers; i++) {
        struct field *const *fields = new_fields(task, i);
        for (int k = 0; fields && k < AXIS_COUNT; k++)
            if (fields[k] && fields[k]->id)
                field_withdraw(fields[k]);
    }
}

/* Give ids to what is to be a field; all get one, or none. */
static bool publish_fields(const struct task *task, struct failure *failure)
{
    for (uint32_t i = 0; i < task->answers; i++) {
        struct field *const *fields = new_fields(task, i);
        for (int k = 0; fields && k < AXIS_COUNT; k++)
            if (fields[k] && !field_publish(fields[k], failure)) {
                withdraw_fields(task);
                return false;
            }
    }
    return true;
}

/* Does it leave a result that stays, in a field or a region? */
static bool leaves(const struct task *task)
{
    bool leaves = false;
    for (uint32_t i = 0; i < task->answers; i++)
        leaves = leaves || task->answer[i].kind != OUT_INLINE;
    for (uint32_t k = 0; k < task->count; k++)
        leaves = leaves || task->op[k].out_kind != OUT_INLINE;
    return leaves;
}

void task_succeed(struct task *task)
{
    struct device *device = task->device;
    struct failure failure = {0};
    if (!publish_fields(task, &failure)) {
        task_fail_with(task, &failure);
        return;
    }
    struct answer answer;
    if (task->client && !answer_task(&answer, task)) {
        withdraw_fields(task);
        task_fail(task, STATUS_OUT_OF_MEMORY, "the server has no memory for the answer");
        return;
    }
    if (task->client && task->kind == TASK_EXPORT &&
        !exports_take(task->client, task->op->in[0], &failure)) {
        msgpack_sbuffer_destroy(&answer.text);
        task_fail_with(task, &failure);
        return;
    }
    step_to_answer(task);
    task->outcome = TASK_DONE;
    if (!task->client) { /* detached: `list` shows what it leaves */
        task_end(task);
        return;
    }
    if (!answer.parts && !answer.exported)
        list_remove(&task->device_link);
    const bool reads = task->kind == TASK_GET && answer.parts;
    task->jobs->calls->answer(task->client->outbox, task->msgid, &answer, task);
    if (!reads) /* else the field is read until it is sent */
        release(task);
    task_dispatch(device);
}

void task_replied(struct task *task, uint64_t bytes_out)
{
    USER_COUNT(task->user, bytes_out, bytes_out);
    task->reply = NULL;
    if (task->state != TASK_REPLYING) {
        script_snapshot_ended(task);
        task_part_ended(task);
        return;
    }
    record_latency(task);
    task_end(task);
}

void task_hang_up(struct task *task)
{
    task->client = NULL;
    list_remove(&task->client_link);
    if (task->state == TASK_REPLYING) {
        if (task->outcome == TASK_DONE && !task->detach)
            task->outcome = TASK_CANCELLED; /* nobody has its answer */
        task_end(task);
    } else if (!task->detach && task->state != TASK_STOPPING) {
        stop(task, STOP_CANCELLED);
    } else if (with_worker(task) && task->script) {
        script_snapshot_ended(task); /* it went with the connection */
        task_part_ended(task);
    }
}

/* Answer a task that is replying with an error. False: its answer has begun to go out, or what it
 * leaves is there already, whatever comes beside it. */
static bool withdraw(struct task *task, enum task_stop why)
{
    struct failure failure = {0};
    if (!task->reply || leaves(task) || !task->jobs->calls->withdraw(task->reply))
        return false;
    task_step(task, TASK_STOP);
    task->stop = why;
    set_stopped(task, &failure);
    answer_failure(task, &failure);
    return true;
}

const char *task_cancel(const struct client *client, uint64_t msgid)
{
    LIST_EACH (struct task, task, &client->tasks, client_link) {
        if (task->msgid != msgid)
            continue;
        if (task->state == TASK_REPLYING)
            return withdraw(task, STOP_CANCELLED) ? "cancelled" : "already_done";
        stop(task, STOP_CANCELLED);
        return "cancelled";
    }
    for (uint32_t i = 0; i < CLIENT_ANSWERED && i < client->answered_count; i++)
        if (client->answered[i] == msgid)
            return "already_done";
    return "not_found";
}

static void out_of_time(struct deadline *deadline)
{
    struct task *task = LIST_ENTRY(deadline, struct task, deadline);
    if (task->state == TASK_STOPPING)
        answer_early(task);
    else if (task->state != TASK_REPLYING)
        stop(task, STOP_TIMED_OUT);
    else if (task->reply && task->jobs->calls->is_held_up(task->reply))
        withdraw(task, STOP_TIMED_OUT);
}

void task_drain(struct device *device, bool late)
{
    struct list *link = list_begin(&device->tasks);
    while (link != &device->tasks) {
        struct task *task = LIST_ENTRY(link, struct task, device_link);
        link = link->next;
        const bool begins = task->state == TASK_QUEUED ||
                            (task->state == TASK_WAITING && task->kind == TASK_OPERATOR);
        if (late && task->state == TASK_RUNNING)
            stop(task, STOP_DRAINED);
        else if (!late && begins && task->jobs->draining)
            task_fail(task, STATUS_SHUTTING_DOWN, "the server is draining; the job had not begun");
        else if (!late && begins)
            task_fail(task, STATUS_DEVICE_LOST,
                      "a node leaves that the job needs; it had not begun");
        else
            continue;
        link = device->tasks.next; /* an access that ended may have moved others */
    }
}

/* A task of so many operators and answers, for the user; NULL with the failure set. */
static struct task *new_task(struct jobs *jobs, struct user *user, const struct request *request,
                             struct failure *failure)
{
    const enum task_kind kind = request->method == METHOD_PUT      ? TASK_PUT
                                : request->method == METHOD_GET    ? TASK_GET
                                : request->method == METHOD_EXPORT ? TASK_EXPORT
                                                                   : TASK_OPERATOR;
    const struct request_chain *chain = request->chain;
    const uint32_t count = chain ? chain->count : 1, answers = chain ? chain->answers : 1;
    const uint64_t bytes =
        sizeof(struct task) + count * sizeof(struct op) + answers * sizeof(struct request_answer);
    struct task *task = memory_new(user, bytes, NULL, failure);
    if (!task)
        return NULL;
    task->jobs = jobs;
    task->user = user;
    task->front_bytes = bytes;
    task->kind = kind;
    task->exported = kind == TASK_EXPORT ? request->field : 0;
    task->state = TASK_WAITING;
    task->count = count;
    task->answers = answers;
    task->answer = (struct request_answer *)&task->op[count];
    task->is_chain = chain != NULL;
    task->repeat = request->repeat;
    task->is_named = chain && chain->is_named;
    if (chain)
        memcpy(task->answer, chain->answer, answers * sizeof *task->answer);
    else
        task->answer->kind = kind == TASK_PUT ? OUT_NEW_FIELD : request->out;
    for (uint32_t k = 0; k < count; k++)
        task->op[k].task = task;
    task->entry.begin = task_begin_run;
    task->deadline.passed = out_of_time;
    return task;
}

bool task_accept(struct client *client, struct request *request, const struct upload *upload,
                 uint64_t message_ns, struct failure *failure)
{
    struct jobs *jobs = client->jobs;
    struct user *user = client->user;
    struct device *device = NULL;
    uint64_t relayed;
    if (admission_open(jobs, user, failure) && requirements_expand(user, request, failure))
        device = placement_of_job(client, request, upload, &relayed, failure);
    struct task *task = device ? new_task(jobs, user, request, failure) : NULL;
    if (!task) {
        USER_COUNT(user, ended[TASK_REFUSED], 1);
        return false;
    }
    task->client = client;
    task->device = device;
    task->part = user->part[device->number];
    task->id = ++jobs->last_task;
    task->msgid = request->msgid;
    task->message_ns = message_ns;
    task->received_ns = uv_hrtime();
    task->progress = request->progress;
    task->detach = request->detach;
    task->entry.priority = request->priority;
    list_push(&client->tasks, &task->client_link);
    list_push(&task->device->tasks, &task->device_link);
    USER_COUNT(user, jobs, 1);
    jobs->tasks[TASK_WAITING]++;

    if (!admission_take(task, request, upload, failure)) {
        task->status = failure->code;
        list_remove(&task->client_link); /* its answer is the caller's */
        task->client = NULL;
        task_end(task);
        return false;
    }
    const uint64_t most_us = (UINT64_MAX - task->received_ns) / 1000; /* ages away */
    if (request->timeout_us && request->timeout_us <= most_us)
        deadline_set(&jobs->deadlines, &task->deadline,
                     task->received_ns + request->timeout_us * 1000);
    placement_set_due(task, task_cost_ns(task));
    task_begin(task);
    return true;
}
