#include "server/jobs/dry_run.h"

#include "protocol/reply.h"
#include "protocol/request_job.h"
#include "server/jobs/admission.h"
#include "server/jobs/chain.h"
#include "server/devices/device.h"
#include "server/devices/placement.h"
#include "server/devices/field.h"
#include "server/devices/region.h"
#include "server/jobs/job_script.h"
#include "server/users/schedule.h"
#include "server/jobs/jobs.h"

#include <math.h>
#include <stdlib.h>

/* An operator: the request's own, or a link of its chain. */
struct dry_run {
    struct jobs *jobs;
    struct user *user;
    struct request *request;
    const struct device *device;
    bool is_link;
    struct array_type type; /* of every array */
    struct job job;
    uint8_t *block;         /* its, owned; NULL: none */
    bool estimates;         /* the job is run again for a report */
    uint64_t result_bytes;  /* that measures work in */
    uint64_t arrays;        /* of `type`, that the job needs on the device for itself */
    uint64_t copied;        /* of them those that come from a client's memory or go there */
    uint64_t copied_again;  /* … that come once in every round of a chain */
    uint64_t operand_bytes; /* of its operands, but for resident ones */
};

/* Does the device compute in the region itself? */
static bool computes_in_place(const struct dry_run *run, const struct array *array)
{
    return array->kind == ARRAY_REGION && run->device->info.direct;
}

/* The type of an input or, where it is none, NULL with the failure set. */
static const struct array_type *type_of(const struct dry_run *run, const struct array *array,
                                        const char *place, struct failure *failure)
{
    if (array->kind == ARRAY_FIELD && !array->type.dimensions) { /* else a link before gives it */
        const struct field *field = field_find(run->user, array->field, place, failure);
        return field ? &field->type : NULL;
    }
    if (array->kind == ARRAY_REGION &&
        !region_check(run->user, array, array->type.bytes, false, place, failure))
        return NULL;
    return &array->type;
}

static bool take_inputs(struct dry_run *run, struct failure *failure)
{
    const struct arrays *f = &run->request->f;
    for (int i = 0; i < AXIS_COUNT; i++) {
        const struct array *array = &f->at[i];
        if (array->kind == ARRAY_NONE)
            continue;
        const struct failure_place place = arrays_place(f, "f", i);
        const struct array_type *type = type_of(run, array, place.text, failure);
        if (!type)
            return false;
        if (!run->type.dimensions)
            run->type = *type;
        if (!array_check_alike(type, &run->type, place.text, "the component before", failure))
            return false;
        const bool is_own = array->kind != ARRAY_FIELD && !computes_in_place(run, array);
        run->arrays += is_own;
        run->copied += is_own;
        run->copied_again += is_own && array->kind == ARRAY_REGION;
    }
    return true;
}

/* Is the field that the output overwrites among the inputs? */
static bool is_input(const struct request *request, uint64_t field)
{
    for (int i = 0; i < AXIS_COUNT; i++)
        if (request->f.at[i].kind == ARRAY_FIELD && request->f.at[i].field == field)
            return true;
    return false;
}

static bool check_output(const struct dry_run *run, const struct array *out, const char *place,
                         struct failure *failure)
{
    const struct array_type *type = &out->type;
    if (out->kind == ARRAY_FIELD) {
        const struct field *field = field_find(run->user, out->field, place, failure);
        if (!field)
            return false;
        type = &field->type;
    } else if (!region_check(run->user, out, run->type.bytes, true, place, failure)) {
        return false;
    }
    return !type->dimensions || array_check_alike(type, &run->type, place, "the result", failure);
}

/* Is the output no field that is read beside f at every step? */
static bool check_operands(const struct dry_run *run, const struct array *out, const char *place,
                           struct failure *failure)
{
    for (int i = 0; i < OPERANDS && out->kind == ARRAY_FIELD; i++) {
        const char *unused;
        const struct array *read = request_job_operand(run->request, &run->job, i, &unused);
        if (read && read->kind == ARRAY_FIELD && read->field == out->field)
            return admission_refuse_operand(out->field, place, failure);
    }
    return true;
}

/* Is the output's place not that of an output before it, nor, in a region, of an input? */
static bool check_apart(const struct dry_run *run, int component, const char *place,
                        struct failure *failure)
{
    const struct array *f = run->request->f.at, *outs = run->request->out_place.at;
    const struct array *out = &outs[component];
    bool overlaps = false;
    for (int i = 0; i < component; i++) {
        if (out->kind == ARRAY_FIELD && out->field == outs[i].field)
            return failure_set(failure, STATUS_INVALID_ARGUMENT, place,
                               "field %llu is given for two components",
                               (unsigned long long)out->field);
        overlaps |= region_would_overlap(run->user, out, &outs[i], run->type.bytes);
    }
    for (int i = 0; i < AXIS_COUNT; i++)
        overlaps |= region_would_overlap(run->user, out, &f[i], run->type.bytes);
    return !overlaps || failure_set(failure, STATUS_INVALID_ARGUMENT, place,
                                    "its bytes overlap those of an input or of another output");
}

static bool take_outputs(struct dry_run *run, struct failure *failure)
{
    const struct request *request = run->request;
    const bool has_places = request->out == OUT_FIELD || request->out == OUT_REGION;
    struct routine_needs needs = routine_needs(request, &run->job);
    needs.wanted = needs.wanted || run->is_link;
    run->estimates = needs.estimates;
    run->arrays += (uint64_t)needs.arrays;
    run->result_bytes = needs.result_bytes;
    for (int i = 0; i < job_outputs(&run->job); i++) {
        const struct array *out = &request->out_place.at[i], *in = &request->f.at[i];
        const struct failure_place place = arrays_place(&request->out_place, "out", i);
        if (has_places && (!check_output(run, out, place.text, failure) ||
                           !check_operands(run, out, place.text, failure) ||
                           !check_apart(run, i, place.text, failure)))
            return false;
        const bool is_field = request->out == OUT_FIELD;
        const bool has_array =
            needs.wanted || !(request->out == OUT_REGION && computes_in_place(run, out));
        const bool in_is_own =
            in->kind != ARRAY_NONE && in->kind != ARRAY_FIELD && !computes_in_place(run, in);
        run->arrays += has_array && !is_field;
        run->copied += has_array && (request->out == OUT_REGION ||
                                     (request->out == OUT_INLINE && !run->is_link));
        const bool in_place = needs.in_place || (is_field && is_input(request, out->field));
        run->arrays += job_scratch(&run->job, in_place, has_array && in_is_own && !needs.wanted);
    }
    return true;
}

/* One array of all sides that are not named is sent, and held, once. */
static bool is_sent_before(const struct dry_run *run, const struct array *array, int operand)
{
    const int side = (operand - OPERAND_VALUE) % (AXIS_COUNT * SIDE_COUNT);
    const bool is_payload =
        (array->kind == ARRAY_INLINE && array->payload_count) ||
        (array->kind == ARRAY_DESCRIBED && array->type.bytes >= LIMIT_DIVERT_BYTES);
    if (!is_payload || side < 0 || run->request->named.boundary >> side & 1)
        return false;
    for (int i = OPERAND_VALUE; i < operand; i++)
        if (job_operand_points(&run->job, i) && run->request->operand[i].object == array->object)
            return true;
    return false;
}

static bool take_operands(struct dry_run *run, struct failure *failure)
{
    for (int i = 0; i < OPERANDS; i++) {
        const char *place;
        const uint64_t bytes = job_operand_points(&run->job, i) * job_element_bytes(&run->job);
        const struct array *array = request_job_operand(run->request, &run->job, i, &place);
        if (array && array->kind == ARRAY_REGION &&
            !region_check(run->user, array, bytes, false, place, failure))
            return false;
        if (!array || (array->kind != ARRAY_FIELD && !is_sent_before(run, array, i)))
            run->operand_bytes += bytes;
    }
    return true;
}

/* Make the job, and add up what it takes; run->block is to be freed all the same. */
static bool work_out(struct dry_run *run, struct failure *failure)
{
    return take_inputs(run, failure) && admission_find_types(run->user, run->request, failure) &&
           request_job(run->request, &run->type, (double)run->jobs->config->max_work, &run->job,
                       &run->block, failure) &&
           take_operands(run, failure) && take_outputs(run, failure) &&
           routine_check(run->request, &run->job, failure);
}

static uint64_t bytes_of(const struct dry_run *run)
{
    return run->arrays * run->type.bytes + run->operand_bytes + run->result_bytes;
}

/* What the job takes each time that it runs. */
static double run_ns(const struct dry_run *run)
{
    const struct flow *flow = &run->user->flow;
    return (double)schedule_estimate(flow, &run->job) +
           (double)routine_cost_ns(flow, &run->job, run->estimates);
}

static double copy_ns(uint64_t bytes)
{
    return (double)schedule_copy(bytes);
}

static void write_seconds(msgpack_packer *packer, double ns)
{
    reply_write_str(packer, "seconds");
    msgpack_pack_double(packer, 1e-9 * ns);
}

static void write_real(msgpack_packer *packer, double value, bool is_known)
{
    if (is_known)
        msgpack_pack_double(packer, value);
    else
        msgpack_pack_nil(packer);
}

/* Of a diffusion: two pairs; else none. A field κ is not measured. */
static uint32_t dt_pairs(const struct dry_run *run)
{
    return run->job.operator_id == OPERATOR_DIFFUSION ? 2 : 0;
}

static void write_dt(msgpack_packer *packer, const struct dry_run *run)
{
    if (!dt_pairs(run))
        return;
    reply_write_str(packer, "dt");
    write_real(packer, run->job.dt, run->job.dt > 0);
    reply_write_str(packer, "dt_max");
    const double dt_max = job_dt_max(&run->job);
    write_real(packer, dt_max, isfinite(dt_max));
}

static void write_whole(msgpack_packer *packer, uint64_t bytes, double ns,
                        const struct device *device)
{
    reply_write_str(packer, "bytes");
    msgpack_pack_uint64(packer, bytes);
    write_seconds(packer, ns);
    reply_write_str(packer, "device");
    reply_write_str(packer, device->name);
}

static bool dry_run_operator(struct dry_run *run, msgpack_packer *packer, struct failure *failure)
{
    const bool done = work_out(run, failure);
    if (done) {
        msgpack_pack_map(packer, 3 + dt_pairs(run));
        write_whole(packer, bytes_of(run),
                    run_ns(run) + copy_ns(run->copied * run->type.bytes + run->operand_bytes),
                    run->device);
        write_dt(packer, run);
    }
    free(run->block);
    return done;
}

/* What the link takes from those before it, then all as of an operator. */
static bool work_out_link(struct dry_run *links, struct request_chain *chain, uint32_t number,
                          struct failure *failure)
{
    struct request_link *given = &chain->link[number];
    for (int i = 0; i < AXIS_COUNT; i++) {
        const int link = given->source[i].link;
        if (link >= 0 &&
            !request_chain_bind(given, i, &links[link].job, &links[link].type, failure))
            return false;
    }
    return work_out(&links[number], failure);
}

/* All links' arrays are there at once. Every round runs the links and copies regions in; the rest
 * is copied once. */
static void answer_chain(const struct dry_run *links, const struct request_chain *chain,
                         msgpack_packer *packer)
{
    uint64_t bytes = 0;
    double ns = 0, repeat = (double)chain->repeat;
    for (uint32_t i = 0; i < chain->count; i++) {
        const struct dry_run *run = &links[i];
        bytes += bytes_of(run);
        ns += repeat * (run_ns(run) + copy_ns(run->copied_again * run->type.bytes)) +
              copy_ns((run->copied - run->copied_again) * run->type.bytes + run->operand_bytes);
    }
    for (uint32_t i = 0; i < chain->answers; i++) {
        const struct dry_run *run = &links[chain->answer[i].link];
        if (chain->answer[i].kind == OUT_INLINE)
            ns += copy_ns((uint64_t)job_outputs(&run->job) * run->type.bytes);
    }
    msgpack_pack_map(packer, 4);
    write_whole(packer, bytes, ns, links->device);
    reply_write_str(packer, "ops");
    msgpack_pack_array(packer, chain->count);
    for (uint32_t i = 0; i < chain->count; i++) {
        msgpack_pack_map(packer, 1 + dt_pairs(&links[i]));
        write_seconds(packer, run_ns(&links[i]));
        write_dt(packer, &links[i]);
    }
}

static bool dry_run_chain(const struct dry_run *whole, msgpack_packer *packer,
                          struct failure *failure)
{
    struct request_chain *chain = whole->request->chain;
    struct dry_run links[CHAIN_LINKS];
    const struct job *job[CHAIN_LINKS] = {0};
    uint32_t count = 0;
    uint64_t block_bytes = 0;
    bool done = true;
    for (; count < chain->count && done; count++) {
        links[count] = *whole;
        links[count].request = &chain->link[count].request;
        links[count].is_link = true;
        job[count] = &links[count].job;
        done = work_out_link(links, chain, count, failure) &&
               chain_check_block(&block_bytes, &links[count].job, failure);
        if (!done)
            request_chain_place(chain, failure, count);
    }
    done = done && chain_check(chain, job, (double)whole->jobs->config->max_work, failure);
    if (done)
        answer_chain(links, chain, packer);
    while (count-- > 0)
        free(links[count].block);
    return done;
}

bool dry_run(struct jobs *jobs, struct user *user, struct request *request, msgpack_packer *packer,
             struct failure *failure)
{
    struct dry_run run = {.jobs = jobs,
                          .user = user,
                          .request = request,
                          .device = placement_device(jobs->devices, user)};
    return request->chain ? dry_run_chain(&run, packer, failure)
                          : dry_run_operator(&run, packer, failure);
}
