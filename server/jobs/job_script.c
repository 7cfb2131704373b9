#include "server/jobs/job_script.h"

#include "numerics/job_check.h"
#include "protocol/request_chain.h"
#include "protocol/request_job.h"
#include "server/jobs/admission.h"
#include "server/jobs/chain.h"
#include "server/devices/device.h"
#include "server/jobs/jobs.h"
#include "server/jobs/task.h"
#include "server/users/user.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEPS_MOST = 24,
    /* Of a chain: at most so many runs are ahead, in up to four equal parts, each of at most so
     * many; a round longer than that is a part. */
    CHAIN_AHEAD = 64,
    CHAIN_PART = CHAIN_AHEAD / 4,
    /* One round alone where its runs bring more than this with them each time: they would be made
     * into tables many deep. */
    CHAIN_BLOCK_BYTES = 64 << 10
};

/* What a step's order is for. */
enum role {
    ROLE_COEFFICIENT, /* measures κ; of a chain a link's */
    ROLE_SEGMENT,     /* some of the steps */
    ROLE_LAST,        /* the rest of them, or the job as it is */
    ROLE_SAME,        /* one more step from the result, … */
    ROLE_FINER,       /* … the same with accuracy + 2; of other operators all of the job */
    ROLE_VALUES,      /* measures a component of the result, … */
    ROLE_DISTANCES,   /* … and how far the estimate is from it */
    ROLE_WRITE,       /* copies one to its place in a region */
    ROLE_LINK,        /* runs a link of a chain */
    ROLE_LINK_WRITE   /* copies one of its results (link · AXIS_COUNT + component) */
};

/* --- what it takes --- */

/* The job whose result tells the error, by its distance from that of the same job (`finer` false)
 * with the job's own accuracy. Of a diffusion one step, from where it has come to. */
static void estimate_job(const struct job *job, bool finer, struct job *estimate)
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
    estimate_job(job, true, &estimate);
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
        estimate_job(job, finer, &estimate);
        const int needed = job_scratch(&estimate, false, false);
        scratch = needed > scratch ? needed : scratch;
    }
    return scratch;
}

static bool is_cut(const struct request *request, const struct job *job)
{
    return request->every && request->every < job->steps;
}

struct routine_needs routine_needs(const struct request *request, const struct job *job)
{
    const bool report = request->report, cut = is_cut(request, job);
    struct routine_needs needs = {.wanted = report || cut || job_measures(job), .in_place = cut};
    if (report || job_measures(job))
        needs.result_bytes = measure_bytes(job_points(job));
    needs.estimates = report && has_estimate(job);
    if (needs.estimates)
        needs.arrays = job_outputs(job) + job_has_steps(job) + estimate_scratch(job);
    if (cut && request->snapshot == SNAPSHOT_FIELD)
        needs.arrays++;
    return needs;
}

bool routine_check(const struct request *request, const struct job *job, struct failure *failure)
{
    return !is_cut(request, job) || !job->more.probes ||
           failure_set(failure, STATUS_UNSUPPORTED, "probes",
                       "probes and every do not go together yet");
}

/* --- making it --- */

static struct step *add_order(struct routine *routine, enum order_kind kind, bool waits, int role,
                              int component)
{
    struct step *step = program_add(&routine->program, STEP_ORDER, waits);
    step->order.kind = kind;
    step->role = role;
    step->component = component;
    return step;
}

static void compose(struct task *task, const struct request *request)
{
    struct routine *routine = task->routine;
    struct program *program = &routine->program;
    const int outputs = job_outputs(&task->job);
    if (job_measures(&task->job)) {
        add_order(routine, ORDER_MEASURE, false, ROLE_COEFFICIENT, 0);
        program_add(program, STEP_JUDGE, true);
    }
    if (is_cut(request, &task->job)) {
        const uint32_t from = program->count;
        add_order(routine, ORDER_RUN, true, ROLE_SEGMENT, 0);
        program_add(program, STEP_SNAPSHOT, true);
        program_repeat(program, from, (task->job.steps - 1) / routine->every);
    }
    /* Before the result may come to lie in the input's place. */
    if (routine->estimates && !job_has_steps(&task->job))
        add_order(routine, ORDER_RUN, false, ROLE_FINER, 0);
    add_order(routine, ORDER_RUN, job_has_steps(&task->job), ROLE_LAST, 0);
    if (routine->estimates && job_has_steps(&task->job)) {
        add_order(routine, ORDER_RUN, false, ROLE_SAME, 0);
        add_order(routine, ORDER_RUN, false, ROLE_FINER, 0);
    }
    for (int i = 0; i < outputs && request->report; i++) {
        add_order(routine, ORDER_MEASURE, false, ROLE_VALUES, i);
        if (routine->estimates)
            add_order(routine, ORDER_MEASURE, false, ROLE_DISTANCES, i);
    }
    for (int i = 0; i < outputs && task->out_kind == OUT_REGION; i++)
        add_order(routine, ORDER_WRITE, true, ROLE_WRITE, i);
}

static bool take_arrays(struct task *task, struct field **fields, int count,
                        struct failure *failure)
{
    for (int i = 0; i < count; i++)
        if (!(fields[i] = admission_new_array(task, &task->type, failure)))
            return false;
    return true;
}

static bool take_result(struct task *task, struct failure *failure)
{
    const uint64_t bytes = measure_bytes(job_points(&task->job));
    const struct array_type type = {
        .dtype = DTYPE_F64, .dimensions = 1, .shape = {bytes / 8}, .bytes = bytes};
    return (task->routine->result = admission_new_array(task, &type, failure)) != NULL;
}

/* The block without the probes, which come last in it. */
static bool take_block(struct task *task, struct failure *failure)
{
    struct job estimate;
    estimate_job(&task->job, true, &estimate);
    const uint64_t bytes = estimate.more.block_bytes;
    if (bytes == task->job.more.block_bytes || bytes == 0)
        return true;
    if (!admission_charge(task, bytes, failure))
        return false;
    if (!(task->routine->block = malloc(bytes)))
        return failure_set(failure, STATUS_OUT_OF_MEMORY, NULL, "the server is out of memory");
    memcpy(task->routine->block, task->block, bytes);
    return true;
}

/* A routine of the task with room for so many steps; NULL with the failure set. */
static struct routine *new_routine(struct task *task, uint32_t steps, struct failure *failure)
{
    if (!task_charge(task, sizeof(struct routine) + steps * sizeof(struct step), failure))
        return NULL;
    struct routine *routine = calloc(1, sizeof *routine);
    if (!routine || !program_init(&routine->program, steps)) {
        free(routine);
        failure_set(failure, STATUS_OUT_OF_MEMORY, NULL, "the server is out of memory");
        return NULL;
    }
    list_init(&routine->access.link);
    return task->routine = routine;
}

bool routine_make(struct task *task, const struct request *request, struct failure *failure)
{
    const struct routine_needs needs = routine_needs(request, &task->job);
    const int outputs = job_outputs(&task->job);
    struct routine *routine = new_routine(task, STEPS_MOST, failure);
    if (!routine)
        return false;
    routine->cfl = request->cfl;
    routine->every = request->every;
    routine->snapshot = request->snapshot;
    routine->reports = request->report;
    routine->estimates = needs.estimates;
    if (!routine_check(request, &task->job, failure))
        return false;
    if (routine->estimates &&
        (!take_arrays(task, routine->finer, outputs, failure) ||
         !take_arrays(task, routine->same, job_has_steps(&task->job), failure) ||
         !take_arrays(task, routine->work, estimate_scratch(&task->job), failure) ||
         !take_block(task, failure)))
        return false;
    if (needs.result_bytes && !take_result(task, failure))
        return false;
    if (needs.in_place && routine->snapshot == SNAPSHOT_FIELD &&
        !take_arrays(task, &routine->fresh, 1, failure))
        return false;
    compose(task, request);
    return true;
}

bool routine_make_link(struct task *link, const struct request *request, struct failure *failure)
{
    if (!job_measures(&link->job))
        return true;
    if (!new_routine(link, 0, failure))
        return false;
    link->routine->cfl = request->cfl;
    return take_result(link, failure);
}

/* Rounds in one part: a power of two, since in some chains it is every other round that is the same
 * to the bit, arrays and all. */
static uint64_t part_rounds(const struct chain *chain)
{
    uint64_t rounds = 1;
    while (2 * rounds * chain->count <= CHAIN_PART && 2 * rounds <= chain->repeat)
        rounds *= 2;
    return rounds;
}

static void add_rounds(struct task *task, uint64_t rounds)
{
    const struct chain *chain = task->chain;
    const uint64_t part = part_rounds(chain);
    for (uint64_t round = 1; round <= rounds; round++)
        for (uint32_t i = 0; i < chain->count; i++)
            add_order(task->routine, ORDER_RUN, false, ROLE_LINK, (int)i)->ends_round =
                i + 1 == chain->count && (round % part == 0 || round == rounds);
}

static uint64_t rounds_ahead(const struct chain *chain)
{
    uint64_t block_bytes = 0;
    for (uint32_t i = 0; i < chain->count; i++)
        block_bytes += chain->link[i]->job.more.block_bytes;
    const uint64_t parts = CHAIN_AHEAD / CHAIN_PART;
    return block_bytes > CHAIN_BLOCK_BYTES ? 1 : parts * part_rounds(chain);
}

bool routine_make_chain(struct task *task, struct failure *failure)
{
    const struct chain *chain = task->chain;
    const uint64_t most = rounds_ahead(chain);
    const uint64_t ahead = chain->repeat < most ? chain->repeat : most;
    const uint64_t steps = (ahead + chain->repeat % ahead + AXIS_COUNT + 1) * chain->count + 1;
    struct routine *routine = new_routine(task, (uint32_t)steps, failure);
    if (!routine)
        return false;
    for (uint32_t i = 0; i < chain->count; i++)
        if (job_measures(&chain->link[i]->job))
            add_order(routine, ORDER_MEASURE, false, ROLE_COEFFICIENT, (int)i);
    if (routine->program.count > 0)
        program_add(&routine->program, STEP_JUDGE, true);
    const uint32_t first = routine->program.count;
    add_rounds(task, ahead);
    program_repeat(&routine->program, first, chain->repeat / ahead);
    add_rounds(task, chain->repeat % ahead);
    for (uint32_t i = 0; i < chain->count; i++)
        for (int c = 0; c < job_outputs(&chain->link[i]->job); c++)
            if (chain->link[i]->out_kind == OUT_REGION)
                add_order(routine, ORDER_WRITE, true, ROLE_LINK_WRITE, (int)i * AXIS_COUNT + c);
    return true;
}

static void let_go(struct field **field)
{
    field_release(*field);
    *field = NULL;
}

static void leave_snapshot(struct routine *routine)
{
    field_access_end(&routine->access);
    let_go(&routine->taken);
}

void routine_release(struct routine *routine)
{
    if (!routine)
        return;
    leave_snapshot(routine);
    let_go(&routine->fresh);
    let_go(&routine->same[0]);
    let_go(&routine->result);
    for (int i = 0; i < AXIS_COUNT; i++) {
        let_go(&routine->finer[i]);
        let_go(&routine->work[i]);
    }
    free(routine->block); /* charged as the task's is, and with it no longer */
    routine->block = NULL;
}

void routine_free(struct routine *routine)
{
    if (!routine)
        return;
    routine_release(routine);
    program_free(&routine->program);
    free(routine);
}

uint64_t routine_bytes(const struct routine *routine)
{
    if (!routine)
        return 0;
    uint64_t bytes = 0;
    const struct field *const arrays[] = {routine->fresh,    routine->same[0],  routine->result,
                                          routine->finer[0], routine->finer[1], routine->finer[2],
                                          routine->work[0],  routine->work[1],  routine->work[2]};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        bytes += arrays[i] ? arrays[i]->type.bytes : 0;
    return bytes;
}

int64_t routine_cost_ns(const struct flow *flow, const struct job *job, bool estimates)
{
    struct job estimate;
    int64_t ns = 0;
    for (int finer = 0; finer < 2 && estimates; finer++) {
        estimate_job(job, finer, &estimate);
        if (finer || job_has_steps(job))
            ns += schedule_estimate(flow, &estimate);
    }
    return ns;
}

/* --- its steps --- */

/* It begins from what has been reached, or else from the task's input. */
static void begin_from(struct order *order, struct field *reached)
{
    if (!reached)
        return;
    order->in[0] = reached;
    order->in_place = NULL;
}

static void set_steps(struct task *task, struct step *step)
{
    struct routine *routine = task->routine;
    const bool is_last = step->role == ROLE_LAST;
    step->job.steps = is_last ? task->job.steps - routine->steps_done : routine->every;
    begin_from(&step->order, routine->reached);
    if (!is_last && routine->snapshot == SNAPSHOT_FIELD)
        step->order.out[0] = routine->fresh;
}

static void set_estimate(struct task *task, struct step *step)
{
    struct routine *routine = task->routine;
    struct order *order = &step->order;
    estimate_job(&task->job, step->role == ROLE_FINER, &step->job);
    for (int i = 0; i < AXIS_COUNT; i++)
        order->out[i] = step->role == ROLE_FINER ? routine->finer[i] : NULL;
    if (step->role == ROLE_SAME)
        order->out[0] = routine->same[0];
    memcpy(order->scratch, routine->work, sizeof order->scratch);
    order->progress = false;
    order->operand[OPERAND_PROBES] = NULL;
    if (job_has_steps(&task->job))
        begin_from(order, task->out[0]);
    if (routine->block) {
        order->block = routine->block;
        job_block_key(routine->block, step->job.more.block_bytes, step->job.more.block_key);
    }
}

static void set_measure(const struct task *task, struct step *step)
{
    const struct routine *routine = task->routine;
    struct order *order = &step->order;
    const int i = step->component;
    struct field *of = step->role == ROLE_COEFFICIENT ? task->operand[OPERAND_COEFFICIENT]
                       : step->role == ROLE_VALUES    ? task->out[i]
                       : job_has_steps(&task->job)    ? routine->same[0]
                                                      : task->out[i];
    memset(order->in, 0, sizeof order->in);
    memset(order->out, 0, sizeof order->out);
    order->in[0] = of;
    order->in[1] = step->role == ROLE_DISTANCES ? routine->finer[i] : NULL;
    order->out[0] = routine->result;
}

/* Of a link of a chain: a measure of its κ, its run, or a copy of what it gave. */
static void set_link(struct task *task, struct step *step)
{
    const bool writes = step->role == ROLE_LINK_WRITE;
    const int component = writes ? step->component % AXIS_COUNT : 0;
    struct task *link = task->chain->link[writes ? step->component / AXIS_COUNT : step->component];
    struct order *order = &step->order;
    const enum order_kind kind = order->kind;
    order_init(order, link);
    order->task = task;
    order->kind = kind;
    order->chain = task->id;
    order->ends_round = step->ends_round;
    order->out_place = writes ? &link->out_place[component] : NULL;
    if (writes)
        order->in[0] = link->out[component];
    if (step->role == ROLE_COEFFICIENT)
        set_measure(link, step);
}

/* Of a task of one operator. */
static void set_order(struct task *task, struct step *step)
{
    struct order *order = &step->order;
    const enum order_kind kind = order->kind;
    order_init(order, task);
    order->kind = kind;
    order->job = &step->job;
    order->out_place = NULL; /* the result goes there when all is done */
    step->job = task->job;
    if (step->role == ROLE_SEGMENT || (step->role == ROLE_LAST && job_has_steps(&task->job)))
        set_steps(task, step);
    else if (kind == ORDER_RUN && step->role != ROLE_LAST)
        set_estimate(task, step);
    else if (kind == ORDER_MEASURE)
        set_measure(task, step);
    if (kind == ORDER_WRITE) {
        order->in[0] = task->out[step->component];
        order->out_place = &task->out_place[step->component];
    }
}

static void give_order(struct task *task, struct step *step)
{
    if (task->chain)
        set_link(task, step);
    else
        set_order(task, step);
    task_order(task, &step->order, ++task->jobs->last_task);
}

/* The time steps of the jobs whose κ the program begins with measuring. */
static bool judge(struct task *task)
{
    struct failure *failure = &task->routine->failure;
    for (const struct step *step = task->routine->program.step; step->kind == STEP_ORDER; step++) {
        struct task *of = task->chain ? task->chain->link[step->component] : task;
        const struct measured *k = &step->order.measured;
        if (request_job_measured(&of->job, of->routine->cfl, k->nan > 0 ? NAN : k->min, k->max,
                                 (double)task->jobs->config->max_work, failure))
            continue;
        if (task->chain)
            request_chain_place(NULL, failure, (uint32_t)step->component);
        return false;
    }
    return true;
}

/* The snapshot's array becomes a field, and another one takes its place. */
static bool publish(struct task *task)
{
    struct routine *routine = task->routine;
    struct failure *failure = &routine->failure;
    struct field *field = routine->fresh;
    if (field_publish(field, failure)) {
        leave_snapshot(routine);
        routine->taken = field;
        routine->fresh = NULL;
        field_access(field, &routine->access, task, false); /* nobody else has heard of it */
        routine->reached = field;
        if (routine->program.round < routine->program.rounds)
            routine->fresh = field_new(task->jobs->devices, task->user, &task->type, failure);
    }
    if (failure->code)
        snprintf(failure->parameter, sizeof failure->parameter, "snapshot");
    return routine->taken == field;
}

/* [2, "snapshot", [{"msgid", "step", "time", "out"}]]. False: there is no memory for it. */
static bool tell(struct task *task, struct field *field)
{
    const struct routine *routine = task->routine;
    struct answer answer;
    answer_init(&answer);
    reply_write_snapshot(&answer.packer, task->msgid, routine->steps_done,
                         (double)routine->steps_done * task->job.dt);
    if (routine->snapshot == SNAPSHOT_FIELD)
        reply_write_field(&answer.packer, field->id, &field->type);
    else
        answer_array(&answer, field);
    if (!answer.text.size)
        return failure_set(&task->routine->failure, STATUS_OUT_OF_MEMORY, "snapshot",
                           "the server has no memory for the snapshot's message");
    task->jobs->calls->snapshot(task->client->outbox, &answer, task);
    schedule_rest(&task->entry, true);
    return true;
}

/* Nobody was told of the snapshot's field. */
static void withdraw_taken(const struct routine *routine)
{
    if (routine->taken && routine->taken->id)
        field_withdraw(routine->taken);
}

/* False: it could not be taken. */
static bool take_snapshot(struct task *task, struct step *step)
{
    struct routine *routine = task->routine;
    routine->reached = task->out[0];
    if (routine->snapshot == SNAPSHOT_FIELD && !publish(task))
        return false;
    if (task->client) {
        const bool told = tell(task, routine->reached);
        if (!told)
            withdraw_taken(routine);
        return told;
    }
    program_ended(&routine->program, step); /* nobody is there to be told */
    return true;
}

/* False: the routine is broken. */
static bool begin(struct task *task, struct step *step)
{
    struct routine *routine = task->routine;
    if (step->kind == STEP_ORDER) {
        if (routine->failure.code) { /* there is no array for the next snapshot */
            program_ended(&routine->program, step);
            return false;
        }
        give_order(task, step);
        return true;
    }
    if (step->kind == STEP_SNAPSHOT && take_snapshot(task, step))
        return true;
    const bool ok = step->kind == STEP_JUDGE && judge(task);
    program_ended(&routine->program, step);
    return ok;
}

enum routine_state routine_go_on(struct task *task)
{
    struct routine *routine = task->routine;
    for (struct step *step; (step = program_next(&routine->program));)
        if (!begin(task, step))
            routine->program.broken = true;
    if (!program_is_done(&routine->program))
        return ROUTINE_GOES_ON;
    return routine->program.broken ? ROUTINE_FAILED : ROUTINE_DONE;
}

/* What the measure says goes into the report. */
static void note(const struct task *task, const struct step *step)
{
    if (task->chain) {
        if (step->role == ROLE_LINK)
            chain_link_ended(task->chain, (uint32_t)step->component);
        return;
    }
    struct reply_report *report = &task->routine->report[step->component];
    const struct measured *measured = &step->order.measured;
    const double numbers = (double)job_points(&task->job) - measured->nan;
    if (step->role == ROLE_VALUES) {
        const double dt_max = job_has_steps(&task->job) ? job_dt_max(&task->job) : 0;
        report->has_values = numbers > 0;
        report->min = measured->min;
        report->max = measured->max;
        report->mean = measured->sum / numbers;
        report->nan = (uint64_t)measured->nan;
        report->has_stability = dt_max > 0 && isfinite(dt_max);
        report->stability = task->job.dt / dt_max;
    } else if (step->role == ROLE_DISTANCES) {
        const double times = job_has_steps(&task->job) ? (double)task->job.steps : 1;
        report->has_error = numbers > 0;
        report->error_max = times * measured->max;
        report->error_rms = times * sqrt(measured->sum / numbers);
    }
}

static void cancel_orders(const struct task *task)
{
    struct program *program = &task->routine->program;
    program->broken = true;
    for (uint32_t i = 0; i < program->count; i++)
        if (program->step[i].kind == STEP_ORDER && program->step[i].under_way)
            device_cancel(task->device, &program->step[i].order);
}

void routine_order_ended(struct task *task, struct order *order, enum status status)
{
    struct routine *routine = task->routine;
    struct step *step = LIST_ENTRY(order, struct step, order);
    program_ended(&routine->program, step);
    if (status == STATUS_OK && step->role == ROLE_SEGMENT)
        routine->steps_done += routine->every;
    else if (status == STATUS_OK)
        note(task, step);
    if (status == STATUS_OK || routine->program.broken)
        return;
    failure_set(&routine->failure, status, NULL, "%s", status_text(status));
    cancel_orders(task);
}

void routine_snapshot_ended(struct task *task)
{
    struct program *program = &task->routine->program;
    schedule_rest(&task->entry, false);
    for (uint32_t i = 0; i < program->count; i++)
        if (program->step[i].kind == STEP_SNAPSHOT && program->step[i].under_way)
            program_ended(program, &program->step[i]);
}

/* The snapshot does not go out. */
static bool withdraw_snapshot(struct task *task)
{
    if (!task->jobs->calls->withdraw(task->snapshot))
        return false;
    withdraw_taken(task->routine);
    return true;
}

bool routine_stop(struct task *task)
{
    cancel_orders(task);
    if (!task->snapshot || withdraw_snapshot(task))
        routine_snapshot_ended(task);
    return task->routine->program.under_way > 0;
}

void routine_tear(struct task *task)
{
    const struct field *reached = task->routine->reached;
    if (task->routine->steps_done && task->out[0] && reached == task->out[0] &&
        task->out[0]->resident)
        task->out[0]->torn = true;
    if (task->chain)
        chain_tear(task->chain);
}
