#include "server/jobs/admission.h"

#include "protocol/request_job.h"
#include "server/devices/group.h"
#include "server/users/memory.h"
#include "server/jobs/relay.h"
#include "server/jobs/requirements.h"
#include "server/jobs/upload.h"

#include <stdlib.h>
#include <string.h>

bool admission_open(const struct jobs *jobs, const struct user *user, struct failure *failure)
{
    if (jobs->draining)
        return failure_set(failure, STATUS_SHUTTING_DOWN, NULL, "the server is draining");
    const struct config *config = user->users->config;
    const uint64_t own = user->counters.jobs, all = user->users->counters.jobs;
    if (own >= config->user_queue_jobs)
        return failure_set_limit(failure, STATUS_QUEUE_FULL, NULL, own + 1, config->user_queue_jobs,
                                 "you have %llu jobs unanswered already", (unsigned long long)own);
    if (all >= config->max_queue_jobs)
        return failure_set_limit(failure, STATUS_QUEUE_FULL, NULL, all + 1, config->max_queue_jobs,
                                 "all users together have %llu jobs unanswered already",
                                 (unsigned long long)all);
    return true;
}

/* Bytes of the arrays that the task has come to, each once, and of those that are copied to them;
 * `own`: but for resident fields, and with its blocks. */
static uint64_t held_bytes(const struct task *task, bool own)
{
    const struct field *held[CHAIN_LINKS * OP_ARRAYS];
    size_t count = 0;
    uint64_t bytes = own ? task->block_bytes : 0;
    for (int i = 0; task->script && i < SCRIPT_ARRAYS; i++)
        bytes += task->script->array[i] ? task->script->array[i]->type.bytes : 0;
    LIST_EACH (const struct relay, relay, &task->relays, link)
        bytes += own && relay->from->resident ? 0 : relay->from->type.bytes;
    for (uint32_t k = 0; k < task->count; k++)
        for (int i = 0; i < OP_ARRAYS; i++) {
            const struct field *field = task->op[k].array[i];
            size_t at = 0;
            while (at < count && held[at] != field)
                at++;
            if (!field || (own && field->resident) || at < count)
                continue;
            held[count++] = field;
            bytes += field->type.bytes;
        }
    return bytes;
}

/* There was no room for so much: would there be, if the task were alone? Of a group the limit is
 * one of its members', which hold parts of each array. */
static void explain(const struct task *task, uint64_t bytes, bool in_queue, struct failure *failure)
{
    const struct group *group = in_queue ? NULL : task->device->group;
    const double whole = (double)held_bytes(task, in_queue) + (double)bytes;
    const double need = whole / (group ? group->count : 1), limit = failure->limit;
    if (need <= limit)
        return;
    *failure = (struct failure){0};
    failure_set_limit(failure, STATUS_TOO_LARGE, NULL, need, limit,
                      "the job needs %.0f bytes at once; at most %.0f are there for it", need,
                      limit);
}

struct field *admission_new_array(const struct task *task, const struct array_type *type,
                                  struct failure *failure)
{
    struct field *field = field_new(task->device, task->user, type, failure);
    if (!field && (failure->code == STATUS_OVER_BUDGET || failure->code == STATUS_QUEUE_FULL))
        explain(task, type->bytes, failure->code == STATUS_QUEUE_FULL, failure);
    return field;
}

/* The memory that an export takes, unless the field is exported by now. */
static bool take_exportable(struct op *op, struct failure *failure)
{
    if (!field_is_exported(op->in[0]))
        op->scratch[0] = field_new_exportable(op->in[0], failure);
    return op->scratch[0] || !failure->code;
}

/* The numbers of a list as elements of a type. */
static void write_list(const struct array *list, enum dtype dtype, void *to)
{
    double *reals = to;
    numbers_reals(list, reals);
    float *narrow = to; /* written no further than it was read */
    for (uint64_t i = 0; dtype == DTYPE_F32 && i < numbers_count(list); i++) {
        const float rounded = (float)reals[i];
        memcpy(&narrow[i], &rounded, sizeof rounded);
    }
}

/* A few bytes of the control message, kept until there is a slab; room for float64 of each. */
static bool take_small(struct task *task, uint8_t **small, const struct array *array,
                       enum dtype dtype, struct failure *failure)
{
    const uint64_t bytes = array->kind == ARRAY_LIST ? 8 * numbers_count(array) : array->type.bytes;
    if (!(*small = memory_new(task->user, bytes, NULL, failure)))
        return false;
    task->front_bytes += bytes;
    if (array->kind == ARRAY_LIST)
        write_list(array, dtype, *small);
    else
        memcpy(*small, array->small, array->type.bytes);
    return true;
}

/* An array that an operator reads, as it was given. */
struct taking {
    const struct array *array;
    const struct array_type *type;
    const char *parameter;
    bool in_place; /* one in a region needs no array */
};

/* An uploaded one, a resident field, a place in a region, or a few bytes of the control message. */
static bool take_array(struct op *op, int i, const struct taking *taking,
                       const struct upload *upload, struct failure *failure)
{
    const struct array *array = taking->array;
    struct region_use *place = &op->place[i];
    struct field *found = NULL;
    if (array->kind == ARRAY_FIELD)
        found = field_find(op->task->user, array->field, taking->parameter, failure);
    else if (array->kind == ARRAY_INLINE && array->payload_count) {
        const struct arrival *arrival =
            upload_find(upload, array, false, taking->parameter, failure);
        found = arrival ? arrival->field : NULL;
    }
    const struct array_type *type = found && i < AXIS_COUNT ? &found->type : taking->type;
    /* On a group, an array over a face may be cut otherwise than f is. */
    if (found && (found->device != op->task->device ||
                  (found->parts && found->type.shape[0] != type->shape[0]))) {
        op->read[i] = relay_add(op->task, found, type, failure);
        return op->read[i] != NULL;
    }
    if (found)
        op->read[i] = field_reference(found);
    if (found || failure->code)
        return found != NULL;
    if (array->kind == ARRAY_REGION) {
        if (!region_use(place, op->task->user, op->task->device, op->task, array,
                        taking->type->bytes, false, taking->parameter, failure))
            return false;
        op->task->ungranted += place->waits;
        if (taking->in_place)
            return true;
    } else if (!take_small(op->task, &op->small[i], array, taking->type->dtype, failure)) {
        return false;
    }
    op->read[i] = admission_new_array(op->task, taking->type, failure);
    return op->read[i] != NULL;
}

/* An input. Its array on the device is the job's own, but for a resident one, and for one in a
 * region where the device computes there itself. */
static bool take_input(struct op *op, int component, const struct array *array,
                       const char *parameter, const struct upload *upload, struct failure *failure)
{
    const struct taking taking = {.array = array,
                                  .type = &array->type,
                                  .parameter = parameter,
                                  .in_place = op->task->device->info.direct &&
                                              op->task->kind == TASK_OPERATOR};
    if (!take_array(op, component, &taking, upload, failure))
        return false;
    op->in_is_own[component] = array->kind != ARRAY_FIELD && op->in[component];
    return true;
}

/* All inputs; op->type becomes what they have in common. */
static bool take_inputs(struct op *op, const struct request *request, const struct upload *upload,
                        struct failure *failure)
{
    const struct arrays *f = &request->f;
    if (op->task->kind == TASK_GET || op->task->kind == TASK_EXPORT) {
        const struct array array = {.kind = ARRAY_FIELD, .field = request->field};
        if (!take_input(op, 0, &array, "field", upload, failure))
            return false;
        op->type = op->in[0]->type;
        return true;
    }
    if (op->task->kind == TASK_PUT && f->at[0].kind == ARRAY_FIELD)
        return failure_set(failure, STATUS_UNSUPPORTED, "f", "field %llu is resident already",
                           (unsigned long long)f->at[0].field);
    for (int i = 0; i < AXIS_COUNT; i++) {
        if (f->at[i].kind == ARRAY_NONE)
            continue;
        const struct failure_place place = arrays_place(f, "f", i);
        if (!op->in[i] && !op->in_place[i].region && /* else a link before it gives it */
            !take_input(op, i, &f->at[i], place.text, upload, failure))
            return false;
        if (!op->type.dimensions)
            op->type = op->in[i] ? op->in[i]->type : f->at[i].type;
    }
    return true;
}

static bool take_out_place(struct op *op, int component, const struct arrays *given,
                           struct failure *failure)
{
    const struct failure_place place = arrays_place(given, "out", component);
    const struct array *array = &given->at[component];
    struct region_use *use = &op->out_place[component];
    if (array->type.dimensions &&
        !array_check_alike(&array->type, &op->type, place.text, "the result", failure))
        return false;
    if (!region_use(use, op->task->user, op->task->device, op->task, array, op->type.bytes, true,
                    place.text, failure))
        return false;
    op->task->ungranted += use->waits;
    return true;
}

static bool take_output(struct op *op, int component, const struct requirements *needs,
                        struct failure *failure)
{
    const struct arrays *given = &needs->request->out_place;
    struct field **out = &op->out[component];
    if (op->out_kind == OUT_FIELD) { /* it was found with the requirements */
        *out =
            field_reference(field_find(op->task->user, given->at[component].field, "out", failure));
    } else if ((op->out_kind == OUT_REGION && !take_out_place(op, component, given, failure)) ||
               (needs->has_out[component] &&
                !(*out = admission_new_array(op->task, &op->type, failure)))) {
        return false;
    }
    for (int i = component; i < component + needs->scratch[component]; i++)
        if (!(op->scratch[i] = admission_new_array(op->task, &op->type, failure)))
            return false;
    return true;
}

/* An operand has as many elements as its job says; of a list that is all that there is to its type.
 * κ and the source are like f. On a group others have as many planes as f or, of one that is not
 * cut as f is, one, so that each member has an array for all of it: of probes
 * [1][steps + 1][probes]. */
static struct array_type operand_type(const struct op *op, int operand)
{
    const struct job *job = &op->job;
    if (operand == OPERAND_COEFFICIENT || operand == OPERAND_SOURCE)
        return op->type;
    const uint64_t points = job_operand_points(job, operand),
                   planes = subdomain_cuts(job, operand) ? op->type.shape[0] : 1;
    struct array_type type = {.dtype = (enum dtype)job->dtype,
                              .dimensions = 2,
                              .shape = {planes, points / planes},
                              .bytes = job_operand_bytes(job, operand)};
    if (operand == OPERAND_PROBES) {
        type.dimensions = 3;
        type.shape[1] = job->steps + 1;
        type.shape[2] = job->more.probes;
    }
    return type;
}

static bool take_operands(struct op *op, const struct requirements *needs,
                          const struct upload *upload, struct failure *failure)
{
    for (int i = 0; i < OPERANDS; i++) {
        if (!(needs->operands >> i & 1))
            continue;
        const struct array *array = request_job_operand(needs->request, &op->job, i);
        const struct array_type type = operand_type(op, i);
        const struct taking taking = {
            .array = array, .type = &type, .parameter = job_operand_place(&op->job, i)};
        if (!array)
            op->operand[i] = admission_new_array(op->task, &type, failure);
        else if (!take_array(op, AXIS_COUNT + i, &taking, upload, failure))
            return false;
        if (!op->operand[i])
            return false;
    }
    return true;
}

bool admission_charge(struct task *task, uint64_t bytes, struct failure *failure)
{
    if (!field_queue_has_room(task->user, bytes, failure)) {
        explain(task, bytes, true, failure);
        return false;
    }
    if (!memory_take(task->user, bytes, NULL, failure))
        return false;
    task->block_bytes += bytes;
    USER_COUNT(task->user, queue_bytes, bytes);
    return true;
}

void admission_uncharge(struct task *task)
{
    USER_COUNT(task->user, queue_bytes, -task->block_bytes);
    memory_release(task->user, task->block_bytes);
    task->block_bytes = 0;
}

static void take_sources(struct op *op, const struct request_link *link)
{
    for (int i = 0; link && i < AXIS_COUNT; i++) {
        const struct request_source *const source = &link->source[i];
        if (source->link < 0)
            continue;
        const struct op *const from = &op->task->op[source->link];
        if (source->component != SOURCE_INPUT)
            op->in[i] = field_reference(from->out[source->component]);
        else if (from->in[i])
            op->in[i] = field_reference(from->in[i]);
        else /* the device computes in its region */
            region_use_share(&op->in_place[i], &from->in_place[i]);
    }
}

static bool check_lost(const struct op *op, struct failure *failure)
{
    for (int i = 0; i < OP_READS; i++) {
        const struct field *from = op->read[i] ? relay_source(op->task, op->read[i]) : NULL;
        if (from && from->lost)
            return failure_set(failure, STATUS_DEVICE_LOST, NULL,
                               "the worker of %s ended while the array arrived",
                               from->device->name);
    }
    return true;
}

static bool take_op(struct op *op, struct requirements *needs, const struct upload *upload,
                    struct failure *failure)
{
    op->out_kind = needs->request->out;
    op->cfl = needs->request->cfl;
    take_sources(op, needs->link);
    if (!take_inputs(op, needs->request, upload, failure))
        return false;
    op->job = needs->job;
    op->block = needs->block;
    needs->block = NULL;
    if (!admission_charge(op->task, op->job.more.block_bytes, failure) ||
        !take_operands(op, needs, upload, failure))
        return false;
    for (int i = 0; i < job_outputs(&op->job); i++)
        if (!take_output(op, i, needs, failure))
            return false;
    return check_lost(op, failure);
}

static bool take_operators(struct task *task, struct request *request, const struct upload *upload,
                           struct failure *failure)
{
    struct requirements_list needs;
    bool ok = requirements_find(task->user, task->device, request, &needs, failure);
    for (uint32_t i = 0; ok && i < needs.count; i++)
        ok = take_op(&task->op[i], &needs.of[i], upload, failure) ||
             (request->chain && request_chain_place(request->chain, failure, i));
    ok = ok && (!needs.of->script.wanted || script_make(task, needs.of, failure));
    requirements_free(&needs);
    return ok;
}

static bool take_transfer(struct op *op, const struct request *request, const struct upload *upload,
                          struct failure *failure)
{
    op->out_kind = request->out;
    return take_inputs(op, request, upload, failure) && check_lost(op, failure) &&
           (op->task->kind != TASK_EXPORT || take_exportable(op, failure)) &&
           (op->task->kind != TASK_GET || op->out_kind != OUT_REGION ||
            take_out_place(op, 0, &request->out_place, failure));
}

/* Once whatever it is used for; field_access() is to follow. */
static void note_access(struct op *op, struct field *field, bool writes)
{
    struct task *task = op->task;
    for (uint32_t k = 0; k < task->count; k++)
        for (uint32_t i = 0; i < task->op[k].accesses; i++)
            if (task->op[k].access[i].field == field) {
                task->op[k].access[i].writes |= writes;
                return;
            }
    op->access[op->accesses++] = (struct access){.field = field_reference(field), .writes = writes};
}

/* Queue for the resident fields, each as the most that any operator does with it; all at once, so
 * that the order of requests is total (field.h). */
static void ask_accesses(struct task *task)
{
    for (uint32_t k = 0; k < task->count; k++) {
        struct op *op = &task->op[k];
        for (int i = 0; i < AXIS_COUNT; i++)
            if (op->out[i] && op->out[i]->resident)
                note_access(op, op->out[i], true);
        for (int i = 0; i < OP_READS; i++)
            if (op->read[i] && relay_source(task, op->read[i])->resident)
                note_access(op, relay_source(task, op->read[i]), task->kind == TASK_EXPORT);
    }
    for (uint32_t k = 0; k < task->count; k++)
        for (uint32_t i = 0; i < task->op[k].accesses; i++) {
            struct access *access = &task->op[k].access[i];
            task->ungranted += !field_access(access->field, access, task, access->writes);
        }
}

bool admission_take(struct task *task, struct request *request, const struct upload *upload,
                    struct failure *failure)
{
    if (task->kind == TASK_OPERATOR ? !take_operators(task, request, upload, failure)
                                    : !take_transfer(task->op, request, upload, failure))
        return false;
    const struct group *const group = task->device->group;
    const uint64_t orders = task->script ? task->script->count : 1,
                   bytes = group ? orders * group_run_bytes(group) : 0;
    if (group && !memory_take(task->user, bytes, NULL, failure))
        return false;
    task->front_bytes += bytes;
    ask_accesses(task);
    return true;
}
