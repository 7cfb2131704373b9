/* An order to a group on its way through its rounds: group.c takes it on and ends it, group_round.c
 * has what a round does, group_measure.c what a measure's does,
 * group_probes.c what becomes of values at probes. */
#pragma once

#include "server/devices/group.h"
#include "server/users/arena.h"

enum { RUN_ARRAYS = 3 * AXIS_COUNT + OPERANDS, RUN_INPUTS = AXIS_COUNT + OPERANDS };

/* A member's part of a round. It waits in the member's schedule for its turn, as a task does. */
struct group_part {
    struct entry entry; /* in the member's schedule */
    struct device *member;
    enum { PART_ENDED, PART_WAITS, PART_HANDED_OVER } state;
    struct order order;
    struct region_use place; /* of a copy from or to a region */
    struct subdomain_job job;
    uint8_t *block;  /* owned */
    uint32_t number; /* of its subdomain */
    bool told;       /* of own planes: their edges are there */
    bool idle;       /* it has nothing to do in this leg */
};

/* What is gathered of the values at a run's probes, some rows at a time. */
enum { PROBES_FROM, PROBES_TO, PROBES_SLABS };
struct group_probes {
    struct slab *slab[PROBES_SLABS]; /* a member's rows; those of all members. NULL: not taken */
    struct slab_waiter waiter;
    uint64_t row, rows; /* the first of them, and how many */
    uint32_t member;    /* whose come next */
};

/* An order to the group until all of its parts have ended. */
struct group_run {
    struct list link;
    struct device *device;    /* the group's */
    struct order *order;      /* NULL: a member was lost, and its task fails */
    struct decomposition cut; /* of a RUN */
    /* The order's, all referenced: */
    union {
        struct {
            struct field *in[AXIS_COUNT], *out[AXIS_COUNT], *scratch[AXIS_COUNT];
            struct field *operand[OPERANDS];
        };
        struct field *array[RUN_ARRAYS];
    };
    enum {
        GROUP_WAITING,
        GROUP_READING, /* inputs from regions, one component after another */
        GROUP_EXCHANGING,
        GROUP_COMPUTING,
        GROUP_GATHERING, /* values at probes */
        GROUP_WRITING    /* outputs to regions */
    } phase;
    int component;        /* the next one to be looked at: READING, WRITING */
    uint64_t done, steps; /* steps that are done, and those of this round */
    uint64_t leg;         /* of this round (numerics/subdomain.h) */
    uint32_t rounds;      /* that were ordered; of those in legs, their legs */
    uint32_t under_way;   /* orders to members, and copies; … */
    uint32_t awaited;     /* … and what the next round waits for, where it overlaps with this one:
                             edges, and their copies */
    bool refused;         /* a member cannot do its part so */
    bool own;             /* this round, or the one before, is of own planes */
    struct field *result; /* … and where the last one's result lies */
    enum status status;
    bool has_ended; /* well, but for finished() */
    bool passes_begun;
    uint64_t device_us[SUBDOMAINS_MOST]; /* of each member */
    uint64_t told_ns;                    /* when its task last heard of progress */
    struct group_probes probes;
    struct group_part part[]; /* of each member two: of this round, and of one beside it */
};

/* How many parts a run has. */
static inline uint32_t group_run_parts(const struct group *group)
{
    return 2 * group->count;
}

/* Number i, below RUN_INPUTS, of the arrays that it reads: the components of f, and operands. NULL:
 * it has none such. */
struct field *group_run_input(const struct group_run *run, int i);

/* Does its next round need ghost planes of the array that are not there? */
bool group_run_needs(const struct group_run *run, const struct field *field);

/* The first failure of a run is its status. */
void group_run_fail(struct group_run *run, enum status status);

/* Reference an array for a run, and release it; NULL is allowed. */
struct field *group_run_use(struct field *field);
void group_run_let_go(struct field *field);

/* Give each member an order to copy its planes of the next component that is to come from a region,
 * or to go there. False: there is none left. */
bool group_round_copy(struct group_run *run, enum order_kind kind);
/* Is this round the first of own planes? All but this one would be refused in vain: what they began
 * from may be overwritten. */
bool group_round_is_first_own(const struct group_run *run);
/* Is another round to follow that needs no more than this one's edges? */
bool group_round_overlaps(const struct group_run *run);
/* Copy the edges of a part's result to the neighbours' ghost planes. */
void group_round_edges(struct group_run *run, const struct group_part *part);
/* Begin the exchange of the ghost planes that the next round needs. */
void group_round_begin(struct group_run *run);
/* They have come: give each member its order, or fail the run. */
void group_round_order(struct group_run *run);
/* All parts have ended well. True: it was the last round. */
bool group_round_end(struct group_run *run);
/* Take the part, which has ended or is given up, out of the member's schedule. Once for each; later
 * calls change nothing. */
void group_part_ended(struct group_part *part, int64_t device_ns);

/* --- group_exchange.c: copies from part to part, which the next round waits for. --- */

/* Copy bytes from one member's part of an array, at an offset, to another's. */
void group_exchange_part(struct group_run *run, struct field *from, uint64_t at, struct field *to,
                         uint64_t there, uint64_t bytes);
/* Do so many planes beside the cuts of an array hold the neighbours'? Of one that is not cut: do
 * all parts hold the first one's bytes? */
bool group_exchange_has(const struct group_run *run, const struct field *field, uint64_t ghosts);
/* Copy all parts' edges to the neighbours' ghost planes; group_exchange_edges(): those of one part.
 */
void group_exchange_ghosts(struct group_run *run, struct field *field, uint64_t ghosts);
void group_exchange_edges(struct group_run *run, const struct field *field, uint32_t i,
                          uint64_t ghosts);
/* Of the scratch arrays of a job in legs, what each member is given before this leg. */
void group_exchange_leg(struct group_run *run);

/* --- group_measure.c: a measure, of two rounds if its sum counts. Each member measures the blocks
 * that begin in its subdomain, the last of them into the planes behind; then their results are
 * gathered on the first member, which joins them, in the order of the whole field. --- */

/* The planes behind a subdomain's own that its first round may read. */
uint64_t group_measure_reads(const struct group_run *run);
/* Begin to copy to each member what lies in other subdomains of its last block. */
void group_measure_fetch(struct group_run *run, struct field *field);
/* Set what the order to member i measures in this round; `ahead` is that of the own planes. False:
 * nothing. */
bool group_measure_part(const struct group_run *run, uint32_t i, struct order *order);
/* The blocks are measured: begin to copy their results to the first member. */
void group_measure_gather(struct group_run *run);
/* Is this round a measure's second? */
bool group_measure_joins(const struct group_run *run);
/* Is it the last? One block needs no second. */
bool group_measure_is_last(const struct group_run *run);

/* --- group_probes.c: each member has an array for the values at all probes, and computes those of
 * its own; in the end they come together, by way of the staging arena, in the first one's. --- */

/* Bytes of them that are of steps that are done: where the next round's follow. */
uint64_t group_probes_before(const struct group_run *run);
/* The steps are done: begin to gather them. False: the run has no probes. */
bool group_probes_gather(struct group_run *run);
/* Is their array still being copied to? */
bool group_probes_arrive(const struct group_run *run);
/* The run fails: wait for no slabs. */
void group_probes_cancel(struct group_run *run);
