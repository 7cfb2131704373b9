#include "server/jobs/admission.h"

#include "protocol/request_job.h"
#include "server/jobs/chain.h"
#include "server/devices/device.h"
#include "server/users/memory.h"
#include "server/jobs/job_script.h"
#include "server/jobs/requirements.h"
#include "server/jobs/jobs.h"
#include "server/jobs/upload.h"

#include <stdlib.h>
#include <string.h>

bool admission_open(const struct jobs *jobs, const struct user *user, struct failure *failure)
{
    if (jobs->draining)
        return failure_set(failure, STATUS_SHUTTING_DOWN, NULL, "the server is draining");
    const struct config *config = jobs->config;
    if (user->jobs >= config->user_queue_jobs)
        return failure_set_limit(failure, STATUS_QUEUE_FULL, NULL, (double)user->jobs + 1,
                                 (double)config->user_queue_jobs,
                                 "you have %llu jobs unanswered already",
                                 (unsigned long long)user->jobs);
    if (jobs->count >= config->max_queue_jobs)
        return failure_set_limit(failure, STATUS_QUEUE_FULL, NULL, (double)jobs->count + 1,
                                 (double)config->max_queue_jobs,
                                 "all users together have %llu jobs unanswered already",
                                 (unsigned long long)jobs->count);
    return true;
}

enum { ARRAYS = 3 * AXIS_COUNT + OPERANDS };

/* Arrays, each once. */
struct held {
    const struct field *field[CHAIN_LINKS * ARRAYS];
    size_t count;
    uint64_t bytes;
};

static void hold(struct held *held, const struct field *field)
{
    for (size_t k = 0; k < held->count; k++)
        if (held->field[k] == field)
            return;
    held->field[held->count++] = field;
    held->bytes += field->type.bytes;
}

/* Bytes of the arrays that the task has come to, a link's with those of its whole chain; `own`: but
 * for resident fields, and with its blocks. */
static uint64_t held_bytes(const struct task *task, bool own)
{
    const struct chain *chain = task->chain_of ? task->chain_of->chain : NULL;
    struct held held;
    held.count = 0;
    held.bytes = 0;
    for (uint32_t p = 0; p < (chain ? chain->count : 1); p++) {
        const struct task *part = chain ? chain->link[p] : task;
        struct field *const *const arrays[] = {part->in, part->out, part->scratch};
        for (size_t i = 0; i < ARRAYS; i++) {
            const struct field *field = i < 3 * AXIS_COUNT ? arrays[i / AXIS_COUNT][i % AXIS_COUNT]
                                                           : part->operand[i - 3 * AXIS_COUNT];
            if (field && !(own && field->resident))
                hold(&held, field);
        }
        held.bytes += routine_bytes(part->routine) + (own ? part->block_bytes : 0);
    }
    return held.bytes;
}

struct field *admission_new_array(const struct task *task, const struct array_type *type,
                                  struct failure *failure)
{
    struct field *field = field_new(task->jobs->devices, task->user, type, failure);
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
static bool take_small(struct task *task, void **small, const struct array *array, enum dtype dtype,
                       struct failure *failure)
{
    const uint64_t bytes = array->kind == ARRAY_LIST ? 8 * numbers_count(array) : array->type.bytes;
    if (!task_charge(task, bytes, failure))
        return false;
    *small = malloc(bytes);
    if (!*small)
        return failure_set(failure, STATUS_OUT_OF_MEMORY, NULL, "the server is out of memory");
    if (array->kind == ARRAY_LIST)
        write_list(array, dtype, *small);
    else
        memcpy(*small, array->small, array->type.bytes);
    return true;
}

/* An array that a task reads, as it was given, and where it comes to be held. */
struct taking {
    const struct array *array;
    const struct array_type *type;
    const char *parameter;
    bool in_place; /* one in a region needs no array */
    struct field **field;
    struct region_use *place;
    void **small;
};

/* An uploaded one, a resident field, a place in a region, or a few bytes of the control message. */
static bool take_array(struct task *task, const struct taking *taking, const struct upload *upload,
                       struct failure *failure)
{
    const struct array *array = taking->array;
    struct field *found = NULL;
    if (array->kind == ARRAY_FIELD)
        found = field_find(task->user, array->field, taking->parameter, failure);
    else if (array->kind == ARRAY_INLINE && array->payload_count)
        found = upload_find(upload, array, taking->parameter, failure);
    if (found)
        *taking->field = field_reference(found);
    if (found || failure->code)
        return found != NULL;
    if (array->kind == ARRAY_REGION) {
        if (!region_use(taking->place, task->user, task, array, taking->type->bytes, false,
                        taking->parameter, failure))
            return false;
        task->ungranted += taking->place->waits;
        if (taking->in_place)
            return true;
    } else if (!take_small(task, taking->small, array, taking->type->dtype, failure)) {
        return false;
    }
    *taking->field = admission_new_array(task, taking->type, failure);
    return *taking->field != NULL;
}

/* An input. Its array on the device is the job's own, but for a resident one, and for one in a
 * region where the device computes there itself. */
static bool take_input(struct task *task, int component, const struct array *array,
                       const char *parameter, const struct upload *upload, struct failure *failure)
{
    const struct taking taking = {.array = array,
                                  .type = &array->type,
                                  .parameter = parameter,
                                  .in_place =
                                      task->device->info.direct && task->kind == TASK_OPERATOR,
                                  .field = &task->in[component],
                                  .place = &task->in_place[component],
                                  .small = &task->small[component]};
    if (!take_array(task, &taking, upload, failure))
        return false;
    task->in_is_own[component] = array->kind != ARRAY_FIELD && task->in[component];
    return true;
}

/* All inputs; task->type becomes what they have in common. */
static bool take_inputs(struct task *task, const struct request *request,
                        const struct upload *upload, struct failure *failure)
{
    const struct arrays *f = &request->f;
    if (task->kind == TASK_GET) {
        const struct array array = {.kind = ARRAY_FIELD, .field = request->field};
        if (!take_input(task, 0, &array, "field", upload, failure))
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
        if (!task->in[i] && /* else a link before it in its chain gives it */
            !take_input(task, i, &f->at[i], place.text, upload, failure))
            return false;
        const struct array_type *type = task->in[i] ? &task->in[i]->type : &f->at[i].type;
        if (!task->type.dimensions)
            task->type = *type;
        if (!array_check_alike(type, &task->type, place.text, "the component before", failure))
            return false;
    }
    return true;
}

static bool take_out_place(struct task *task, int component, const struct arrays *given,
                           struct failure *failure)
{
    const struct failure_place place = arrays_place(given, "out", component);
    const struct array *array = &given->at[component];
    struct region_use *use = &task->out_place[component];
    if (array->type.dimensions &&
        !array_check_alike(&array->type, &task->type, place.text, "the result", failure))
        return false;
    if (!region_use(use, task->user, task, array, task->type.bytes, true, place.text, failure))
        return false;
    task->ungranted += use->waits;
    return true;
}

static bool take_output(struct task *task, int component, const struct requirements *needs,
                        struct failure *failure)
{
    const struct arrays *given = &needs->request->out_place;
    struct field **out = &task->out[component];
    if (task->out_kind == OUT_FIELD) {
        const struct failure_place place = arrays_place(given, "out", component);
        struct field *field =
            field_find(task->user, given->at[component].field, place.text, failure);
        if (!field)
            return false;
        *out = field_reference(field);
    } else if ((task->out_kind == OUT_REGION && !take_out_place(task, component, given, failure)) ||
               (needs->has_out[component] &&
                !(*out = admission_new_array(task, &task->type, failure)))) {
        return false;
    }
    for (int i = component; i < component + needs->scratch[component]; i++)
        if (!(task->scratch[i] = admission_new_array(task, &task->type, failure)))
            return false;
    return true;
}

/* An operand has as many elements as its job says; of a list that is all that there is to its type.
 * Probes are answered: [steps + 1][probes]. */
static struct array_type operand_type(const struct job *job, int operand)
{
    const uint64_t points = job_operand_points(job, operand);
    struct array_type type = {.dtype = (enum dtype)job->dtype,
                              .dimensions = 1,
                              .shape = {points},
                              .bytes = points * job_element_bytes(job)};
    if (operand == OPERAND_PROBES) {
        type.dimensions = 2;
        type.shape[0] = job->steps + 1;
        type.shape[1] = job->more.probes;
    }
    return type;
}

static bool take_operands(struct task *task, const struct request *request,
                          const struct upload *upload, struct failure *failure)
{
    for (int i = 0; i < OPERANDS; i++) {
        const char *place;
        const struct array *array = request_job_operand(request, &task->job, i, &place);
        const struct array_type type = operand_type(&task->job, i);
        const struct taking taking = {.array = array,
                                      .type = &type,
                                      .parameter = place,
                                      .field = &task->operand[i],
                                      .place = &task->operand_place[i],
                                      .small = &task->small[AXIS_COUNT + i]};
        if (type.bytes == 0)
            continue;
        if (!array)
            task->operand[i] = admission_new_array(task, &type, failure);
        else if (!take_array(task, &taking, upload, failure))
            return false;
        if (!task->operand[i])
            return false;
    }
    return true;
}

bool admission_charge(struct task *task, uint64_t bytes, struct failure *failure)
{
    const struct config *config = task->jobs->config;
    const uint64_t need = bytes ? held_bytes(task, true) + bytes : 0;
    const struct {
        uint64_t limit, taken;
        const char *whose;
    } budgets[] = {{config->user_queue_bytes, task->user->queue_bytes, "your jobs' arrays"},
                   {config->max_queue_bytes, task->jobs->devices->queue_bytes, "all jobs' arrays"}};
    for (size_t i = 0; bytes && i < sizeof budgets / sizeof *budgets; i++) {
        const uint64_t limit = budgets[i].limit;
        if (limit && need > limit)
            return failure_set_limit(failure, STATUS_TOO_LARGE, NULL, (double)need, (double)limit,
                                     "the job needs %llu bytes at once; at most %llu are there for "
                                     "it",
                                     (unsigned long long)need, (unsigned long long)limit);
        if (limit && budgets[i].taken + bytes > limit)
            return failure_set_limit(failure, STATUS_QUEUE_FULL, NULL, (double)bytes, (double)limit,
                                     "%llu bytes more are over the limit of %s, %llu",
                                     (unsigned long long)bytes, budgets[i].whose,
                                     (unsigned long long)limit);
    }
    if (!memory_take(task->user, bytes, NULL, failure))
        return false;
    task->block_bytes += bytes;
    task->user->queue_bytes += bytes;
    task->jobs->devices->queue_bytes += bytes;
    return true;
}

void admission_free_block(struct task *task)
{
    task->user->queue_bytes -= task->block_bytes;
    task->jobs->devices->queue_bytes -= task->block_bytes;
    memory_release(task->user, task->block_bytes);
    task->block_bytes = 0;
    free(task->block);
    task->block = NULL;
}

/* The job of an operator, its operands and its outputs. */
static bool take_job(struct task *task, struct requirements *needs, const struct upload *upload,
                     struct failure *failure)
{
    task->job = needs->job;
    task->block = needs->block;
    needs->block = NULL;
    if (!admission_charge(task, task->job.more.block_bytes, failure) ||
        !take_operands(task, needs->request, upload, failure))
        return false;
    for (int i = 0; i < job_outputs(&task->job); i++)
        if (!take_output(task, i, needs, failure))
            return false;
    if (task->chain_of)
        return routine_make_link(task, needs->request, failure);
    return !needs->script.wanted || routine_make(task, needs->request, failure);
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
    for (int i = 0; i < OPERANDS; i++)
        if (task->operand[i] && task->operand[i]->resident)
            ask_access(task, task->operand[i], false);
}

static bool check_lost(const struct task *task, struct failure *failure)
{
    return !any_lost(task) ||
           failure_set(failure, STATUS_DEVICE_LOST, NULL,
                       "the worker of %s ended while the array arrived", task->device->name);
}

static bool take_operator(struct task *task, struct requirements *needs,
                          const struct upload *upload, struct failure *failure)
{
    task->out_kind = needs->request->out;
    return take_inputs(task, needs->request, upload, failure) &&
           take_job(task, needs, upload, failure) && check_lost(task, failure);
}

bool admission_take_link(struct task *link, struct requirements *needs, const struct upload *upload,
                         struct failure *failure)
{
    return take_operator(link, needs, upload, failure);
}

static bool take_operators(struct task *task, struct request *request, const struct upload *upload,
                           struct failure *failure)
{
    struct requirements needs[CHAIN_LINKS];
    uint32_t count;
    bool ok =
        requirements_find(task->jobs, task->user, task->device, request, needs, &count, failure);
    if (ok && request->chain)
        ok = chain_make(task, request->chain, needs, upload, failure) &&
             routine_make_chain(task, failure);
    else if (ok)
        ok = take_operator(task, needs, upload, failure);
    requirements_free(needs, count);
    return ok;
}

bool admission_take(struct task *task, struct request *request, const struct upload *upload,
                    struct failure *failure)
{
    if (task->kind == TASK_OPERATOR) {
        if (!take_operators(task, request, upload, failure))
            return false;
    } else {
        task->out_kind = request->out;
        if (!take_inputs(task, request, upload, failure) || !check_lost(task, failure) ||
            (task->kind == TASK_GET && task->out_kind == OUT_REGION &&
             !take_out_place(task, 0, &request->out_place, failure)))
            return false;
    }
    if (!task->chain)
        ask_accesses(task);
    return true;
}
