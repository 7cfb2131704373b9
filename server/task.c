/* Happy path of an operator: accept (arrays reserved, accesses queued) → granted → queued → its
 * user's turn → RUN → FINISHED → reply staged and sent → done. A put waits for its copies, a get
 * for its turn at the field. Failures on the way: no room (nothing was accepted); the worker
 * refused memory or was lost; the client hung up; the server drains. Each ends in fail_with() or
 * task_end(), once. */
#include "server/task.h"

#include "server/admission.h"
#include "server/connection.h"
#include "server/device.h"
#include "server/log.h"
#include "server/outbox.h"
#include "server/server.h"
#include "server/task_trace.h"

#include <stdlib.h>
#include <string.h>

/* A user's jobs on the worker at once: enough to overlap copies and kernels, few enough that the
 * worker's turns stay fair between users. Small jobs take it less time than they take us to send
 * one by one, so more of them go: the worker does those that came together as a group. */
enum { RUNNING_MOST = 4, RUNNING_SMALL_MOST = 64 };
static const double SMALL_WORK = 1 << 20; /* points × passes */

/* Of RUNNING_SMALL_MOST. */
static uint32_t share_of(const struct task *task)
{
    const double work = (double)job_points(&task->job) * (double)job_passes(&task->job);
    return work <= SMALL_WORK ? 1 : RUNNING_SMALL_MOST / RUNNING_MOST;
}

static void leave_queue(struct task *task)
{
    if (task->state == TASK_QUEUED)
        task->server->queued--;
    if (task->state == TASK_RUNNING) {
        task->server->running--;
        task->user->running -= share_of(task);
    }
    list_remove(&task->queue_link);
    if (list_empty(&task->user->queue))
        list_remove(&task->user->ready_link);
}

static void release(struct task *task, struct field *fields[AXIS_COUNT])
{
    for (int i = 0; i < AXIS_COUNT; i++) {
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
    for (int i = 0; i < AXIS_COUNT; i++) {
        free(task->small[i]);
        task->small[i] = NULL;
    }
    if (task->in[0] && task->in[0]->put == task)
        task->in[0]->put = NULL;
    struct field **const all[] = {task->in, task->out, task->scratch};
    for (size_t i = 0; i < 3; i++)
        if (all[i] != kept)
            release(task, all[i]);
}

/* Their memory is the client's again. Last of all, when the answer is out: an unregister that waits
 * is answered after the jobs that it waited for. */
static void end_places(struct task *task)
{
    for (int i = 0; i < AXIS_COUNT; i++) {
        region_use_end(&task->in_place[i]);
        region_use_end(&task->out_place[i]);
    }
}

static void task_end(struct task *task)
{
    struct user *user = task->user;
    struct device *device = task->device;
    task_trace_end(task);
    leave_queue(task);
    list_remove(&task->device_link);
    list_remove(&task->connection_link);
    release_all_but(task, NULL);
    end_places(task);
    task->server->jobs--;
    user->jobs--;
    free(task);
    user_settle(user);
    task_dispatch(device);
}

static void count(struct task *task, bool done, bool cancelled)
{
    struct counters *counters[] = {&task->user->counters, &task->server->totals};
    for (size_t i = 0; i < 2; i++) {
        counters[i]->done += done;
        counters[i]->cancelled += cancelled;
        counters[i]->failed += !done && !cancelled;
    }
}

/* Answer with an error and be done. Not for RUNNING tasks while their worker lives. */
static void fail_with(struct task *task, const struct failure *failure)
{
    leave_queue(task);
    release_all_but(task, NULL);
    list_remove(&task->device_link);
    task->state = TASK_REPLYING;
    task->status = failure->code;
    count(task, false, task->cancelled);
    if (task->connection)
        outbox_push_failure(&task->connection->outbox, task->msgid, task, failure);
    else
        task_end(task);
}

static void fail(struct task *task, enum status status, const char *text)
{
    struct failure failure = {0};
    failure_set(&failure, status, NULL, "%s", text);
    fail_with(task, &failure);
}

static void withdraw(struct field *const fields[AXIS_COUNT])
{
    for (int i = 0; i < AXIS_COUNT; i++)
        if (fields[i] && fields[i]->id)
            field_withdraw(fields[i]);
}

/* All of them get an id, or none. */
static bool publish(struct field *const fields[AXIS_COUNT], struct failure *failure)
{
    for (int i = 0; i < AXIS_COUNT; i++)
        if (fields[i] && !field_publish(fields[i], failure)) {
            withdraw(fields);
            return false;
        }
    return true;
}

/* The result is on the device (or needs none): say so. */
static void succeed(struct task *task)
{
    struct device *device = task->device;
    leave_queue(task);
    task->state = TASK_REPLYING;
    const bool computed = task->kind == TASK_OPERATOR;
    const bool payload = task->kind != TASK_PUT && task->out_kind == OUT_INLINE;
    const bool fresh = task->kind == TASK_PUT || (computed && task->out_kind == OUT_NEW_FIELD);
    struct field **results = computed ? task->out : task->in;
    struct failure failure = {0};
    if (fresh && !publish(results, &failure)) {
        fail_with(task, &failure);
        return;
    }
    if (!task->connection) {
        /* Nobody will ever learn the id. */
        if (fresh)
            withdraw(results);
        list_remove(&task->device_link);
        count(task, false, true);
        task_end(task);
        return;
    }
    count(task, true, false);
    struct result result = {.type = task->type,
                            .components = computed ? (uint32_t)job_outputs(&task->job) : 1,
                            .in_regions = task->out_kind == OUT_REGION,
                            .has_dt = computed && task->job.operator_id == OPERATOR_DIFFUSION,
                            .dt = task->job.dt,
                            .is_vector = computed && job_gives_vector(&task->job)};
    for (uint32_t i = 0; i < result.components; i++) {
        const struct region_use *place = &task->out_place[i];
        result.ids[i] = result.in_regions ? place->region->id : results[i]->id;
        result.offsets[i] = place->offset;
    }
    release_all_but(task, payload ? results : NULL);
    if (payload) {
        outbox_push_arrays(&task->connection->outbox, task, results, &result);
    } else {
        list_remove(&task->device_link);
        if (task->kind == TASK_PUT)
            outbox_push_id(&task->connection->outbox, task, result.ids[0]);
        else
            outbox_push_places(&task->connection->outbox, task, &result);
    }
    task_dispatch(device);
}

static void make_ready(struct task *task)
{
    if (task->kind == TASK_GET && task->out_kind == OUT_INLINE) {
        task_trace_begin(task);
        succeed(task);
        return;
    }
    task->state = TASK_QUEUED;
    task->server->queued++;
    list_push(&task->user->queue, &task->queue_link);
    if (list_empty(&task->user->ready_link))
        list_push(&task->device->ready_users, &task->user->ready_link);
    task_dispatch(task->device);
}

static void small_copied(struct slab *slab, void *context, bool ok)
{
    (void)ok; /* a lost worker fails the task itself */
    arena_release(context, slab);
}

/* Send small inputs on their way; false: no slab for the next one yet. */
static bool small_upload(struct task *task)
{
    struct arena *arena = &task->server->arena;
    struct slab *slab;
    for (int i = 0; i < AXIS_COUNT; i++) {
        if (!task->small[i])
            continue;
        if (!arena_take(arena, task->user, SHARE_UPLOAD, 1, &slab))
            return false;
        const uint64_t bytes = task->in[i]->type.bytes;
        memcpy(arena_memory(arena, slab), task->small[i], bytes);
        free(task->small[i]);
        task->small[i] = NULL;
        device_upload(task->in[i], 0, slab, bytes, small_copied, arena);
    }
    return true;
}

/* Is everything that it waits for there? */
static bool has_all(const struct task *task)
{
    for (int i = 0; i < AXIS_COUNT; i++)
        if (task->small[i])
            return false;
    return !task->ungranted;
}

static void proceed(struct task *task)
{
    if (task->state != TASK_WAITING || !has_all(task))
        return;
    if (task->kind == TASK_PUT && !task->in_place[0].region) {
        task->in[0]->put = task;
        if (!task->in[0]->copies)
            task_put_arrived(task);
        return;
    }
    for (int i = 0; i < AXIS_COUNT; i++)
        if (task->in[i] && task->in[i]->torn) {
            fail(task, STATUS_FIELD_LOST, "a job that wrote the field was stopped half-way");
            return;
        }
    make_ready(task);
}

static void small_ready(struct slab_waiter *waiter)
{
    struct task *task = LIST_ENTRY(waiter, struct task, small_waiter);
    for (int i = 0; i < AXIS_COUNT; i++)
        if (task->in[i] && task->in[i]->lost)
            return; /* task_device_lost() follows */
    if (!small_upload(task))
        arena_wait(&task->server->arena, waiter);
    else
        proceed(task);
}

/* A task that fails here lets the next one go: one after another, not one inside the other. */
void task_granted(struct task *task)
{
    struct server *server = task->server;
    if (--task->ungranted)
        return;
    list_push(&server->granted, &task->granted_link);
    if (server->granting)
        return;
    server->granting = true;
    for (struct list *link; (link = list_first(&server->granted));) {
        list_remove(link);
        proceed(LIST_ENTRY(link, struct task, granted_link));
    }
    server->granting = false;
}

void task_region_lost(struct task *task, enum status status)
{
    if (task->state == TASK_WAITING)
        fail(task, status, "a region of this job could not be mapped");
}

void task_put_arrived(struct task *task)
{
    task->in[0]->put = NULL;
    task_trace_begin(task);
    task_trace_finished(task, 0);
    if (task->in[0]->refused)
        fail(task, STATUS_OUT_OF_MEMORY, "the device could not allocate the field");
    else
        succeed(task);
}

void task_dispatch(struct device *device)
{
    if (device->state == DEVICE_CLOSED || device->losing)
        return;
    /* So many of each user, whose turns the worker shares out; the rest keep their place. */
    struct list *link = device->ready_users.next;
    while (link != &device->ready_users) {
        struct user *user = LIST_ENTRY(link, struct user, ready_link);
        link = link->next;
        while (user->running < RUNNING_SMALL_MOST && !list_empty(&user->queue)) {
            struct task *task = LIST_ENTRY(list_first(&user->queue), struct task, queue_link);
            leave_queue(task);
            task->state = TASK_RUNNING;
            user->running += share_of(task);
            task->server->running++;
            task_trace_begin(task);
            device_run(device, task);
        }
    }
}

void task_progress(struct task *task, uint64_t done, uint64_t total)
{
    const uint64_t imposed = job_passes(&task->job) - task->job.steps;
    done = done > imposed ? done - imposed : 0;
    if (task->connection && !task->cancelled)
        outbox_push_progress(&task->connection->outbox, task->msgid, done, total - imposed);
}

void task_finished(struct task *task, enum status status, bool begun, uint64_t device_us)
{
    task_trace_finished(task, device_us);
    if (task->out_kind == OUT_FIELD && (begun || status == STATUS_OK))
        for (int i = 0; i < AXIS_COUNT; i++)
            if (task->out[i])
                task->out[i]->torn = status != STATUS_OK;
    if (task->cancelled && task->connection)
        fail(task, STATUS_TIMEOUT, "not done when the time to drain was over");
    else if (task->cancelled)
        fail(task, STATUS_CANCELLED, "cancelled");
    else if (task->kind == TASK_PUT && task->in[0]->refused)
        fail(task, STATUS_OUT_OF_MEMORY, "the device could not allocate the field");
    else if (status == STATUS_OK)
        succeed(task);
    else
        fail(task, status, status_text(status));
}

void task_device_lost(struct task *task)
{
    if (task->state == TASK_REPLYING) {
        list_remove(&task->device_link);
        if (task->reply)
            outbox_lost(task->reply);
        return;
    }
    char text[96];
    snprintf(text, sizeof text, "the worker of %s ended while it held this job",
             task->device->name);
    fail(task, STATUS_DEVICE_LOST, text);
}

void task_replied(struct task *task, bool sent, uint64_t bytes_out)
{
    if (sent) {
        const uint64_t us = (uv_hrtime() - task->received_ns) / 1000;
        latency_record(&task->user->counters.latency, us);
        latency_record(&task->server->totals.latency, us);
    }
    task->user->counters.bytes_out += bytes_out;
    task->server->totals.bytes_out += bytes_out;
    task->reply = NULL;
    task_end(task);
}

void task_hang_up(struct task *task)
{
    task->connection = NULL;
    list_remove(&task->connection_link);
    task->cancelled = true;
    if (task->state == TASK_RUNNING)
        device_cancel(task->device, task);
    else if (task->state == TASK_REPLYING)
        task_end(task);
    else
        fail(task, STATUS_CANCELLED, "cancelled");
}

void task_drain(struct device *device, bool late)
{
    struct list *link = device->tasks.next;
    while (link != &device->tasks) {
        struct task *task = LIST_ENTRY(link, struct task, device_link);
        link = link->next;
        if (late && task->state == TASK_RUNNING && !task->cancelled) {
            task->cancelled = true;
            device_cancel(device, task);
        } else if (!late && (task->state == TASK_QUEUED ||
                             (task->state == TASK_WAITING && task->kind == TASK_OPERATOR))) {
            fail(task, STATUS_SHUTTING_DOWN, "the server is draining; the job had not begun");
            link = device->tasks.next; /* an access that ended may have moved others */
        }
    }
}

bool task_accept(struct connection *connection, const struct request *request,
                 struct field *const uploads[AXIS_COUNT], struct failure *failure)
{
    struct server *server = connection->server;
    struct user *user = connection->user;
    if (!admission_open(server, user, failure))
        return false;
    struct task *task = calloc(1, sizeof *task);
    if (!task)
        return failure_set(failure, STATUS_INTERNAL, NULL, "the server is out of memory");
    task->server = server;
    task->connection = connection;
    task->user = user;
    task->device = user_device(server, user);
    task->kind = request->method == METHOD_PUT   ? TASK_PUT
                 : request->method == METHOD_GET ? TASK_GET
                                                 : TASK_OPERATOR;
    task->state = TASK_WAITING;
    task->id = ++server->last_task;
    task->msgid = request->msgid;
    task->message_ns = connection->message_ns;
    task->received_ns = uv_hrtime();
    task->progress = request->progress;
    task->small_waiter =
        (struct slab_waiter){.user = user, .share = SHARE_UPLOAD, .count = 1, .ready = small_ready};
    list_init(&task->small_waiter.link);
    list_init(&task->queue_link);
    list_init(&task->granted_link);
    for (size_t a = 0; a < TASK_ACCESSES; a++)
        list_init(&task->access[a].link);
    for (int i = 0; i < AXIS_COUNT; i++) {
        list_init(&task->in_place[i].link);
        list_init(&task->out_place[i].link);
    }
    list_push(&connection->tasks, &task->connection_link);
    list_push(&task->device->tasks, &task->device_link);
    user->jobs++;
    server->jobs++;

    if (!admission_take(task, request, uploads, failure)) {
        task->status = failure->code;
        count(task, false, false);
        task_end(task);
        return false;
    }
    if (!small_upload(task))
        arena_wait(&server->arena, &task->small_waiter);
    proceed(task);
    return true;
}
