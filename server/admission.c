#include "server/admission.h"

#include "protocol/request_job.h"
#include "server/device.h"
#include "server/server.h"

#include <stdlib.h>
#include <string.h>

bool admission_open(const struct server *server, const struct user *user, struct failure *failure)
{
    if (server->draining)
        return failure_set(failure, STATUS_SHUTTING_DOWN, NULL, "the server is draining");
    const struct config *config = &server->config;
    if (user->jobs >= config->user_queue_jobs)
        return failure_set_limit(failure, STATUS_QUEUE_FULL, NULL, (double)user->jobs + 1,
                                 (double)config->user_queue_jobs,
                                 "you have %llu jobs unanswered already",
                                 (unsigned long long)user->jobs);
    if (server->jobs >= config->max_queue_jobs)
        return failure_set_limit(failure, STATUS_QUEUE_FULL, NULL, (double)server->jobs + 1,
                                 (double)config->max_queue_jobs,
                                 "all users together have %llu jobs unanswered already",
                                 (unsigned long long)server->jobs);
    return true;
}

/* Bytes of the arrays that the task has come to, each once; `own`: but for resident fields. */
static uint64_t held_bytes(const struct task *task, bool own)
{
    const struct field *seen[3 * AXIS_COUNT + OPERANDS];
    size_t count = 0;
    uint64_t bytes = 0;
    struct field *const *const all[] = {task->in, task->out, task->scratch};
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        const struct field *field = i < 3 * AXIS_COUNT ? all[i / AXIS_COUNT][i % AXIS_COUNT]
                                                       : task->operand[i - 3 * AXIS_COUNT];
        bool again = !field || (own && field->resident);
        for (size_t k = 0; k < count && !again; k++)
            again = seen[k] == field;
        if (again)
            continue;
        seen[count++] = field;
        bytes += field->type.bytes;
    }
    return bytes;
}

/* A new array of the task. Where there is no room for it, and would be none if the task were alone,
 * TOO_LARGE: no waiting helps. */
static struct field *new_array(const struct task *task, const struct array_type *type,
                               struct failure *failure)
{
    struct field *field = field_new(task->server, task->user, type, failure);
    const bool is_full = failure->code == STATUS_OVER_BUDGET || failure->code == STATUS_QUEUE_FULL;
    if (field || !is_full)
        return field;
    const double held = (double)held_bytes(task, failure->code == STATUS_QUEUE_FULL);
    const double need = held + (double)type->bytes, limit = failure->limit;
    if (need > limit) {
        *failure = (struct failure){0};
        failure_set_limit(failure, STATUS_TOO_LARGE, NULL, need, limit,
                          "the job needs arrays of %.0f bytes at once; at most %.0f are there for "
                          "it",
                          need, limit);
    }
    return NULL;
}

static bool take_resident(struct task *task, int component, uint64_t id, const char *parameter,
                          struct failure *failure)
{
    struct field *field = field_find(task->server, task->user, id, parameter, failure);
    if (field)
        task->in[component] = field_reference(field);
    return field != NULL;
}

/* An input that lies in a region. Its array on the device is the job's own, as an inline one's is,
 * but for a device that needs none. */
static bool take_place(struct task *task, int component, const struct array *array,
                       const char *parameter, struct failure *failure)
{
    if (!region_use(&task->in_place[component], task, array, array->type.bytes, false, parameter,
                    failure))
        return false;
    if (task->device->info.direct && task->kind == TASK_OPERATOR)
        return true;
    task->in_is_own[component] = true;
    task->in[component] = new_array(task, &array->type, failure);
    return task->in[component] != NULL;
}

/* An input: an uploaded array, a resident field, a place in a region, or a few bytes of the control
 * message. */
static bool take_input(struct task *task, int component, const struct array *array,
                       const char *parameter, struct field *upload, struct failure *failure)
{
    if (array->kind == ARRAY_FIELD)
        return take_resident(task, component, array->field, parameter, failure);
    if (array->kind == ARRAY_REGION)
        return take_place(task, component, array, parameter, failure);
    task->in_is_own[component] = true;
    if (array->payload_count) {
        task->in[component] = upload ? field_reference(upload) : NULL;
        return upload ||
               failure_set(failure, STATUS_PROTOCOL, parameter, "its data did not arrive");
    }
    task->small[component] = malloc(array->type.bytes);
    if (!task->small[component])
        return failure_set(failure, STATUS_INTERNAL, NULL, "the server is out of memory");
    memcpy(task->small[component], array->small, array->type.bytes);
    task->in[component] = new_array(task, &array->type, failure);
    return task->in[component] != NULL;
}

/* All inputs; task->type becomes what they have in common. */
static bool take_inputs(struct task *task, const struct request *request,
                        struct field *const uploads[AXIS_COUNT], struct failure *failure)
{
    const struct arrays *f = &request->f;
    if (task->kind == TASK_GET) {
        if (!take_resident(task, 0, request->field, "field", failure))
            return false;
        task->type = task->in[0]->type;
        return true;
    }
    if (task->kind == TASK_PUT && f->at[0].kind == ARRAY_FIELD)
        return failure_set(failure, STATUS_UNSUPPORTED, "f", "field %llu is resident already",
                           (unsigned long long)f->at[0].field);
    for (int i = 0; i < AXIS_COUNT; i++) {
        const struct failure_place place = arrays_place(f, "f", i);
        if (f->at[i].kind == ARRAY_NONE)
            continue;
        if (!take_input(task, i, &f->at[i], place.text, uploads[i], failure))
            return false;
        const struct array_type *type = task->in[i] ? &task->in[i]->type : &f->at[i].type;
        if (!task->type.dimensions)
            task->type = *type;
        if (!array_is_alike(&task->type, type))
            return failure_set(failure, STATUS_INVALID_ARGUMENT, place.text,
                               "its shape or type is not that of the component before it");
    }
    return true;
}

/* Is it among the inputs? */
static bool is_input(const struct task *task, const struct field *field)
{
    for (int i = 0; i < AXIS_COUNT; i++)
        if (task->in[i] == field)
            return true;
    return false;
}

/* Does the output overlap an input, or an output before it? */
static bool overlaps(const struct task *task, int component)
{
    const struct region_use *out = &task->out_place[component];
    for (int i = 0; i < AXIS_COUNT; i++)
        if (region_overlap(out, &task->in_place[i], task->type.bytes) ||
            (i < component && region_overlap(out, &task->out_place[i], task->type.bytes)))
            return true;
    return false;
}

static bool take_out_place(struct task *task, int component, const struct arrays *given,
                           struct failure *failure)
{
    const struct failure_place place = arrays_place(given, "out", component);
    const struct array *array = &given->at[component];
    if (array->type.dimensions && !array_is_alike(&task->type, &array->type))
        return failure_set(failure, STATUS_INVALID_ARGUMENT, place.text,
                           "its shape or type is not that of the result (both may be left out)");
    if (!region_use(&task->out_place[component], task, array, task->type.bytes, true, place.text,
                    failure))
        return false;
    return !overlaps(task, component) ||
           failure_set(failure, STATUS_INVALID_ARGUMENT, place.text,
                       "its bytes overlap those of an input or of another output");
}

static bool take_output(struct task *task, int component, const struct arrays *given,
                        struct failure *failure)
{
    struct server *server = task->server;
    const struct array_type *type = &task->type;
    struct field **out = &task->out[component];
    if (task->out_kind == OUT_FIELD) {
        const struct failure_place place = arrays_place(given, "out", component);
        const uint64_t id = given->at[component].field;
        struct field *field = field_find(server, task->user, id, place.text, failure);
        if (!field)
            return false;
        if (!array_is_alike(type, &field->type))
            return failure_set(failure, STATUS_INVALID_ARGUMENT, place.text,
                               "field %llu has another shape or type than the result",
                               (unsigned long long)id);
        for (int i = 0; i < component; i++)
            if (task->out[i] == field)
                return failure_set(failure, STATUS_INVALID_ARGUMENT, place.text,
                                   "field %llu is given for two components",
                                   (unsigned long long)id);
        *out = field_reference(field);
    } else if (task->out_kind == OUT_REGION && !take_out_place(task, component, given, failure)) {
        return false;
    } else if (task->out_kind == OUT_REGION && task->device->info.direct) {
        *out = NULL; /* computed where it is to lie */
    } else if (!(*out = new_array(task, type, failure))) {
        return false;
    }
    /* The result may come to lie in the scratch array: a place in a region needs one beside it. */
    const bool in_serves = *out && task->in_is_own[component];
    const int scratch = job_scratch(&task->job, *out && is_input(task, *out), in_serves);
    for (int i = component; i < component + scratch; i++)
        if (!(task->scratch[i] = new_array(task, type, failure)))
            return false;
    return true;
}

/* The job of an operator and its outputs. */
static bool take_job(struct task *task, const struct request *request, struct failure *failure)
{
    if (!request_job(request, &task->type, (double)task->server->config.max_work, &task->job,
                     &task->block, failure))
        return false;
    for (int i = 0; i < job_outputs(&task->job); i++)
        if (!take_output(task, i, &request->out_place, failure))
            return false;
    return true;
}

static bool any_lost(const struct task *task)
{
    for (int i = 0; i < AXIS_COUNT; i++)
        if (task->in[i] && task->in[i]->lost)
            return true;
    for (int i = 0; i < OPERANDS; i++)
        if (task->operand[i] && task->operand[i]->lost)
            return true;
    return false;
}

/* Queue for a resident field, once whatever it is used for. */
static void ask_access(struct task *task, struct field *field, bool writes)
{
    for (size_t a = 0; a < TASK_ACCESSES; a++) {
        if (task->access[a].field == field)
            return;
        if (!task->access[a].field) {
            task->ungranted += !field_access(field, &task->access[a], task, writes);
            return;
        }
    }
}

/* All at once, so that the order of requests is total (field.h); a field that is also written is
 * asked for as such. */
static void ask_accesses(struct task *task)
{
    for (int i = 0; i < AXIS_COUNT; i++)
        if (task->out[i] && task->out_kind == OUT_FIELD)
            ask_access(task, task->out[i], true);
    for (int i = 0; i < AXIS_COUNT; i++)
        if (task->in[i] && !task->in_is_own[i])
            ask_access(task, task->in[i], false);
}

bool admission_take(struct task *task, const struct request *request,
                    struct field *const uploads[AXIS_COUNT], struct failure *failure)
{
    task->out_kind = request->out;
    if (!take_inputs(task, request, uploads, failure))
        return false;
    if (any_lost(task))
        return failure_set(failure, STATUS_DEVICE_LOST, NULL,
                           "the worker of %s ended while the array arrived", task->device->name);
    if (task->kind == TASK_OPERATOR && !take_job(task, request, failure))
        return false;
    if (task->kind == TASK_GET && task->out_kind == OUT_REGION &&
        !take_out_place(task, 0, &request->out_place, failure))
        return false;
    ask_accesses(task);
    return true;
}
