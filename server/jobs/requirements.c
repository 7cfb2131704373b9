#include "server/jobs/requirements.h"

#include "protocol/request_job.h"
#include "server/devices/group.h"
#include "server/jobs/answer.h"

#include <stdlib.h>

/* The state of the search: needs[number], after those before it. */
struct finding {
    const struct user *user;
    const struct device *device;
    const struct requirements *all; /* the first of the chain's */
    struct requirements *needs;
};

static bool computes_in_place(const struct finding *finding, const struct array *array)
{
    return array->kind == ARRAY_REGION && finding->device->info.direct;
}

/* The link before it that gives its input i; NULL: the request does. */
static const struct requirements *source_of(const struct finding *finding, int i)
{
    const struct request_link *link = finding->needs->link;
    return link && link->source[i].link >= 0 ? &finding->all[link->source[i].link] : NULL;
}

/* The type of an array: a resident field's own. NULL with the failure set: there is no such field.
 */
static const struct array_type *given_type(const struct user *user, const struct array *array,
                                           const char *place, struct failure *failure)
{
    if (array->kind != ARRAY_FIELD)
        return &array->type;
    const struct field *field = field_find(user, array->field, place, failure);
    return field ? &field->type : NULL;
}

/* The type of an input or, where it is none, NULL with the failure set. */
static const struct array_type *type_of(const struct finding *finding, int i,
                                        const struct array *array, const char *place,
                                        struct failure *failure)
{
    if (source_of(finding, i))
        return &array->type;
    if (array->kind == ARRAY_REGION && !region_check(finding->user, finding->device, array,
                                                     array->type.bytes, false, place, failure))
        return NULL;
    return given_type(finding->user, array, place, failure);
}

static bool find_inputs(const struct finding *finding, struct failure *failure)
{
    struct requirements *needs = finding->needs;
    const struct arrays *f = &needs->request->f;
    for (int i = 0; i < AXIS_COUNT; i++) {
        const struct array *array = &f->at[i];
        if (array->kind == ARRAY_NONE)
            continue;
        const struct failure_place place = arrays_place(f, "f", i);
        const struct array_type *type = type_of(finding, i, array, place.text, failure);
        if (!type)
            return false;
        if (!needs->type.dimensions)
            needs->type = *type;
        if (!array_check_alike(type, &needs->type, place.text, "the component before", failure))
            return false;
        const bool is_own = array->kind != ARRAY_FIELD && !computes_in_place(finding, array);
        needs->arrays += is_own;
        needs->copied += is_own;
        needs->copied_again += is_own && array->kind == ARRAY_REGION;
    }
    return true;
}

static bool bind_sources(const struct finding *finding, struct failure *failure)
{
    for (int i = 0; i < AXIS_COUNT; i++) {
        const struct requirements *from = source_of(finding, i);
        if (from && !request_chain_bind(finding->needs->link, i, &from->job, &from->type, failure))
            return false;
    }
    return true;
}

static bool find_types(const struct user *user, struct request *request, struct failure *failure)
{
    for (int i = 0; i < OPERANDS; i++) {
        struct array *array = &request->operand[i];
        if (array->kind == ARRAY_NONE)
            continue;
        const struct array_type *type =
            given_type(user, array, request_operand_place(request, i), failure);
        if (!type)
            return false;
        array->type = *type;
    }
    return true;
}

/* One array of all sides that are not named is sent, and held, once. */
static bool is_sent_before(const struct requirements *needs, const struct array *array, int operand)
{
    const struct request *request = needs->request;
    const int side = (operand - OPERAND_VALUE) % (AXIS_COUNT * SIDE_COUNT);
    const bool is_payload =
        (array->kind == ARRAY_INLINE && array->payload_count) ||
        (array->kind == ARRAY_DESCRIBED && array->type.bytes >= LIMIT_DIVERT_BYTES);
    if (!is_payload || side < 0 || request->named.boundary >> side & 1)
        return false;
    for (int i = OPERAND_VALUE; i < operand; i++)
        if (job_operand_points(&needs->job, i) && request->operand[i].object == array->object)
            return true;
    return false;
}

static bool find_operands(const struct finding *finding, struct failure *failure)
{
    struct requirements *needs = finding->needs;
    for (int i = 0; i < OPERANDS; i++) {
        if (i != OPERAND_PROBES && needs->request->operand[i].kind == ARRAY_NONE)
            continue;
        const uint64_t bytes = job_operand_bytes(&needs->job, i);
        if (bytes == 0)
            continue;
        needs->operands |= UINT32_C(1) << i;
        const struct array *array = request_job_operand(needs->request, &needs->job, i);
        if (array && array->kind == ARRAY_REGION &&
            !region_check(finding->user, finding->device, array, bytes, false,
                          job_operand_place(&needs->job, i), failure))
            return false;
        if (!array || (array->kind != ARRAY_FIELD && !is_sent_before(needs, array, i)))
            needs->operand_bytes += bytes;
    }
    return true;
}

/* Is the field that an output overwrites among the inputs? */
static bool is_input(const struct finding *finding, uint64_t field)
{
    const struct requirements *needs = finding->needs;
    for (int i = 0; i < AXIS_COUNT; i++) {
        const struct requirements *from = source_of(finding, i);
        const int component = from ? needs->link->source[i].component : i;
        const struct array *array = component == SOURCE_INPUT ? &from->request->f.at[i]
                                    : from ? &from->request->out_place.at[component]
                                           : &needs->request->f.at[i];
        if (array->kind == ARRAY_FIELD && array->field == field)
            return true;
    }
    return false;
}

static bool check_output(const struct finding *finding, const struct array *out, const char *place,
                         struct failure *failure)
{
    const struct array_type *type = given_type(finding->user, out, place, failure);
    const struct array_type *result = &finding->needs->type;
    return type &&
           (!type->dimensions || array_check_alike(type, result, place, "the result", failure)) &&
           (out->kind == ARRAY_FIELD ||
            region_check(finding->user, finding->device, out, result->bytes, true, place, failure));
}

/* Is the output no field that is read beside f at every step? */
static bool check_operands(const struct requirements *needs, const struct array *out,
                           const char *place, struct failure *failure)
{
    for (int i = 0; i < OPERANDS && out->kind == ARRAY_FIELD; i++) {
        const struct array *read = &needs->request->operand[i];
        if (read->kind == ARRAY_FIELD && read->field == out->field && needs->operands >> i & 1)
            return failure_set(
                failure, STATUS_INVALID_ARGUMENT, place,
                "field %llu is read beside f at every step, and cannot be overwritten",
                (unsigned long long)out->field);
    }
    return true;
}

/* Is the output's place not that of an output before it, nor, in a region, of an input? */
static bool check_apart(const struct finding *finding, int component, const char *place,
                        struct failure *failure)
{
    const struct request *request = finding->needs->request;
    const struct array *f = request->f.at, *outs = request->out_place.at;
    const struct array *out = &outs[component];
    const uint64_t bytes = finding->needs->type.bytes;
    bool overlaps = false;
    for (int i = 0; i < component; i++) {
        if (out->kind == ARRAY_FIELD && out->field == outs[i].field)
            return failure_set(failure, STATUS_INVALID_ARGUMENT, place,
                               "field %llu is given for two components",
                               (unsigned long long)out->field);
        overlaps |= region_would_overlap(finding->user, out, &outs[i], bytes);
    }
    for (int i = 0; i < AXIS_COUNT; i++)
        overlaps |= region_would_overlap(finding->user, out, &f[i], bytes);
    return !overlaps || failure_set(failure, STATUS_INVALID_ARGUMENT, place,
                                    "its bytes overlap those of an input or of another output");
}

static bool find_outputs(const struct finding *finding, struct failure *failure)
{
    struct requirements *needs = finding->needs;
    const struct request *request = needs->request;
    const bool is_field = request->out == OUT_FIELD, is_region = request->out == OUT_REGION;
    for (int i = 0; i < job_outputs(&needs->job); i++) {
        const struct array *out = &request->out_place.at[i], *in = &request->f.at[i];
        const struct failure_place place = arrays_place(&request->out_place, "out", i);
        if ((is_field || is_region) && (!check_output(finding, out, place.text, failure) ||
                                        !check_operands(needs, out, place.text, failure) ||
                                        !check_apart(finding, i, place.text, failure)))
            return false;
        const bool has_array =
            needs->script.wanted || !(is_region && computes_in_place(finding, out));
        const bool in_serves = has_array && !needs->script.wanted && in->kind != ARRAY_NONE &&
                               in->kind != ARRAY_FIELD && !computes_in_place(finding, in);
        const bool in_place = needs->script.in_place || (is_field && is_input(finding, out->field));
        needs->has_out[i] = has_array;
        /* The result may come to lie in the scratch array: a place in a region needs one beside. */
        needs->scratch[i] = job_scratch(&needs->job, in_place, in_serves);
        needs->arrays += (has_array && !is_field) + (uint64_t)needs->scratch[i];
        needs->copied += has_array && (is_region || (request->out == OUT_INLINE && !needs->link));
    }
    return true;
}

static bool find_one(const struct finding *finding, struct failure *failure)
{
    struct requirements *needs = finding->needs;
    if (!bind_sources(finding, failure) || !find_inputs(finding, failure) ||
        !find_types(finding->user, needs->request, failure) ||
        !request_job(needs->request, &needs->type, (double)finding->user->users->config->max_work,
                     &needs->job, &needs->block, failure) ||
        !find_operands(finding, failure))
        return false;
    needs->script = script_needs(needs->request, &needs->job);
    needs->script.wanted |= needs->link != NULL;
    needs->arrays += (uint64_t)__builtin_popcount(needs->script.arrays);
    if (!find_outputs(finding, failure))
        return false;
    return !needs->script.in_place || !needs->job.more.probes ||
           failure_set(failure, STATUS_UNSUPPORTED, "probes",
                       "probes and every do not go together yet");
}

/* May its report be? The estimate of the error reaches further than the job. */
static bool check_distributed_report(const struct requirements *needs, uint32_t count,
                                     struct failure *failure)
{
    struct job finer;
    struct decomposition cut;
    struct failure reason = {0};
    script_estimate(&needs->job, true, &finer);
    return !needs->script.estimates ||
           decompose(&finer, needs->type.shape[0], count, &cut, &reason) ||
           failure_set(failure, STATUS_UNSUPPORTED, "report",
                       "the estimate of the error, at accuracy %d: %s", finer.accuracy,
                       reason.message);
}

/* May the job be carried out in the subdomains of the group's members? */
static bool check_distributed(const struct finding *finding, struct failure *failure)
{
    const struct requirements *needs = finding->needs;
    struct decomposition cut;
    const uint32_t count = finding->device->group->count;
    return decompose(&needs->job, needs->type.shape[0], count, &cut, failure) &&
           (!needs->request->report || check_distributed_report(needs, count, failure));
}

/* Do the links keep to the numbers and the work of one job, which all rounds together are, and to
 * the arrays of one answer? */
static bool check_chain(const struct request *request, const struct requirements *needs,
                        double max_work, struct failure *failure)
{
    const struct request_chain *chain = request->chain;
    double work = 0;
    for (uint32_t i = 0; i < chain->count; i++)
        work += job_work(&needs[i].job);
    work *= (double)request->repeat;
    if (work > max_work)
        return failure_set_limit(failure, STATUS_TOO_LARGE,
                                 chain->is_operator    ? NULL
                                 : request->repeat > 1 ? "repeat"
                                                       : "ops",
                                 work, max_work,
                                 "the ops' points times steps, times repeat, is %.6g; one job may "
                                 "have at most %.6g",
                                 work, max_work);
    int arrays = 0;
    for (uint32_t i = 0; i < chain->answers; i++)
        arrays += job_outputs(&needs[chain->answer[i].link].job);
    return arrays <= ANSWER_PARTS ||
           failure_set_limit(failure, STATUS_INVALID_ARGUMENT, "out", arrays, ANSWER_PARTS,
                             "an answer has at most %d arrays", ANSWER_PARTS);
}

/* The numbers of all links' parameters keep to what one job may have. */
static bool count_block(uint64_t *bytes, const struct job *job, struct failure *failure)
{
    *bytes += job->more.block_bytes;
    return *bytes <= LIMIT_BLOCK_BYTES ||
           failure_set_limit(failure, STATUS_TOO_LARGE, NULL, *bytes, LIMIT_BLOCK_BYTES,
                             "coordinates, offsets, weights and probes of a chain's ops take at "
                             "most %d bytes together",
                             LIMIT_BLOCK_BYTES);
}

bool requirements_expand(const struct user *user, struct request *request, struct failure *failure)
{
    if (request->method != METHOD_HESSIAN)
        return true;
    const struct array_type *type = given_type(user, &request->f.at[0], "f", failure);
    return type && request_expand_hessian(request, type, failure);
}

bool requirements_find(const struct user *user, const struct device *device,
                       struct request *request, struct requirements_list *list,
                       struct failure *failure)
{
    struct request_chain *chain = request->chain;
    struct finding finding = {.user = user, .device = device, .all = list->of};
    uint64_t block_bytes = 0;
    list->count = 0;
    while (list->count < (chain ? chain->count : 1)) {
        const uint32_t number = list->count++;
        struct request_link *link = chain ? &chain->link[number] : NULL;
        finding.needs = &list->of[number];
        *finding.needs =
            (struct requirements){.request = link ? &link->request : request, .link = link};
        if (!find_one(&finding, failure) ||
            (device->group && !check_distributed(&finding, failure)) ||
            !count_block(&block_bytes, &finding.needs->job, failure))
            return chain && request_chain_place(chain, failure, number);
    }
    const double max_work = (double)user->users->config->max_work;
    return !chain || check_chain(request, list->of, max_work, failure);
}

void requirements_free(struct requirements_list *list)
{
    while (list->count > 0)
        free(list->of[--list->count].block);
}
