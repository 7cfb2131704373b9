#include "server/jobs/placement.h"
#include "server/jobs/requirements.h"
#include "numerics/stability.h"

#include <math.h>

static double run_ns(const struct requirements *needs, const struct flow *flow)
{
    return (double)schedule_estimate(flow, &needs->job) +
           (double)script_cost_ns(flow, &needs->job, needs->script.estimates);
}

/* Of a diffusion: two pairs; else none. A field κ is not measured. */
static uint32_t dt_pairs(const struct requirements *needs)
{
    return needs->job.operator_id == OPERATOR_DIFFUSION ? 2 : 0;
}

static void write_dt(msgpack_packer *packer, const struct requirements *needs)
{
    if (!dt_pairs(needs))
        return;
    const double dt_max = job_dt_max(&needs->job);
    reply_write_real(packer, "dt", needs->job.dt > 0, needs->job.dt);
    reply_write_real(packer, "dt_max", isfinite(dt_max), dt_max);
}

/* All arrays are there at once. Every round runs the operators and copies regions in; the rest is
 * copied once, and `relayed` bytes from another device to this one. */
static void write_answer(msgpack_packer *packer, const struct requirements *needs, uint32_t count,
                         const struct request *request, const struct flow *flow,
                         const struct device *device, uint64_t relayed)
{
    const struct request_chain *chain = request->chain;
    const double repeat = (double)request->repeat;
    uint64_t bytes = relayed;
    double ns = 2 * (double)schedule_copy(relayed);
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t array_bytes = needs[i].type.bytes, operand_bytes = needs[i].operand_bytes;
        const uint64_t once = needs[i].copied - needs[i].copied_again;
        bytes += needs[i].arrays * array_bytes + operand_bytes + needs[i].script.result_bytes;
        ns += repeat * (run_ns(&needs[i], flow) +
                        (double)schedule_copy(needs[i].copied_again * array_bytes)) +
              (double)schedule_copy(once * array_bytes + operand_bytes);
    }
    for (uint32_t i = 0; chain && i < chain->answers; i++) {
        const struct requirements *given = &needs[chain->answer[i].link];
        if (chain->answer[i].kind == OUT_INLINE)
            ns += (double)schedule_copy((uint64_t)job_outputs(&given->job) * given->type.bytes);
    }
    msgpack_pack_map(packer, chain ? 4 : 3 + dt_pairs(needs));
    reply_write_count(packer, "bytes", bytes);
    reply_write_real(packer, "seconds", true, 1e-9 * ns);
    reply_write_text(packer, "device", device->name);
    if (!chain) {
        write_dt(packer, needs);
        return;
    }
    reply_write_str(packer, "ops");
    msgpack_pack_array(packer, count);
    for (uint32_t i = 0; i < count; i++) {
        msgpack_pack_map(packer, 1 + dt_pairs(&needs[i]));
        reply_write_real(packer, "seconds", true, 1e-9 * run_ns(&needs[i], flow));
        write_dt(packer, &needs[i]);
    }
}

bool dry_run(struct client *client, struct request *request, const struct upload *upload,
             msgpack_packer *packer, struct failure *failure)
{
    struct user *const user = client->user;
    const struct device *device = NULL;
    struct requirements_list needs;
    uint64_t relayed;
    if (!requirements_expand(user, request, failure) ||
        !(device = placement_of_job(client, request, upload, &relayed, failure)))
        return false;
    const bool ok = requirements_find(user, device, request, &needs, failure);
    if (ok)
        write_answer(packer, needs.of, needs.count, request, &user->part[device->number]->flow,
                     device, relayed);
    requirements_free(&needs);
    return ok;
}
