#include "server/jobs/answer.h"

#include "server/jobs/job_script.h"
#include "server/jobs/task.h"

#include <stdio.h>
#include <string.h>

void answer_init(struct answer *answer)
{
    *answer = (struct answer){.parts = 0};
    reply_buffer_init(&answer->text, &answer->packer);
}

/* The array, whose bytes are of that type. */
static void answer_as(struct answer *answer, struct field *field, const struct array_type *type)
{
    const uint64_t bytes = type->bytes;
    array_write_header(&answer->packer, type);
    if (array_is_list(bytes))
        msgpack_pack_bin(&answer->packer, bytes < ARRAY_BIN_BYTES ? bytes : ARRAY_BIN_BYTES);
    answer->part[answer->parts++] = (struct answer_part){field, answer->text.size};
}

void answer_array(struct answer *answer, struct field *field)
{
    answer_as(answer, field, &field->type);
}

/* [steps + 1][probes], which is the only plane of its array. */
static void write_probes(struct answer *answer, struct field *probes)
{
    struct array_type type = probes->type;
    memmove(type.shape, type.shape + 1, --type.dimensions * sizeof *type.shape);
    reply_write_str(&answer->packer, "probes");
    answer_as(answer, probes, &type);
}

/* One result: an array, a field or a place, or a map of them by axis. */
static void write_result(struct answer *answer, const struct op *op, enum out_kind kind)
{
    const bool computed = op->task->kind == TASK_OPERATOR;
    const bool is_vector = computed && job_gives_vector(&op->job);
    const int components = computed ? job_outputs(&op->job) : 1;
    if (is_vector)
        msgpack_pack_map(&answer->packer, (size_t)components);
    for (int i = 0; i < components; i++) {
        struct field *field = op_results(op)[i];
        const struct region_use *place = &op->out_place[i];
        if (is_vector)
            reply_write_str(&answer->packer, axis_name((enum axis)i));
        if (kind == OUT_REGION)
            reply_write_region(&answer->packer, place->region->id, place->offset, &op->type);
        else if (kind == OUT_INLINE)
            answer_array(answer, field);
        else
            reply_write_field(&answer->packer, field->id, &op->type);
    }
}

static void write_reports(struct answer *answer, const struct reply_report *reports, int components,
                          bool is_vector)
{
    reply_write_str(&answer->packer, "report");
    if (is_vector)
        msgpack_pack_map(&answer->packer, (size_t)components);
    for (int i = 0; i < components; i++) {
        if (is_vector)
            reply_write_str(&answer->packer, axis_name((enum axis)i));
        reply_write_report(&answer->packer, &reports[i]);
    }
}

/* Of operators or a get. Arrays come last, since a message ends with one. */
static void write_results(struct answer *answer, const struct task *task)
{
    const struct op *op = task->op;
    const bool has_dt = !task->is_chain && op->job.operator_id == OPERATOR_DIFFUSION;
    const bool reports = task->script && task->script->reports;
    struct field *probes = op->operand[OPERAND_PROBES];
    msgpack_pack_map(&answer->packer, (size_t)1 + has_dt + reports + (probes != NULL));
    if (has_dt)
        reply_write_real(&answer->packer, "dt", true, op->job.dt);
    if (reports)
        write_reports(answer, task->script->report, job_outputs(&op->job),
                      job_gives_vector(&op->job));
    reply_write_str(&answer->packer, "out");
    if (task->is_named)
        msgpack_pack_map(&answer->packer, task->answers);
    for (int arrays = 0; arrays < 2; arrays++)
        for (uint32_t i = 0; i < task->answers; i++) {
            const struct request_answer *one = &task->answer[i];
            if ((one->kind == OUT_INLINE) != arrays)
                continue;
            if (task->is_named)
                reply_write_str(&answer->packer, one->name);
            write_result(answer, &task->op[one->link], one->kind);
        }
    if (probes)
        write_probes(answer, probes);
}

static void write_export(struct answer *answer, const struct task *task)
{
    struct field *const field = task->op->in[0];
    const struct device_info *info = &field->device->info;
    const uint8_t *u = info->uuid;
    const bool is_host = device_is_host(field->device);
    char uuid[37];
    snprintf(uuid, sizeof uuid,
             "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
             u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
             u[15]);
    answer->exported = field;
    msgpack_pack_map(&answer->packer, is_host ? 7 : 8);
    reply_write_count(&answer->packer, "field", task->exported);
    reply_write_type(&answer->packer, &field->type);
    reply_write_text(&answer->packer, "kind", is_host ? "memory" : info->kind);
    reply_write_text(&answer->packer, "device", field->device->name);
    if (!is_host)
        reply_write_text(&answer->packer, "uuid", uuid);
    reply_write_count(&answer->packer, "bytes", field->memory.bytes);
    reply_write_count(&answer->packer, "offset", 0);
}

bool answer_task(struct answer *answer, const struct task *task)
{
    answer_init(answer);
    reply_write_begin(&answer->packer, task->msgid);
    if (task->kind == TASK_PUT) {
        msgpack_pack_map(&answer->packer, 1);
        reply_write_count(&answer->packer, "field", task->op->in[0]->id);
    } else if (task->kind == TASK_EXPORT) {
        write_export(answer, task);
    } else {
        write_results(answer, task);
    }
    return answer->text.size > 0;
}
