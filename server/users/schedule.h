/* Which user's job goes to a device's worker next. Pure bookkeeping: no device, no memory.
 *
 * Users share the time of a device evenly, by start-time fair queueing with several jobs handed
 * over at once: SFQ (Goyal, Vin and Cheng, IEEE/ACM ToN 5(5), 1997), SFQ(D) (Jin, Chase and Kaur,
 * SIGMETRICS 2004). A user's work begins, in virtual time, where the user's previous work ends, but
 * not before the device's virtual time: the start of the job that was handed over last. So no user
 * saves up time by being idle, and a newcomer stands level with the others. The cost of a job is
 * estimated beforehand and corrected when it is known, less the time in which its user was the only
 * one with jobs on the device.
 *
 * Among one user's jobs the highest priority goes first, then the earliest.
 *
 * A job that was handed over cannot be called back, and the worker shares its turns among all of
 * them. So a user's jobs are handed over only as far as keeps the device busy during a round trip:
 * SCHEDULE_USER_NS of small jobs, enough to be grouped, or two larger ones. Long jobs are handed
 * over one at a time, beside the short ones, which do not wait for them; so are lasting jobs, of
 * seconds to days, beside the long ones. A user who has had more device time than another with jobs
 * at the worker has one job there at a time, so that the worker's turns even out the shares. A user
 * without a job at the worker never waits: no bulk of jobs delays an interactive one. */
#pragma once

#include "numerics/job.h"
#include "base/list.h"

enum {
    SCHEDULE_USER_NS = 250 * 1000,                /* about three slabs of 4 MiB over PCIe */
    SCHEDULE_LONG_NS = 20 * 1000 * 1000,          /* a long job, from here on */
    SCHEDULE_LASTING_NS = 2 * 1000 * 1000 * 1000, /* one that lasts */
    SCHEDULE_USER_JOBS = 128,
    SCHEDULE_KINDS = OPERATOR_COUNT * 2 * 4, /* operator, dtype, accuracy */
    SCHEDULE_SIZES = 16, /* classes of jobs by their points, a factor of four each */
    SCHEDULE_PLANS = 16  /* of jobs with coordinates, that a flow remembers */
};

struct schedule {
    uint64_t (*clock)(void); /* nanoseconds, from anywhere */
    struct list flows;       /* of users who have jobs here, waiting or with the worker */
    uint64_t alone_since_ns; /* by the clock, where there is one flow; 0: there is none, or more */
    int64_t now_ns;          /* virtual time */
    int64_t latest_ns;       /* the latest end of the work of flows that have left */
    uint64_t jobs;           /* waiting */
};

enum length { SHORT, LONG, LASTING, LENGTHS };

/* A user's part of a schedule. */
struct flow {
    struct list link;
    struct list waiting[LENGTHS]; /* struct entry, in the order in which they will go */
    int64_t start_ns;             /* of its next job, in virtual time */
    uint32_t handed[LENGTHS];     /* that are with the worker */
    int64_t handed_ns;            /* estimated, of the short ones of these */
    uint32_t resting;             /* of them all */
    /* Of the one that is with the worker and not short: since when, by the clock, and for how long
     * of that no other flow was there. */
    uint64_t since_ns[LENGTHS];
    int64_t alone_ns[LENGTHS];
    /* Of the user's own jobs, so that no estimate tells of others': nanoseconds a point and pass;
     * 0: not known yet. */
    double rate[SCHEDULE_KINDS][SCHEDULE_SIZES];
    /* Keys of the latest jobs with coordinates, whose plans the worker has made. */
    uint64_t planned[SCHEDULE_PLANS][2];
    uint32_t plans; /* so many were remembered; the next takes the place of the oldest */
    /* By the clock: when it will have been without jobs for as long as it was ahead of virtual time
     * as it left. From then on a newcomer may stand in its place. */
    uint64_t level_ns;
};

/* A job in a schedule. */
struct entry {
    struct list link;
    struct flow *flow;
    int priority;
    uint64_t arrival; /* a number that rises */
    int64_t cost_ns;  /* estimated */
    bool rests;       /* handed over, and for now it wants nothing of the device */
    /* Hand it over: its turn has come. The caller of schedule_next() calls it. */
    void (*begin)(struct entry *entry);
};

/* The estimated time of a user's job on the device, by the user's earlier jobs; a guess if none was
 * like it. */
int64_t schedule_estimate(const struct flow *flow, const struct job *job);
/* The estimated time in which the worker makes the plan of a user's job with coordinates, and does
 * nothing else; 0: it has none, or the plan was made for one of the user's latest jobs. */
int64_t schedule_plan(const struct flow *flow, const struct job *job);
/* Learn from the time that a job has taken on the device. */
void schedule_learn(struct flow *flow, const struct job *job, uint64_t device_us);

/* The same in nanoseconds, and no less than anything takes. */
int64_t schedule_time(uint64_t device_us);
/* The estimated time of a copy between a client's region and the device. */
int64_t schedule_copy(uint64_t bytes);

/* Several short ones of a user may be with the worker. */
bool schedule_is_short(const struct entry *entry);

/* A job waits for its turn: priority, arrival and cost_ns are set. */
void schedule_add(struct schedule *schedule, struct flow *flow, struct entry *entry);
/* It waits no longer, and was not handed over. */
void schedule_remove(struct schedule *schedule, struct entry *entry);

/* The job to hand over now, which is with the worker from here on; NULL: none. Call it until then,
 * whenever something was added or is done. */
struct entry *schedule_next(struct schedule *schedule);
/* A job that was handed over waits for its client, or does so no longer: meanwhile others do not
 * wait for its user to get as much as they have had. */
void schedule_rest(struct entry *entry, bool rests);
/* A job that was handed over is done, or lost: it has taken that long. */
void schedule_done(struct schedule *schedule, struct entry *entry, int64_t device_ns);
