/* Happy path of an operator: accept (arrays reserved, accesses queued) → granted → queued → its
 * user's turn → RUN → FINISHED → reply staged and sent → done. A put waits for its copies, a get
 * for its turn at the field. Failures on the way: no room (nothing was accepted); the worker
 * refused memory or was lost; the client cancels or hangs up, or the time is up; the server drains.
 * Each ends in fail_with() or task_end(), once. */
#include "server/jobs/task.h"

#include "gpu/worker/channel.h"
#include "base/log.h"
#include "server/jobs/admission.h"
#include "server/jobs/chain.h"
#include "server/devices/device.h"
#include "server/devices/placement.h"
#include "server/users/memory.h"
#include "server/jobs/job_script.h"
#include "server/jobs/jobs.h"
#include "server/jobs/task_trace.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* How long the answer to a stopped job waits for the worker to let it go: some pieces. */
#define LET_GO_NS UINT64_C(100000000)

/* What the event does to the state. One that may not come is our own fault: it is told. */
static void step(struct task *task, enum task_event event)
{
    struct jobs *jobs = task->jobs;
    const enum task_state next = task_state_after(task->state, event);
    if (next == TASK_STATE_COUNT) {
        log_error("job %llu: the event %s came while it was %s", (unsigned long long)task->id,
                  task_event_name(event), task_state_name(task->state));
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
    if (task->state == TASK_QUEUED)
        schedule_remove(schedule, &task->entry);
    if (with_worker(task))
        schedule_done(schedule, &task->entry, task->device_ns);
    step(task, TASK_ANSWER);
}

bool task_charge(struct task *task, uint64_t bytes, struct failure *failure)
{
    if (task->chain_of)
        task = task->chain_of;
    if (!memory_take(task->user, bytes, NULL, failure))
        return false;
    task->front_bytes += bytes;
    return true;
}

void task_init_lists(struct task *task)
{
    list_init(&task->small_waiter.link);
    list_init(&task->granted_link);
    list_init(&task->client_link);
    list_init(&task->device_link);
    for (size_t a = 0; a < TASK_ACCESSES; a++)
        list_init(&task->access[a].link);
    for (int i = 0; i < AXIS_COUNT; i++) {
        list_init(&task->in_place[i].link);
        list_init(&task->out_place[i].link);
    }
    for (int i = 0; i < OPERANDS; i++)
        list_init(&task->operand_place[i].link);
}

static void release(struct task *task, struct field **fields, int count)
{
    for (int i = 0; i < count; i++) {
        struct field *field = fields[i];
        if (!field)
            continue;
        for (size_t a = 0; a < TASK_ACCESSES; a++)
            if (task->access[a].field == field)
                field_access_end(&task->access[a]);
        fields[i] = NULL;
        field_release(field);
    }
}

/* Give back what the task holds, but for the arrays that its reply sends: task->in, task->out or
 * NULL. */
static void release_all_but(struct task *task, struct field **kept)
{
    arena_forget(&task->small_waiter);
    list_remove(&task->granted_link);
    for (int i = 0; i < TASK_SMALLS; i++) {
        free(task->small[i]);
        task->small[i] = NULL;
    }
    if (task->in[0] && task->in[0]->put == task)
        task->in[0]->put = NULL;
    struct field **const all[] = {task->in, task->out, task->scratch};
    for (size_t i = 0; i < 3; i++)
        if (all[i] != kept)
            release(task, all[i], AXIS_COUNT);
    release(task, task->operand, OPERANDS);
    admission_free_block(task);
    routine_release(task->routine);
    chain_release(task->chain);
}

void task_release_arrays(struct task *task)
{
    release_all_but(task, NULL);
}

void task_release_all(struct task *task, struct field *fields[AXIS_COUNT])
{
    release(task, fields, AXIS_COUNT);
}

/* The task, then the links of a chain: what each of them holds. i from 0 to parts_of() − 1. */
static uint32_t parts_of(const struct task *task)
{
    return 1 + (task->chain ? task->chain->count : 0);
}

static struct task *part_of(const struct task *task, uint32_t i)
{
    return i == 0 ? (struct task *)(uintptr_t)task : task->chain->link[i - 1];
}

/* Their memory is the client's again. Last of all, when the answer is out: an unregister that waits
 * is answered after the jobs that it waited for. */
static void end_places(struct task *task)
{
    for (uint32_t p = 0; p < parts_of(task); p++) {
        struct task *part = part_of(task, p);
        for (int i = 0; i < AXIS_COUNT; i++) {
            region_use_end(&part->in_place[i]);
            region_use_end(&part->out_place[i]);
        }
        for (int i = 0; i < OPERANDS; i++)
            region_use_end(&part->operand_place[i]);
    }
}

static void count(struct task *task)
{
    struct counters *counters[] = {&task->user->counters, &task->user->users->totals};
    for (size_t i = 0; i < 2; i++)
        counters[i]->jobs[task->outcome]++;
}

static void note_answered(struct client *client, uint64_t msgid)
{
    client->answered[client->answered_count++ % CLIENT_ANSWERED] = msgid;
}

static bool has_answered(const struct client *client, uint64_t msgid)
{
    for (uint32_t i = 0; i < CLIENT_ANSWERED && i < client->answered_count; i++)
        if (client->answered[i] == msgid)
            return true;
    return false;
}

static void task_end(struct task *task)
{
    struct user *user = task->user;
    struct device *device = task->device;
    task_trace_end(task);
    step(task, TASK_END);
    deadline_forget(&task->deadline);
    count(task);
    if (task->client)
        note_answered(task->client, task->msgid);
    list_remove(&task->device_link);
    list_remove(&task->client_link);
    release_all_but(task, NULL);
    end_places(task);
    task->jobs->tasks[TASK_ENDED]--;
    task->jobs->count--;
    user->jobs--;
    routine_free(task->routine);
    chain_free(task->chain);
    memory_release(user, task->front_bytes);
    free(task);
    placement_settle(user);
    task_dispatch(device);
}

/* Hand the error over as its answer, or end it where nobody is there to hear. */
static void push_failure(struct task *task, const struct failure *failure)
{
    if (task->client)
        task->jobs->calls->failure(task->client->outbox, task->msgid, task, failure);
    else
        task_end(task);
}

static void set_failed(struct task *task, enum status status)
{
    task->status = status;
    task->outcome = status == STATUS_CANCELLED ? TASK_CANCELLED
                    : status == STATUS_TIMEOUT ? TASK_TIMED_OUT
                                               : TASK_FAILED;
}

/* Answer with an error and be done. Not for tasks with the worker while it lives. */
static void fail_with(struct task *task, const struct failure *failure)
{
    step_to_answer(task);
    deadline_forget(&task->deadline);
    if (task->routine)
        routine_tear(task);
    release_all_but(task, NULL);
    list_remove(&task->device_link);
    set_failed(task, failure->code);
    push_failure(task, failure);
}

static void fail(struct task *task, enum status status, const char *text)
{
    struct failure failure = {0};
    failure_set(&failure, status, NULL, "%s", text);
    fail_with(task, &failure);
}

/* The answer that the stop says. */
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

static void fail_stopped(struct task *task)
{
    struct failure failure = {0};
    set_stopped(task, &failure);
    fail_with(task, &failure);
}

/* Not for tasks that are replying. The worker lets a stopped job go after the piece at work, and
 * the answer waits for that, but not for long: the worker may hang. */
static void stop(struct task *task, enum task_stop why)
{
    const bool runs = task->state == TASK_RUNNING;
    step(task, TASK_STOP);
    task->stop = why;
    if (runs && !task->routine)
        device_cancel(task->device, &task->order);
    else if (!with_worker(task) || (runs && !routine_stop(task))) {
        fail_stopped(task);
        return;
    }
    if (!runs)
        return;
    deadline_forget(&task->deadline);
    deadline_set(&task->jobs->deadlines, &task->deadline, uv_hrtime() + LET_GO_NS);
}

static void record_latency(struct task *task)
{
    const uint64_t us = (uv_hrtime() - task->received_ns) / 1000;
    latency_record(&task->user->counters.latency, us);
    latency_record(&task->user->users->totals.latency, us);
}

/* Answer a stopped job that the worker has not let go. From here on the task has no client, as
 * after a hang-up, and holds what it has until the worker has finished with it or ended. */
static void answer_early(struct task *task)
{
    struct failure failure = {0};
    if (!task->client || task->snapshot) /* it is sent to its end first */
        return;
    set_stopped(task, &failure);
    for (uint32_t p = 0; p < parts_of(task); p++)
        for (int i = 0; i < AXIS_COUNT; i++)
            region_use_hold(&part_of(task, p)->out_place[i]);
    task->jobs->calls->failure(task->client->outbox, task->msgid, NULL, &failure);
    record_latency(task);
    note_answered(task->client, task->msgid);
    list_remove(&task->client_link);
    task->client = NULL;
}

void task_withdraw(struct field *const fields[AXIS_COUNT])
{
    for (int i = 0; i < AXIS_COUNT; i++)
        if (fields[i] && fields[i]->id)
            field_withdraw(fields[i]);
}

bool task_publish(struct field *const fields[AXIS_COUNT], struct failure *failure)
{
    for (int i = 0; i < AXIS_COUNT; i++)
        if (fields[i] && !field_publish(fields[i], failure)) {
            task_withdraw(fields);
            return false;
        }
    return true;
}

/* False: there is no memory for it. */
static bool pack_answer(const struct task *task, struct answer *answer)
{
    answer_init(answer);
    if (task->chain)
        chain_answer(task->chain, answer, task);
    else if (task->kind == TASK_PUT)
        answer_id(answer, task, task->in[0]->id);
    else
        answer_results(answer, task);
    return answer->text.size > 0;
}

/* The result is on the device (or needs none): say so. */
static void succeed(struct task *task)
{
    struct device *device = task->device;
    const bool computed = task->kind == TASK_OPERATOR;
    const bool is_inline = task->kind != TASK_PUT && task->out_kind == OUT_INLINE;
    const bool fresh = task->kind == TASK_PUT || (computed && task->out_kind == OUT_NEW_FIELD);
    struct field **results = computed ? task->out : task->in;
    struct failure failure = {0};
    if (task->chain ? !chain_publish(task->chain, &failure)
                    : fresh && !task_publish(results, &failure)) {
        fail_with(task, &failure);
        return;
    }
    struct answer answer;
    if (task->client && !pack_answer(task, &answer)) {
        if (task->chain)
            chain_withdraw(task->chain);
        else if (fresh)
            task_withdraw(results);
        fail(task, STATUS_OUT_OF_MEMORY, "the server has no memory for the answer");
        return;
    }
    step_to_answer(task);
    task->outcome = TASK_DONE;
    if (!task->client) { /* detached: `list` shows what it leaves */
        task_end(task);
        return;
    }
    if (!answer.parts)
        list_remove(&task->device_link);
    task->jobs->calls->answer(task->client->outbox, &answer, task);
    release_all_but(task, is_inline && !task->chain ? results : NULL);
    task_dispatch(device);
}

/* The time in which its bytes go between regions and the device, by estimate. */
static int64_t copy_ns(const struct task *task)
{
    uint64_t bytes = 0;
    if (task->kind == TASK_OPERATOR && task->device->info.direct)
        return 0;
    for (int i = 0; i < AXIS_COUNT; i++)
        bytes += ((task->in_place[i].region != NULL) + (task->out_place[i].region != NULL)) *
                 task->type.bytes;
    return schedule_copy(bytes);
}

static void make_ready(struct task *task)
{
    if (task->kind == TASK_GET && task->out_kind == OUT_INLINE) {
        task_trace_begin(task);
        succeed(task);
        return;
    }
    step(task, TASK_READY);
    task->entry.arrival = task->id;
    task->entry.cost_ns = copy_ns(task);
    if (task->kind == TASK_OPERATOR)
        task->entry.cost_ns += schedule_estimate(&task->user->flow, &task->job);
    if (task->chain)
        task->entry.cost_ns = chain_cost_ns(task->chain);
    else if (task->routine)
        task->entry.cost_ns +=
            routine_cost_ns(&task->user->flow, &task->job, task->routine->estimates);
    schedule_add(&task->device->schedule, &task->user->flow, &task->entry);
    task_dispatch(task->device);
}

static void small_copied(struct slab *slab, void *context, bool ok)
{
    (void)ok; /* a lost worker fails the task itself */
    arena_release(context, slab);
}

/* The arrays that it reads: inputs, then operands. NULL: it has none there. */
static struct field *read_field(const struct task *task, int i)
{
    return i < AXIS_COUNT ? task->in[i] : task->operand[i - AXIS_COUNT];
}

/* Send small inputs on their way; false: no slab for the next one yet. */
static bool small_upload_part(struct task *task)
{
    struct arena *arena = &task->jobs->devices->arena;
    struct slab *slab;
    for (int i = 0; i < TASK_SMALLS; i++) {
        if (!task->small[i])
            continue;
        if (!arena_take(arena, task->user, SHARE_UPLOAD, 1, &slab))
            return false;
        struct field *field = read_field(task, i);
        const uint64_t bytes = field->type.bytes;
        memcpy(arena_memory_to_write(arena, slab, bytes), task->small[i], bytes);
        free(task->small[i]);
        task->small[i] = NULL;
        device_upload(field, 0, slab, bytes, small_copied, arena);
    }
    return true;
}

static bool small_upload(struct task *task)
{
    for (uint32_t p = 0; p < parts_of(task); p++)
        if (!small_upload_part(part_of(task, p)))
            return false;
    return true;
}

/* Is everything that it waits for there? */
static bool has_all(const struct task *task)
{
    for (uint32_t p = 0; p < parts_of(task); p++)
        for (int i = 0; i < TASK_SMALLS; i++)
            if (part_of(task, p)->small[i])
                return false;
    return !task->ungranted;
}

/* Does it read a field that was left half-written? */
static bool is_torn(const struct task *task)
{
    for (int i = 0; i < TASK_SMALLS; i++)
        if (read_field(task, i) && read_field(task, i)->torn)
            return true;
    return task->chain && chain_is_torn(task->chain);
}

static void on_put_arrived(struct task *task);

static void proceed(struct task *task)
{
    if (task->state != TASK_WAITING || !has_all(task))
        return;
    if (task->kind == TASK_PUT && !task->in_place[0].region) {
        task->in[0]->put = task;
        if (!task->in[0]->copies)
            on_put_arrived(task);
        return;
    }
    if (is_torn(task))
        fail(task, STATUS_FIELD_LOST, "a job that wrote the field was stopped half-way");
    else
        make_ready(task);
}

static void small_ready(struct slab_waiter *waiter)
{
    struct task *task = LIST_ENTRY(waiter, struct task, small_waiter);
    for (uint32_t p = 0; p < parts_of(task); p++)
        for (int i = 0; i < TASK_SMALLS; i++) {
            const struct field *field = read_field(part_of(task, p), i);
            if (field && field->lost)
                return; /* device_lost() follows */
        }
    if (!small_upload(task))
        arena_wait(&task->jobs->devices->arena, waiter);
    else
        proceed(task);
}

/* A task that fails here lets the next one go: one after another, not one inside the other. */
static void on_granted(struct task *task)
{
    struct jobs *jobs = task->jobs;
    if (task->chain_of)
        task = task->chain_of;
    if (--task->ungranted)
        return;
    list_push(&jobs->granted, &task->granted_link);
    if (jobs->granting)
        return;
    jobs->granting = true;
    for (struct list *link; (link = list_first(&jobs->granted));) {
        list_remove(link);
        proceed(LIST_ENTRY(link, struct task, granted_link));
    }
    jobs->granting = false;
}

static void on_region_lost(struct task *task, enum status status)
{
    if (task->chain_of)
        task = task->chain_of;
    if (task->state == TASK_WAITING)
        fail(task, status, "a region of this job could not be mapped");
}

static void on_put_arrived(struct task *task)
{
    task->in[0]->put = NULL;
    task_trace_begin(task);
    task_trace_finished(task, NULL);
    if (task->in[0]->refused)
        fail(task, STATUS_OUT_OF_MEMORY, "the device could not allocate the field");
    else
        succeed(task);
}

/* Where the routine has come to its end, so has the task. */
static void go_on(struct task *task)
{
    switch (routine_go_on(task)) {
    case ROUTINE_GOES_ON:
        break;
    case ROUTINE_DONE:
        succeed(task);
        break;
    case ROUTINE_FAILED:
        fail_with(task, &task->routine->failure);
    }
}

static void copy_operands(const struct task *task)
{
    for (uint32_t p = 0; p < parts_of(task); p++) {
        const struct task *part = part_of(task, p);
        for (int i = 0; i < OPERANDS; i++)
            if (part->operand_place[i].region)
                device_copy_operand(task->device, part->operand[i], &part->operand_place[i]);
    }
}

void task_order(struct task *task, struct order *order, uint64_t id)
{
    order->id = id;
    order->is_short = schedule_is_short(&task->entry);
    device_order(task->device, order);
}

void task_dispatch(struct device *device)
{
    if (device->state == DEVICE_CLOSED || device->losing)
        return;
    for (struct entry *entry; (entry = schedule_next(&device->schedule));) {
        struct task *task = LIST_ENTRY(entry, struct task, entry);
        step(task, TASK_HAND_OVER);
        task_trace_begin(task);
        copy_operands(task);
        if (task->routine) {
            go_on(task);
            continue;
        }
        order_init(&task->order, task);
        task_order(task, &task->order, task->id);
    }
}

static void on_progress(struct order *order, uint64_t passes)
{
    struct task *task = order->task;
    step(task, TASK_PROGRESS);
    const uint64_t before = task->routine ? task->routine->steps_done : 0;
    if (task->client && !task->stop)
        task->jobs->calls->progress(task->client->outbox, task->msgid,
                                    before + job_steps_done(order->job, passes), task->job.steps);
}

/* What the order came to: the fields that it wrote hold its result, or what nobody can tell. */
static void mark(const struct order *order, bool is_whole)
{
    for (int i = 0; i < AXIS_COUNT && order->kind == ORDER_RUN; i++)
        if (order->out[i] && order->out[i]->resident)
            order->out[i]->torn = !is_whole;
}

/* A part of the routine has ended. */
static void part_ended(struct task *task)
{
    struct device *device = task->device;
    if (!task->stop)
        go_on(task);
    else if (!task->routine->program.under_way)
        fail_stopped(task);
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
        mark(order, status == STATUS_OK);
        task->device_ns += schedule_time(device_us);
        if (!task->routine)
            task->device_ns += copy_ns(task);
    }
    if (status == STATUS_OK && order->kind == ORDER_RUN)
        schedule_learn(&task->user->flow, order->job, device_us);
    if (task->routine) {
        routine_order_ended(task, order, status);
        part_ended(task);
        return;
    }
    if (task->stop)
        fail_stopped(task);
    else if (task->kind == TASK_PUT && task->in[0]->refused)
        fail(task, STATUS_OUT_OF_MEMORY, "the device could not allocate the field");
    else if (status == STATUS_OK)
        succeed(task);
    else
        fail(task, status, status_text(status));
}

static void device_lost(struct task *task)
{
    if (task->state == TASK_REPLYING) {
        list_remove(&task->device_link);
        if (task->reply)
            task->jobs->calls->lost(task->reply);
        return;
    }
    if (task->snapshot)
        task->jobs->calls->lost(task->snapshot);
    if (task->stop) {
        fail_stopped(task);
        return;
    }
    char text[96];
    snprintf(text, sizeof text, "the worker of %s ended while it held this job",
             task->device->name);
    fail(task, STATUS_DEVICE_LOST, text);
}

/* A failing task leaves the list, and its answer may make others leave; none comes back. */
static void on_worker_lost(struct device *device)
{
    struct list doomed, *link;
    list_init(&doomed);
    while ((link = list_first(&device->tasks))) {
        list_remove(link);
        list_push(&doomed, link);
    }
    while ((link = list_first(&doomed))) {
        list_remove(link);
        list_push(&device->tasks, link);
        device_lost(LIST_ENTRY(link, struct task, device_link));
    }
}

const struct device_events task_events = {.granted = on_granted,
                                          .region_lost = on_region_lost,
                                          .put_arrived = on_put_arrived,
                                          .progress = on_progress,
                                          .finished = on_finished,
                                          .worker_lost = on_worker_lost,
                                          .dispatch = task_dispatch};

void task_replied(struct task *task, bool sent, uint64_t bytes_out)
{
    if (sent)
        record_latency(task);
    task->user->counters.bytes_out += bytes_out;
    task->user->users->totals.bytes_out += bytes_out;
    task->reply = NULL;
    task_end(task);
}

void task_snapshot_sent(struct task *task, uint64_t bytes_out)
{
    task->user->counters.bytes_out += bytes_out;
    task->user->users->totals.bytes_out += bytes_out;
    task->snapshot = NULL;
    routine_snapshot_ended(task);
    part_ended(task);
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
    } else if (with_worker(task) && task->routine) {
        routine_snapshot_ended(task); /* it went with the connection */
        part_ended(task);
    }
}

/* Answer a task that is replying with an error. False: its answer has begun to go out, or what it
 * leaves is there already, whatever comes beside it. */
static bool withdraw(struct task *task, enum task_stop why)
{
    const bool stays = task->chain ? chain_leaves(task->chain) : task->out_kind != OUT_INLINE;
    struct failure failure = {0};
    if (!task->reply || stays || !task->jobs->calls->withdraw(task->reply))
        return false;
    step(task, TASK_STOP);
    task->stop = why;
    set_stopped(task, &failure);
    deadline_forget(&task->deadline);
    release_all_but(task, NULL);
    list_remove(&task->device_link);
    set_failed(task, failure.code);
    push_failure(task, &failure);
    return true;
}

const char *task_cancel(const struct client *client, uint64_t msgid)
{
    struct list *link = client->tasks.next;
    while (link != &client->tasks && LIST_ENTRY(link, struct task, client_link)->msgid != msgid)
        link = link->next;
    if (link == &client->tasks)
        return has_answered(client, msgid) ? "already_done" : "not_found";
    struct task *task = LIST_ENTRY(link, struct task, client_link);
    if (task->state != TASK_REPLYING) {
        stop(task, STOP_CANCELLED);
        return "cancelled";
    }
    return withdraw(task, STOP_CANCELLED) ? "cancelled" : "already_done";
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

static void set_deadline(struct task *task, uint64_t timeout_us)
{
    const uint64_t most_us = (UINT64_MAX - task->received_ns) / 1000; /* ages away */
    if (timeout_us && timeout_us <= most_us)
        deadline_set(&task->jobs->deadlines, &task->deadline,
                     task->received_ns + timeout_us * 1000);
}

void task_drain(struct device *device, bool late)
{
    struct list *link = device->tasks.next;
    while (link != &device->tasks) {
        struct task *task = LIST_ENTRY(link, struct task, device_link);
        link = link->next;
        const bool begins = task->state == TASK_QUEUED ||
                            (task->state == TASK_WAITING && task->kind == TASK_OPERATOR);
        if (late && task->state == TASK_RUNNING)
            stop(task, STOP_DRAINED);
        else if (!late && begins)
            fail(task, STATUS_SHUTTING_DOWN, "the server is draining; the job had not begun");
        else
            continue;
        link = device->tasks.next; /* an access that ended may have moved others */
    }
}

bool task_accept(struct client *client, struct request *request, const struct upload *upload,
                 uint64_t message_ns, struct failure *failure)
{
    struct jobs *jobs = client->jobs;
    struct user *user = client->user;
    if (!admission_open(jobs, user, failure)) {
        user_count_refused(user);
        return false;
    }
    if (!memory_take(user, sizeof(struct task), NULL, failure)) {
        user_count_refused(user);
        return false;
    }
    struct task *task = calloc(1, sizeof *task);
    if (!task) {
        memory_release(user, sizeof *task);
        return failure_set(failure, STATUS_OUT_OF_MEMORY, NULL, "the server is out of memory");
    }
    task->jobs = jobs;
    task->client = client;
    task->user = user;
    task->front_bytes = sizeof *task;
    task->device = placement_device(jobs->devices, user);
    task->kind = request->method == METHOD_PUT   ? TASK_PUT
                 : request->method == METHOD_GET ? TASK_GET
                                                 : TASK_OPERATOR;
    task->state = TASK_WAITING;
    task->id = ++jobs->last_task;
    task->msgid = request->msgid;
    task->message_ns = message_ns;
    task->received_ns = uv_hrtime();
    task->progress = request->progress;
    task->detach = request->detach;
    entry_init(&task->entry);
    task->entry.priority = request->priority;
    deadline_init(&task->deadline, out_of_time);
    task->small_waiter =
        (struct slab_waiter){.user = user, .share = SHARE_UPLOAD, .count = 1, .ready = small_ready};
    task_init_lists(task);
    list_push(&client->tasks, &task->client_link);
    list_push(&task->device->tasks, &task->device_link);
    user->jobs++;
    jobs->count++;
    jobs->tasks[TASK_WAITING]++;

    if (!admission_take(task, request, upload, failure)) {
        task->status = failure->code;
        list_remove(&task->client_link); /* its answer is the caller's */
        task->client = NULL;
        task_end(task);
        return false;
    }
    set_deadline(task, request->timeout_us);
    if (!small_upload(task))
        arena_wait(&jobs->devices->arena, &task->small_waiter);
    proceed(task);
    return true;
}
