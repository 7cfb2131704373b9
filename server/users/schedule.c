#include "server/users/schedule.h"

#include <string.h>

/* A first guess, on the long side: one core of a host is about that fast. It is set right by the
 * first job that ends. */
#define GUESS_NS_A_POINT 1.0
#define LEAST_NS 1000
#define PLAN_NS_A_COORDINATE 15000 /* weights in 113 bits, on one core */
#define COPIED_A_NS 100            /* bytes, both ways at once, over PCIe 5 x16 */
#define MOST_NS (INT64_C(1) << 50) /* two weeks: sums of them stay far inside 64 bits */

/* A new figure counts one in so many. */
enum { MEMORY = 8 };

static double flow_work_of(const struct job *job)
{
    const int arrays = job_inputs(job) + job_outputs(job);
    return (double)job_points(job) * (double)job_passes(job) * job_point_work(job) * arrays / 2;
}

static int size_of(const struct job *job)
{
    int size = 0;
    for (uint64_t points = job_points(job) >> 10; points && size < SCHEDULE_SIZES - 1; points >>= 2)
        size++;
    return size;
}

static int kind_of(const struct job *job)
{
    const int accuracy = job->accuracy > 8 ? 8 : job->accuracy; /* 10 is for estimates alone */
    return (job->operator_id * 2 + job->dtype) * 4 + accuracy / 2 - 1;
}

/* The rate of the size, or of the nearest that is known. Sizes differ: a launch costs more than the
 * points of a small field. */
static double rate_near(const double rates[SCHEDULE_SIZES], int size)
{
    for (int away = 0; away < SCHEDULE_SIZES; away++) {
        if (size + away < SCHEDULE_SIZES && rates[size + away] > 0)
            return rates[size + away];
        if (size >= away && rates[size - away] > 0)
            return rates[size - away];
    }
    return GUESS_NS_A_POINT;
}

static int64_t bounded(double ns)
{
    return ns < LEAST_NS ? LEAST_NS : ns > (double)MOST_NS ? MOST_NS : (int64_t)ns;
}

int64_t schedule_estimate(const struct flow *flow, const struct job *job)
{
    return bounded(flow_work_of(job) * rate_near(flow->rate[kind_of(job)], size_of(job)));
}

int64_t schedule_time(uint64_t device_us)
{
    return bounded((double)device_us * 1e3);
}

int64_t schedule_copy(uint64_t bytes)
{
    return (int64_t)(bytes / COPIED_A_NS);
}

/* A job's key is the same however many of its steps are run. */
static bool has_plan(const struct flow *flow, const struct job *job, uint64_t key[2])
{
    struct job one = *job;
    one.steps = 1;
    job_block_key(&one, sizeof one, key);
    for (int i = 0; i < SCHEDULE_PLANS; i++)
        if (memcmp(flow->planned[i], key, sizeof flow->planned[i]) == 0)
            return true;
    return false;
}

int64_t schedule_plan(const struct flow *flow, const struct job *job)
{
    uint64_t key[2];
    if (!job->more.coordinates || has_plan(flow, job, key))
        return 0;
    const uint64_t coordinates = job_block_part(job, BLOCK_OFFSETS) / sizeof(double);
    return (int64_t)(coordinates * PLAN_NS_A_COORDINATE);
}

void schedule_learn(struct flow *flow, const struct job *job, uint64_t device_us)
{
    uint64_t key[2];
    if (job->more.coordinates && !has_plan(flow, job, key))
        memcpy(flow->planned[flow->plans++ % SCHEDULE_PLANS], key, sizeof key);
    double *rate = &flow->rate[kind_of(job)][size_of(job)];
    const double seen = (double)schedule_time(device_us) / flow_work_of(job);
    *rate += *rate > 0 ? (seen - *rate) / MEMORY : seen;
}

static enum length length_of(const struct entry *entry)
{
    return entry->cost_ns < SCHEDULE_LONG_NS      ? SHORT
           : entry->cost_ns < SCHEDULE_LASTING_NS ? LONG
                                                  : LASTING;
}

bool schedule_is_short(const struct entry *entry)
{
    return length_of(entry) == SHORT;
}

/* What its user is charged when it goes. Of a long job the rest follows when it is done: its end is
 * far, and what it has not had yet must not count for it as if it had. */
static int64_t charge_of(const struct entry *entry)
{
    return length_of(entry) == SHORT ? entry->cost_ns : SCHEDULE_LONG_NS;
}

static bool goes_before(const struct entry *a, const struct entry *b)
{
    return a->priority != b->priority ? a->priority > b->priority : a->arrival < b->arrival;
}

static bool waits(const struct flow *flow)
{
    for (int length = 0; length < LENGTHS; length++)
        if (!list_empty(&flow->waiting[length]))
            return true;
    return false;
}

/* The number of its jobs that are with the worker. */
static uint32_t handed_by(const struct flow *flow)
{
    uint32_t handed = 0;
    for (int length = 0; length < LENGTHS; length++)
        handed += flow->handed[length];
    return handed;
}

/* The one flow that is there; NULL: there is none, or more. */
static struct flow *only_flow(const struct schedule *schedule)
{
    const struct list *const flows = &schedule->flows;
    return list_begin(flows) == list_last(flows) ? LIST_FIRST(flows, struct flow, link) : NULL;
}

/* Count the time in which the flow had the device alone for its jobs that are not short, until now.
 */
static void count_alone(struct schedule *schedule, struct flow *flow)
{
    if (!schedule->alone_since_ns)
        return;
    const uint64_t now_ns = schedule->clock();
    for (int length = LONG; length < LENGTHS; length++) {
        const uint64_t since_ns = flow->since_ns[length] > schedule->alone_since_ns
                                      ? flow->since_ns[length]
                                      : schedule->alone_since_ns;
        const uint64_t alone_ns = flow->handed[length] ? now_ns - since_ns : 0;
        flow->alone_ns[length] += alone_ns < (uint64_t)MOST_NS ? (int64_t)alone_ns : MOST_NS;
    }
    schedule->alone_since_ns = now_ns;
}

/* A flow comes or has gone. */
static void flows_changed(struct schedule *schedule)
{
    schedule->alone_since_ns = only_flow(schedule) ? schedule->clock() : 0;
}

void schedule_add(struct schedule *schedule, struct flow *flow, struct entry *entry)
{
    if (list_empty(&flow->link)) {
        struct flow *const only = only_flow(schedule);
        if (only)
            count_alone(schedule, only);
        list_push(&schedule->flows, &flow->link);
        flows_changed(schedule);
    }
    if (!waits(flow) && flow->start_ns < schedule->now_ns)
        flow->start_ns = schedule->now_ns;
    /* From the end: most come in the order in which they go. */
    struct list *const waiting = &flow->waiting[length_of(entry)];
    struct list *after = list_last(waiting);
    while (after != waiting && goes_before(entry, LIST_ENTRY(after, struct entry, link)))
        after = after->prev;
    list_push_front(after, &entry->link);
    entry->flow = flow;
    schedule->jobs++;
}

/* A flow without jobs leaves. When the last has left, all stand evenly again. */
static void settle_flow(struct schedule *schedule, struct flow *flow)
{
    if (handed_by(flow) || waits(flow))
        return;
    list_remove(&flow->link);
    flows_changed(schedule);
    if (flow->start_ns > schedule->latest_ns)
        schedule->latest_ns = flow->start_ns;
    if (list_empty(&schedule->flows) && schedule->latest_ns > schedule->now_ns)
        schedule->now_ns = schedule->latest_ns;
    const int64_t ahead_ns = flow->start_ns - schedule->now_ns;
    flow->level_ns = ahead_ns > 0 ? schedule->clock() + (uint64_t)ahead_ns : 0;
}

void schedule_remove(struct schedule *schedule, struct entry *entry)
{
    list_remove(&entry->link);
    schedule->jobs--;
    settle_flow(schedule, entry->flow);
}

/* Has another user, whose jobs at the worker want the device, had less time by more than a user's
 * part? */
static bool is_ahead(const struct schedule *schedule, const struct flow *flow)
{
    LIST_EACH (const struct flow, other, &schedule->flows, link) {
        if (other != flow && handed_by(other) > other->resting &&
            flow->start_ns - other->start_ns > SCHEDULE_USER_NS)
            return true;
    }
    return false;
}

/* May a job of that length go beside the user's own that are with the worker? One always may: the
 * others may need less than their part, and must not wait for each other. */
static bool may_go(const struct schedule *schedule, const struct flow *flow, enum length length)
{
    const uint32_t handed = flow->handed[length];
    if (!handed || length != SHORT)
        return !handed;
    const uint32_t most = flow->handed_ns < SCHEDULE_USER_NS ? SCHEDULE_USER_JOBS : 2;
    return handed < most && !is_ahead(schedule, flow);
}

/* The user's job that would go next; NULL: none may. */
static struct entry *next_of(const struct schedule *schedule, const struct flow *flow)
{
    struct entry *next = NULL;
    for (int length = 0; length < LENGTHS; length++) {
        struct entry *first = LIST_FIRST(&flow->waiting[length], struct entry, link);
        if (first && (!next || goes_before(first, next)) &&
            may_go(schedule, flow, (enum length)length))
            next = first;
    }
    return next;
}

/* Does its user's work start before the other's? Of those that start together, the job that came
 * first. */
static bool starts_before(const struct entry *a, const struct entry *b)
{
    return a->flow->start_ns != b->flow->start_ns ? a->flow->start_ns < b->flow->start_ns
                                                  : a->arrival < b->arrival;
}

struct entry *schedule_next(struct schedule *schedule)
{
    struct entry *next = NULL;
    if (!schedule->jobs)
        return NULL;
    LIST_EACH (struct flow, flow, &schedule->flows, link) {
        struct entry *one = next_of(schedule, flow);
        if (one && (!next || starts_before(one, next)))
            next = one;
    }
    if (!next)
        return NULL;
    struct flow *flow = next->flow;
    list_remove(&next->link);
    schedule->jobs--;
    if (flow->start_ns > schedule->now_ns)
        schedule->now_ns = flow->start_ns;
    flow->start_ns += charge_of(next);
    flow->handed[length_of(next)]++;
    if (length_of(next) == SHORT) {
        flow->handed_ns += next->cost_ns;
    } else {
        flow->since_ns[length_of(next)] = schedule->clock();
        flow->alone_ns[length_of(next)] = 0;
    }
    return next;
}

void schedule_rest(struct entry *entry, bool rests)
{
    entry->flow->resting += (uint32_t)rests - (uint32_t)entry->rests;
    entry->rests = rests;
}

void schedule_done(struct schedule *schedule, struct entry *entry, int64_t device_ns)
{
    struct flow *flow = entry->flow;
    schedule_rest(entry, false);
    if (device_ns > MOST_NS)
        device_ns = MOST_NS;
    if (length_of(entry) != SHORT) {
        count_alone(schedule, flow);
        const int64_t alone_ns = flow->alone_ns[length_of(entry)];
        device_ns = device_ns > alone_ns ? device_ns - alone_ns : 0;
    }
    flow->start_ns += device_ns - charge_of(entry);
    flow->handed[length_of(entry)]--;
    if (length_of(entry) == SHORT)
        flow->handed_ns -= entry->cost_ns;
    settle_flow(schedule, flow);
}
