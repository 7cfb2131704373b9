#include "server/jobs/answer.h"

#include "server/devices/field.h"
#include "server/devices/region.h"
#include "server/jobs/job_script.h"
#include "server/jobs/task.h"

void answer_init(struct answer *answer)
{
    *answer = (struct answer){.parts = 0};
    reply_buffer_init(&answer->text, &answer->packer);
    answer->packer.data = &answer->text;
}

void answer_array(struct answer *answer, struct field *field)
{
    const uint64_t bytes = field->type.bytes;
    array_write_header(&answer->packer, &field->type);
    if (array_is_list(bytes))
        array_write_bin(&answer->packer, bytes < ARRAY_BIN_BYTES ? bytes : ARRAY_BIN_BYTES);
    answer->part[answer->parts++] = (struct answer_part){field, answer->text.size};
}

void answer_result(struct answer *answer, const struct task *task, enum out_kind kind)
{
    const bool computed = task->kind == TASK_OPERATOR;
    const bool is_vector = computed && job_gives_vector(&task->job);
    const int components = computed ? job_outputs(&task->job) : 1;
    if (is_vector)
        msgpack_pack_map(&answer->packer, (size_t)components);
    for (int i = 0; i < components; i++) {
        struct field *field = computed ? task->out[i] : task->in[i];
        const struct region_use *place = &task->out_place[i];
        if (is_vector)
            reply_write_str(&answer->packer, axis_name((enum axis)i));
        if (kind == OUT_REGION)
            reply_write_region(&answer->packer, place->region->id, place->offset, &task->type);
        else if (kind == OUT_INLINE)
            answer_array(answer, field);
        else
            reply_write_field(&answer->packer, field->id, &task->type);
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

void answer_results(struct answer *answer, const struct task *task)
{
    const bool computed = task->kind == TASK_OPERATOR;
    const bool is_vector = computed && job_gives_vector(&task->job);
    const int components = computed ? job_outputs(&task->job) : 1;
    const bool has_dt = computed && task->job.operator_id == OPERATOR_DIFFUSION;
    const bool reports = task->routine && task->routine->reports;
    struct field *probes = computed ? task->operand[OPERAND_PROBES] : NULL;
    reply_write_begin(&answer->packer, task->msgid);
    msgpack_pack_map(&answer->packer, (size_t)1 + has_dt + reports + (probes != NULL));
    if (has_dt) {
        reply_write_str(&answer->packer, "dt");
        msgpack_pack_double(&answer->packer, task->job.dt);
    }
    if (reports)
        write_reports(answer, task->routine->report, components, is_vector);
    reply_write_str(&answer->packer, "out");
    answer_result(answer, task, task->out_kind);
    if (probes) {
        reply_write_str(&answer->packer, "probes");
        answer_array(answer, probes);
    }
}

void answer_id(struct answer *answer, const struct task *task, uint64_t id)
{
    reply_write_begin(&answer->packer, task->msgid);
    msgpack_pack_map(&answer->packer, 1);
    reply_write_str(&answer->packer, "field");
    msgpack_pack_uint64(&answer->packer, id);
}
