/* Happy path of an operator: accept (arrays reserved, accesses queued) → granted → queued → its
 * user's turn → RUN → FINISHED → reply staged and sent → done. A put waits for its copies, a get
 * for its turn at the field. Failures on the way: no room (nothing was accepted); the worker
 * refused memory or was lost; the client hung up; the server drains. Each ends in task_fail() or
 * task_end(), once. */
#include "server/task.h"

#include "protocol/reply.h"
#include "server/connection.h"
#include "server/device.h"
#include "server/log.h"
#include "server/outbox.h"
#include "server/server.h"

#include <stdlib.h>
#include <string.h>

/* A user's jobs on the worker at once: enough to overlap copies and kernels, few enough that the
 * worker's turns stay fair between users. */
enum { RUNNING_MOST = 4 };

static void leave_queue(struct task *task)
{
    if (task->state == TASK_QUEUED)
        task->server->queued--;
    if (task->state == TASK_RUNNING) {
        task->server->running--;
        task->user->running--;
    }
    list_remove(&task->queue_link);
    if (list_empty(&task->user->queue))
        list_remove(&task->user->ready_link);
}

/* Give back what the task holds, but for the array that its reply sends. */
static void release_all_but(struct task *task, const struct field *kept)
{
    arena_forget(&task->small_waiter);
    free(task->small);
    task->small = NULL;
    if (task->in && task->in->put == task)
        task->in->put = NULL;
    struct field **fields[] = {&task->in, &task->out, &task->scratch};
    for (size_t i = 0; i < 3; i++) {
        struct field *field = *fields[i];
        if (!field || field == kept)
            continue;
        for (size_t a = 0; a < 2; a++)
            if (task->access[a].field == field)
                field_access_end(&task->access[a]);
        *fields[i] = NULL;
        field_release(field);
    }
}

static void task_end(struct task *task)
{
    struct user *user = task->user;
    struct device *device = task->device;
    leave_queue(task);
    list_remove(&task->device_link);
    list_remove(&task->connection_link);
    release_all_but(task, NULL);
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

void task_fail(struct task *task, const struct failure *failure)
{
    leave_queue(task);
    release_all_but(task, NULL);
    list_remove(&task->device_link);
    task->state = TASK_REPLYING;
    count(task, false, task->cancelled);
    if (task->connection)
        outbox_push_failure(task->connection, task->msgid, task, failure);
    else
        task_end(task);
}

static void fail(struct task *task, enum status status, const char *text)
{
    struct failure failure = {0};
    failure_set(&failure, status, NULL, "%s", text);
    task_fail(task, &failure);
}

/* The result is on the device (or needs none): say so. */
static void succeed(struct task *task)
{
    struct device *device = task->device;
    leave_queue(task);
    task->state = TASK_REPLYING;
    struct field *result = task->kind == TASK_GET ? task->in : task->out;
    const bool payload =
        task->kind == TASK_GET || (task->kind == TASK_OPERATOR && task->out_kind == OUT_INLINE);
    struct failure failure = {0};
    bool fresh = false;
    if (task->kind == TASK_PUT ||
        (task->kind == TASK_OPERATOR && task->out_kind == OUT_NEW_FIELD)) {
        result = task->kind == TASK_PUT ? task->in : task->out;
        fresh = true;
        if (!field_publish(result, &failure)) {
            task_fail(task, &failure);
            return;
        }
    }
    if (!task->connection) {
        /* Nobody will ever learn the id. */
        if (fresh)
            field_withdraw(result);
        list_remove(&task->device_link);
        count(task, false, true);
        task_end(task);
        return;
    }
    count(task, true, false);
    struct array_type type = result->type;
    const uint64_t id = result->id;
    const bool diffusion =
        task->kind == TASK_OPERATOR && task->job.operator_id == OPERATOR_DIFFUSION;
    if (payload) {
        release_all_but(task, result);
        outbox_push_array(task->connection, task, result, &type, diffusion ? &task->job.dt : NULL);
    } else {
        release_all_but(task, NULL);
        list_remove(&task->device_link);
        outbox_push_field(task->connection, task, id, task->kind == TASK_PUT ? NULL : &type,
                          diffusion ? &task->job.dt : NULL);
    }
    task_dispatch(device);
}

static void make_ready(struct task *task)
{
    if (task->kind == TASK_GET) {
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

/* Send the small input on its way; false: no slab yet. */
static bool small_upload(struct task *task)
{
    struct arena *arena = &task->server->arena;
    struct slab *slab;
    if (!arena_take(arena, task->user, SHARE_UPLOAD, 1, &slab))
        return false;
    memcpy(arena_memory(arena, slab), task->small, task->in->type.bytes);
    free(task->small);
    task->small = NULL;
    device_upload(task->in, 0, slab, task->in->type.bytes, small_copied, arena);
    return true;
}

static void proceed(struct task *task)
{
    if (task->state != TASK_WAITING || task->ungranted || task->small)
        return;
    if (task->kind != TASK_PUT) {
        if (!task->input_is_own && task->in->torn)
            fail(task, STATUS_FIELD_LOST, "a job that wrote the field was stopped half-way");
        else
            make_ready(task);
        return;
    }
    task->in->put = task;
    if (!task->in->copies)
        task_put_arrived(task);
}

static void small_ready(struct slab_waiter *waiter)
{
    struct task *task = LIST_ENTRY(waiter, struct task, small_waiter);
    if (task->in->lost)
        return; /* task_device_lost() follows */
    if (!small_upload(task))
        arena_wait(&task->server->arena, waiter);
    else
        proceed(task);
}

void task_granted(struct task *task)
{
    task->ungranted--;
    proceed(task);
}

void task_put_arrived(struct task *task)
{
    task->in->put = NULL;
    if (task->in->refused)
        fail(task, STATUS_OUT_OF_MEMORY, "the device could not allocate the field");
    else
        succeed(task);
}

void task_dispatch(struct device *device)
{
    if (device->state == DEVICE_CLOSED || device->losing)
        return;
    /* One task a turn for each user; those who run enough already keep their place and wait. */
    struct list *link = device->ready_users.next;
    while (link != &device->ready_users) {
        struct user *user = LIST_ENTRY(link, struct user, ready_link);
        link = link->next;
        while (user->running < RUNNING_MOST && !list_empty(&user->queue)) {
            struct task *task = LIST_ENTRY(list_first(&user->queue), struct task, queue_link);
            leave_queue(task);
            task->state = TASK_RUNNING;
            user->running++;
            task->server->running++;
            device_run(device, task);
        }
    }
}

void task_progress(struct task *task, uint64_t done, uint64_t total)
{
    const uint64_t imposed = job_passes(&task->job) - task->job.steps;
    done = done > imposed ? done - imposed : 0;
    if (task->connection && !task->cancelled)
        outbox_push_progress(task->connection, task->msgid, done, total - imposed);
}

void task_finished(struct task *task, enum status status, bool begun)
{
    if (task->out_kind == OUT_FIELD && (begun || status == STATUS_OK))
        task->out->torn = status != STATUS_OK;
    if (task->cancelled && task->connection)
        fail(task, STATUS_TIMEOUT, "not done when the time to drain was over");
    else if (task->cancelled)
        fail(task, STATUS_CANCELLED, "cancelled");
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

/* The input: an uploaded array, a resident field, or a few bytes of the control message. */
static bool take_input(struct task *task, const struct request *request, struct field *upload,
                       struct failure *failure)
{
    struct server *server = task->server;
    if (request->method == METHOD_PUT && request->f.kind == ARRAY_FIELD)
        return failure_set(failure, STATUS_UNSUPPORTED, "f", "field %llu is resident already",
                           (unsigned long long)request->f.field);
    if (request->method == METHOD_GET || request->f.kind == ARRAY_FIELD) {
        const bool get = request->method == METHOD_GET;
        struct field *field =
            field_find(server, task->user, get ? request->field : request->f.field,
                       get ? "field" : "f", failure);
        if (field)
            task->in = field_reference(field);
        return field != NULL;
    }
    task->input_is_own = true;
    if (request->f.payload_count) {
        task->in = upload ? field_reference(upload) : NULL;
        return upload || failure_set(failure, STATUS_PROTOCOL, "f", "its data did not arrive");
    }
    task->small = malloc(request->f.type.bytes);
    if (!task->small)
        return failure_set(failure, STATUS_INTERNAL, NULL, "the server is out of memory");
    memcpy(task->small, request->f.small, request->f.type.bytes);
    task->in = field_new(server, task->user, &request->f.type, failure);
    return task->in != NULL;
}

static bool same_shape(const struct array_type *a, const struct array_type *b)
{
    return a->dtype == b->dtype && a->dimensions == b->dimensions &&
           memcmp(a->shape, b->shape, a->dimensions * sizeof a->shape[0]) == 0;
}

static bool take_output(struct task *task, const struct request *request, struct failure *failure)
{
    struct server *server = task->server;
    const struct array_type *type = &task->in->type;
    task->out_kind = request->out;
    if (request->out == OUT_FIELD) {
        struct field *field = field_find(server, task->user, request->out_field, "out", failure);
        if (!field)
            return false;
        if (!same_shape(type, &field->type))
            return failure_set(failure, STATUS_INVALID_ARGUMENT, "out",
                               "field %llu has another shape or type than the result",
                               (unsigned long long)request->out_field);
        task->out = field_reference(field);
    } else {
        task->out = field_new(server, task->user, type, failure);
        if (!task->out)
            return false;
    }
    if (job_needs_scratch(&task->job, task->in == task->out, task->input_is_own)) {
        task->scratch = field_new(server, task->user, type, failure);
        return task->scratch != NULL;
    }
    return true;
}

bool task_accept(struct connection *connection, const struct request *request, struct field *upload,
                 struct failure *failure)
{
    struct server *server = connection->server;
    struct user *user = connection->user;
    struct task *task = NULL;
    if (server->draining)
        failure_set(failure, STATUS_SHUTTING_DOWN, NULL, "the server is draining");
    else if (user->jobs >= server->config.max_jobs)
        failure_set_limit(failure, STATUS_QUEUE_FULL, NULL, (double)user->jobs + 1,
                          (double)server->config.max_jobs, "you have %llu jobs unanswered already",
                          (unsigned long long)user->jobs);
    else if (!(task = calloc(1, sizeof *task)))
        failure_set(failure, STATUS_INTERNAL, NULL, "the server is out of memory");
    if (!task) {
        field_release(upload);
        return false;
    }
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
    task->received_ns = uv_hrtime();
    task->progress = request->progress;
    task->small_waiter =
        (struct slab_waiter){.user = user, .share = SHARE_UPLOAD, .count = 1, .ready = small_ready};
    list_init(&task->small_waiter.link);
    list_init(&task->queue_link);
    list_init(&task->access[0].link);
    list_init(&task->access[1].link);
    list_push(&connection->tasks, &task->connection_link);
    list_push(&task->device->tasks, &task->device_link);
    user->jobs++;
    server->jobs++;

    bool ok = take_input(task, request, upload, failure);
    field_release(upload);
    if (ok && task->in->lost)
        ok = failure_set(failure, STATUS_DEVICE_LOST, NULL,
                         "the worker of %s ended while the array arrived", task->device->name);
    if (ok && task->kind == TASK_OPERATOR)
        ok = request_finish_job(request, &task->in->type, (double)server->config.max_work,
                                &task->job, failure) &&
             take_output(task, request, failure);
    if (!ok) {
        count(task, false, false);
        task_end(task);
        return false;
    }
    /* Both accesses at once, so that the order of requests is total (field.h). */
    if (!task->input_is_own && task->in != task->out)
        task->ungranted += !field_access(task->in, &task->access[0], task, false);
    if (task->out_kind == OUT_FIELD && task->kind == TASK_OPERATOR)
        task->ungranted += !field_access(task->out, &task->access[1], task, true);
    if (task->small && !small_upload(task))
        arena_wait(&server->arena, &task->small_waiter);
    proceed(task);
    return true;
}
