#include "server/jobs/job_script.h"

#include "numerics/job_check.h"
#include "protocol/request_job.h"
#include "server/jobs/admission.h"
#include "server/jobs/requirements.h"
#include "server/users/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* Beside the runs and what is done once for each component: segments, estimates, measures. */
    ACTIONS_MORE = 4 + 2 * AXIS_COUNT,
    /* At most so many runs are ahead, in up to four equal parts, each of at most so many; a round
     * longer than that is a part. */
    RUNS_AHEAD = 64,
    RUNS_PART = RUNS_AHEAD / 4,
    /* One round alone where its runs bring more than this with them each time: they would be made
     * into tables many deep. */
    AHEAD_BLOCK_BYTES = 64 << 10
};

void script_estimate(const struct job *job, bool finer, struct job *estimate)
{
    *estimate = *job;
    estimate->accuracy = (uint8_t)(job->accuracy + 2 * finer);
    if (!job_has_steps(job))
        return;
    estimate->steps = 1;
    estimate->allow_unstable = 1; /* one step can't grow into anything */
    estimate->more.probes = 0;
    estimate->more.block_bytes = job_block_part(estimate, BLOCK_END);
    if (!estimate->more.block_bytes)
        memset(estimate->more.block_key, 0, sizeof estimate->more.block_key);
}

static bool has_estimate(const struct job *job)
{
    struct job estimate;
    struct failure failure = {0};
    if (job->operator_id == OPERATOR_STENCIL)
        return false;
    script_estimate(job, true, &estimate);
    if (job_measures(job) && !(estimate.more.coefficient_max > 0)) { /* not measured yet */
        estimate.more.coefficient_max = 1;
        if (!(estimate.dt > 0))
            estimate.dt = 1;
    }
    return job_check(&estimate, INFINITY, &failure);
}

/* Scratch arrays of an estimate's job, from one array to another. */
static int estimate_scratch(const struct job *job)
{
    int scratch = 0;
    for (int finer = 0; finer < 2; finer++) {
        struct job estimate;
        script_estimate(job, finer, &estimate);
        const int needed = job_scratch(&estimate, false, false);
        scratch = needed > scratch ? needed : scratch;
    }
    return scratch;
}

static bool is_cut(const struct request *request, const struct job *job)
{
    return request->every && request->every < job->steps;
}

static uint32_t bits(int from, int count)
{
    return ((UINT32_C(1) << count) - 1) << from;
}

struct script_needs script_needs(const struct request *request, const struct job *job)
{
    const bool report = request->report, cut = is_cut(request, job);
    struct script_needs needs = {.wanted = report || cut || job_measures(job), .in_place = cut};
    if (report || job_measures(job))
        needs.result_bytes = measure_bytes(job_points(job));
    needs.estimates = report && has_estimate(job);
    if (needs.estimates)
        needs.arrays = bits(SCRIPT_FINER, job_outputs(job)) |
                       bits(SCRIPT_SAME, job_has_steps(job)) |
                       bits(SCRIPT_WORK, estimate_scratch(job));
    if (cut && request->snapshot == SNAPSHOT_FIELD)
        needs.arrays |= bits(SCRIPT_FRESH, 1);
    return needs;
}

/* Rounds in one part: a power of two, since in some chains it is every other round that is the same
 * to the bit, arrays and all. */
static uint64_t part_rounds(const struct task *task)
{
    uint64_t rounds = 1;
    while (2 * rounds * task->count <= RUNS_PART && 2 * rounds <= task->repeat)
        rounds *= 2;
    return rounds;
}

/* An op's first run, if its plan takes long to make, goes alone: others' jobs do not wait for
 * several of these. */
static bool goes_alone(const struct task *task, uint32_t op)
{
    return schedule_plan(&task->part->flow, &task->op[op].job) >= SCHEDULE_LONG_NS;
}

static void add_rounds(struct task *task, uint64_t rounds, bool waits)
{
    const uint64_t part = part_rounds(task);
    for (uint64_t round = 1; round <= rounds; round++)
        for (uint32_t i = 0; i < task->count; i++)
            script_add(task->script, ACTION_RUN, waits || (round == 1 && goes_alone(task, i)), i)
                ->ends_round = i + 1 == task->count && (round % part == 0 || round == rounds);
}

static uint64_t rounds_ahead(const struct task *task)
{
    uint64_t block_bytes = 0;
    for (uint32_t i = 0; i < task->count; i++)
        block_bytes += task->op[i].job.more.block_bytes;
    const uint64_t parts = RUNS_AHEAD / RUNS_PART;
    const uint64_t most = block_bytes > AHEAD_BLOCK_BYTES ? 1 : parts * part_rounds(task);
    return task->repeat < most ? task->repeat : most;
}

static void compose(struct task *task, uint64_t ahead, bool cut)
{
    struct script *script = task->script;
    const bool has_steps = job_has_steps(&task->op->job);
    for (uint32_t i = 0; i < task->count; i++)
        if (job_measures(&task->op[i].job))
            script_add(script, ACTION_COEFFICIENT, false, i);
    if (script->count)
        script_add(script, ACTION_JUDGE, true, 0);
    if (cut) {
        const uint32_t from = script->count;
        script_add(script, ACTION_SEGMENT, true, 0);
        script_add(script, ACTION_SNAPSHOT, true, 0);
        script_repeat(script, from, (task->op->job.steps - 1) / script->every);
    }
    /* Before the result may come to lie in the input's place. */
    if (script->estimates && !has_steps)
        script_add(script, ACTION_FINER, false, 0);
    const uint32_t first = script->count;
    add_rounds(task, ahead, cut);
    if (task->repeat > ahead)
        script_repeat(script, first, task->repeat / ahead);
    add_rounds(task, task->repeat % ahead, false);
    if (script->estimates && has_steps) {
        script_add(script, ACTION_SAME, goes_alone(task, 0), 0);
        script_add(script, ACTION_FINER, goes_alone(task, 0), 0);
    }
    for (int i = 0; i < job_outputs(&task->op->job) && script->reports; i++) {
        script_add(script, ACTION_VALUES, false, 0)->component = i;
        if (script->estimates)
            script_add(script, ACTION_DISTANCES, false, 0)->component = i;
    }
    for (uint32_t k = 0; k < task->count; k++)
        for (int i = 0; i < job_outputs(&task->op[k].job) && task->op[k].out_kind == OUT_REGION;
             i++)
            script_add(script, ACTION_WRITE, true, k)->component = i;
}

/* The block without the probes, which come last in it. */
static bool take_block(struct task *task, struct failure *failure)
{
    const struct op *op = task->op;
    struct job estimate;
    script_estimate(&op->job, true, &estimate);
    const uint64_t bytes = estimate.more.block_bytes;
    if (bytes == op->job.more.block_bytes || bytes == 0)
        return true;
    if (!admission_charge(task, bytes, failure))
        return false;
    if (!(task->script->block = malloc(bytes)))
        return failure_set(failure, STATUS_OUT_OF_MEMORY, NULL, "the server is out of memory");
    memcpy(task->script->block, op->block, bytes);
    return true;
}

/* With room for so many actions; NULL with the failure set. */
static struct script *new_script(struct task *task, uint64_t actions, struct failure *failure)
{
    const uint64_t bytes = sizeof(struct script) + actions * sizeof(struct action);
    struct script *script = memory_new(task->user, bytes, NULL, failure);
    task->front_bytes += script ? bytes : 0;
    return task->script = script;
}

static bool take_own(struct task *task, const struct requirements *needs, struct failure *failure)
{
    for (int i = 0; i < SCRIPT_ARRAYS; i++)
        if (needs->script.arrays >> i & 1 &&
            !(task->script->array[i] = admission_new_array(task, &task->op->type, failure)))
            return false;
    for (uint32_t i = 0; i < task->count; i++) {
        const uint64_t bytes = needs[i].script.result_bytes;
        /* One plane: on a group every member has one of its own. */
        const struct array_type type = {
            .dtype = DTYPE_F64, .dimensions = 2, .shape = {1, bytes / 8}, .bytes = bytes};
        if (bytes && !(task->op[i].result = admission_new_array(task, &type, failure)))
            return false;
    }
    return !needs->script.estimates || take_block(task, failure);
}

bool script_make(struct task *task, const struct requirements *needs, struct failure *failure)
{
    const struct request *request = needs->request;
    const uint64_t ahead = rounds_ahead(task);
    const uint64_t actions = (ahead + task->repeat % ahead + AXIS_COUNT + 1) * task->count + 1 +
                             (task->is_chain ? 0 : ACTIONS_MORE);
    struct script *script = new_script(task, actions, failure);
    if (!script)
        return false;
    script->every = request->every;
    script->snapshot = request->snapshot;
    script->reports = request->report;
    script->estimates = needs->script.estimates;
    if (!take_own(task, needs, failure))
        return false;
    compose(task, ahead, needs->script.in_place);
    return true;
}

void script_leave_snapshot(struct script *script)
{
    field_access_end(&script->access);
    field_release(script->taken);
    script->taken = NULL;
}

void script_free(struct script *script)
{
    if (!script)
        return;
    script_leave_snapshot(script);
    op_let_go(script->array, SCRIPT_ARRAYS);
    free(script->block); /* charged as the task's is, and with it no longer */
    free(script);
}

int64_t script_cost_ns(const struct flow *flow, const struct job *job, bool estimates)
{
    struct job estimate;
    int64_t ns = 0;
    for (int finer = 0; finer < 2 && estimates; finer++) {
        script_estimate(job, finer, &estimate);
        if (finer || job_has_steps(job))
            ns += schedule_estimate(flow, &estimate);
    }
    return ns;
}
