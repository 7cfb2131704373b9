#include "server/jobs/chain.h"

#include "server/jobs/admission.h"
#include "server/devices/device.h"
#include "server/jobs/job_script.h"
#include "server/jobs/jobs.h"
#include "server/jobs/requirements.h"

#include <stdlib.h>
#include <string.h>

/* What the link takes from those before it. */
static void take_sources(const struct chain *chain, struct task *link,
                         const struct request_link *given)
{
    for (int i = 0; i < AXIS_COUNT; i++)
        if (given->source[i].link >= 0)
            link->in[i] = field_reference(
                chain->link[given->source[i].link]->out[given->source[i].component]);
}

static struct task *new_link(struct task *task)
{
    struct task *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->jobs = task->jobs;
    link->user = task->user;
    link->device = task->device;
    link->chain_of = task;
    link->kind = TASK_OPERATOR;
    task_init_lists(link);
    return link;
}

static bool make_link(struct task *task, const struct request_chain *all,
                      struct requirements *needs, const struct upload *upload,
                      struct failure *failure)
{
    struct chain *chain = task->chain;
    if (!task_charge(task, sizeof *task, failure))
        return false;
    struct task *link = new_link(task);
    if (!link)
        return failure_set(failure, STATUS_OUT_OF_MEMORY, NULL, "the server is out of memory");
    chain->link[chain->count++] = link;
    take_sources(chain, link, needs->link);
    if (admission_take_link(link, needs, upload, failure))
        return true;
    request_chain_place(all, failure, chain->count - 1);
    return false;
}

/* --- its fields --- */

static void note_access(struct chain *chain, struct field *field, bool writes)
{
    if (!field || !field->resident)
        return;
    for (uint32_t i = 0; i < chain->accesses; i++)
        if (chain->access[i].field == field) {
            chain->access[i].writes |= writes;
            return;
        }
    chain->access[chain->accesses].field = field;
    chain->access[chain->accesses++].writes = writes;
}

/* All at once, each as the most that any link does with it (field.h). */
static bool ask_accesses(struct task *task, struct failure *failure)
{
    struct chain *chain = task->chain;
    chain->access =
        calloc((size_t)chain->count * (2 * AXIS_COUNT + OPERANDS), sizeof *chain->access);
    if (!chain->access)
        return failure_set(failure, STATUS_OUT_OF_MEMORY, NULL, "the server is out of memory");
    for (uint32_t k = 0; k < chain->count; k++) {
        const struct task *link = chain->link[k];
        for (int i = 0; i < AXIS_COUNT; i++) {
            note_access(chain, link->out[i], true);
            note_access(chain, link->in[i], false);
        }
        for (int i = 0; i < OPERANDS; i++)
            note_access(chain, link->operand[i], false);
        task->ungranted += link->ungranted; /* regions that are being mapped */
    }
    for (uint32_t i = 0; i < chain->accesses; i++) {
        struct access *access = &chain->access[i];
        struct field *field = field_reference(access->field);
        task->ungranted += !field_access(field, access, task, access->writes);
    }
    return true;
}

bool chain_make(struct task *task, const struct request_chain *given, struct requirements *needs,
                const struct upload *upload, struct failure *failure)
{
    struct chain *chain = task->chain = calloc(1, sizeof *chain);
    if (!chain)
        return failure_set(failure, STATUS_OUT_OF_MEMORY, NULL, "the server is out of memory");
    chain->repeat = given->repeat;
    chain->is_named = given->is_named;
    chain->answers = given->answers;
    for (uint32_t i = 0; i < given->count; i++)
        if (!make_link(task, given, &needs[i], upload, failure))
            return false;
    for (uint32_t i = 0; i < chain->answers; i++) {
        chain->answer[i].of = given->answer[i];
        memcpy(chain->answer[i].name, given->link[given->answer[i].link].name,
               sizeof chain->answer[i].name);
    }
    const struct task *last = chain->link[chain->count - 1];
    task->job = last->job;
    task->type = last->type;
    return ask_accesses(task, failure);
}

void chain_release(struct chain *chain)
{
    if (!chain)
        return;
    for (uint32_t i = 0; i < chain->count; i++)
        task_release_arrays(chain->link[i]);
    for (uint32_t i = 0; i < chain->accesses; i++) {
        struct field *field = chain->access[i].field;
        field_access_end(&chain->access[i]);
        field_release(field);
    }
    chain->accesses = 0;
}

void chain_free(struct chain *chain)
{
    if (!chain)
        return;
    chain_release(chain);
    for (uint32_t i = 0; i < chain->count; i++) {
        routine_free(chain->link[i]->routine);
        free(chain->link[i]);
    }
    free(chain->access);
    free(chain);
}

/* Is it written by one of the first `count` links? */
static bool is_written(const struct chain *chain, uint32_t count, const struct field *field)
{
    for (uint32_t k = 0; k < count; k++)
        for (int i = 0; i < AXIS_COUNT; i++)
            if (chain->link[k]->out[i] == field)
                return true;
    return false;
}

bool chain_is_torn(const struct chain *chain)
{
    for (uint32_t k = 0; k < chain->count; k++)
        for (int i = 0; i < AXIS_COUNT + OPERANDS; i++) {
            const struct task *link = chain->link[k];
            const struct field *read = i < AXIS_COUNT ? link->in[i] : link->operand[i - AXIS_COUNT];
            if (read && read->torn && !is_written(chain, k, read))
                return true;
        }
    return false;
}

int64_t chain_cost_ns(const struct chain *chain)
{
    double ns = 0;
    for (uint32_t i = 0; i < chain->count; i++) {
        const struct task *link = chain->link[i];
        ns += (double)schedule_estimate(&link->user->flow, &link->job);
    }
    ns *= (double)chain->repeat;
    return ns < 0x1p50 ? (int64_t)ns : INT64_C(1) << 50;
}

static bool is_answered(const struct chain *chain, uint32_t link)
{
    for (uint32_t i = 0; i < chain->answers; i++)
        if (chain->answer[i].of.link == link)
            return true;
    return false;
}

void chain_link_ended(struct chain *chain, uint32_t number)
{
    struct task *link = chain->link[number];
    if (++chain->ended[number] < chain->repeat)
        return;
    task_release_all(link, link->in);
    task_release_all(link, link->scratch);
    if (!is_answered(chain, number) && link->out_kind == OUT_INLINE)
        task_release_all(link, link->out);
}

void chain_tear(const struct chain *chain)
{
    for (uint32_t k = 0; k < chain->count; k++)
        for (int i = 0; i < AXIS_COUNT && chain->ended[k]; i++)
            if (chain->link[k]->out[i] && chain->link[k]->out[i]->resident)
                chain->link[k]->out[i]->torn = true;
}

void chain_withdraw(const struct chain *chain)
{
    for (uint32_t i = 0; i < chain->answers; i++)
        if (chain->answer[i].of.kind == OUT_NEW_FIELD)
            task_withdraw(chain->link[chain->answer[i].of.link]->out);
}

bool chain_publish(const struct chain *chain, struct failure *failure)
{
    for (uint32_t i = 0; i < chain->answers; i++) {
        const struct chain_answer *answer = &chain->answer[i];
        if (answer->of.kind != OUT_NEW_FIELD ||
            task_publish(chain->link[answer->of.link]->out, failure))
            continue;
        chain_withdraw(chain);
        return false;
    }
    return true;
}

bool chain_leaves(const struct chain *chain)
{
    bool leaves = false;
    for (uint32_t i = 0; i < chain->answers; i++)
        leaves = leaves || chain->answer[i].of.kind != OUT_INLINE;
    for (uint32_t k = 0; k < chain->count; k++)
        leaves = leaves || chain->link[k]->out_kind != OUT_INLINE;
    return leaves;
}

/* Arrays come last, since a message ends with one. */
void chain_answer(const struct chain *chain, struct answer *answer, const struct task *task)
{
    reply_write_begin(&answer->packer, task->msgid);
    msgpack_pack_map(&answer->packer, 1);
    reply_write_str(&answer->packer, "out");
    if (chain->is_named)
        msgpack_pack_map(&answer->packer, chain->answers);
    for (int arrays = 0; arrays < 2; arrays++)
        for (uint32_t i = 0; i < chain->answers; i++) {
            const struct chain_answer *one = &chain->answer[i];
            if ((one->of.kind == OUT_INLINE) != arrays)
                continue;
            if (chain->is_named)
                reply_write_str(&answer->packer, one->name);
            answer_result(answer, chain->link[one->of.link], one->of.kind);
        }
}
