/* Domain decomposition: a field cut along the slowest axis of its array into subdomains, one for
 * each member of a group of devices, and the jobs that compute a field's job in them.
 *
 *   plane   0 ................ planes − 1
 *   own     [ begin₀, end₀ )[ begin₁, end₁ ) …        of each subdomain
 *   array   ghosts, own planes, planes behind         of each member (subdomain_behind())
 *
 * A subdomain's job is an ordinary one, on its own planes and as many ghost planes as a round of
 * steps uses up. A side that is a cut is a halo: the rows beside it are those of the field's
 * interior, so every own plane has the bits that it has in the whole field. Each step makes the
 * outermost ghost planes stale; they are exchanged before the next round. */
#pragma once

#include "numerics/job.h"

__BEGIN_DECLS

enum {
    SUBDOMAIN_GHOSTS = 16, /* planes on either side of a subdomain's array: a step of RK4 at
                              accuracy 8 uses so many up. A multiple of 4, so that the own planes
                              begin at a multiple of 16 bytes */
    SUBDOMAIN_PLANES = SUBDOMAIN_GHOSTS + 1, /* least number of own planes: the neighbour's ghost
                                                planes, and the one that an endpoint repeats */
    SUBDOMAIN_EDGE = 4,                      /* planes beside a cut that go to the neighbour while
                                                the others are computed */
    SUBDOMAINS_MOST = 16
};

/* The planes of its arrays that a subdomain's job computes, where it leaves the ghost planes alone:
 * [begin, end) along the slowest axis, those of its edges first, so many on either side, since
 * neighbours wait for them. end 0: all planes, in any order. */
struct own_planes {
    uint64_t begin, end, edge[SIDE_COUNT];
};

/* A round is one leg or, of a step that must be divided, several. Of rk4 these are its stages,
 * before each of which ghost planes are exchanged: where its step reaches over more of them than
 * there are, and with an end point, beyond which they do not evolve as the planes do that they
 * repeat. Of adi its solves along the axis that is cut go through all subdomains. First come the
 * passes before such a solve. Then lines are eliminated, forward from the first subdomain to the
 * last one and back, from what the neighbour left in a ghost plane, in chunks of a plane's points,
 * so that members compute at once:
 *
 *   leg        1         2         3         4
 *   member 0   chunk 0   chunk 1
 *   member 1             chunk 0   chunk 1
 *   member 2                       chunk 0   chunk 1
 *
 * Periodic lines are closed by what the first member computes of their ends and all others are
 * given. Last come the passes after the solve. */
enum sweep {
    SWEEP_NONE,
    SWEEP_FORWARD, /* from the row before the first */
    SWEEP_BACK,    /* from the row behind the last */
    SWEEP_AROUND,  /* of the last row of the whole line, which lies before the first, and the first:
                      to there what closes the line */
    SWEEP_CLOSE    /* by what lies before the first row */
};

/* What an order does in a leg. */
struct leg {
    uint64_t from, to; /* passes of its job; to 0: all of them */
    /* enum sweep. If it is one, the job is the whole field's and its pass `from` a solve along the
     * slowest axis, of which the arrays hold the rows [begin, end), and ghosts beside them. */
    uint64_t sweep, begin, end;
    uint64_t first, last; /* the sweep is of the points [first, last) of each plane */
};

/* Planes of the whole field, or blocks of it. */
struct subdomain {
    uint64_t begin, end;
};

/* May so many planes be cut into so many subdomains? */
bool subdomain_fits(uint64_t planes, uint32_t count);
/* Number i of them. Their sizes differ by one plane at most. */
struct subdomain subdomain_of(uint64_t planes, uint32_t count, uint32_t i);

/* The blocks of a measure of the whole field (numerics/measure.h), whose planes have so many
 * elements, that begin in subdomain i: its member measures these. */
struct subdomain subdomain_blocks(uint64_t planes, uint64_t elements, uint32_t count, uint32_t i);
/* The planes behind its own for which a subdomain's array has room: SUBDOMAIN_GHOSTS, or as many as
 * the last block of any subdomain reaches over, where these are more. */
uint64_t subdomain_behind(uint64_t planes, uint64_t elements, uint32_t count);

/* Is an operand cut as the job's arrays are? Each subdomain's job has the others whole, if it has
 * them: the numbers of the cut axis's own sides, those that are the same for all fields of a batch
 * that is cut, and probes. Of the field's job or, alike, a subdomain's. */
bool subdomain_cuts(const struct job *job, int operand);
/* The bytes of an operand that go with so many bytes, of whole planes, of the job's arrays; 0: it
 * is not cut. */
uint64_t subdomain_operand_bytes(const struct job *job, int operand, uint64_t bytes);

/* A job's way through the subdomains of its arrays. */
struct decomposition {
    uint64_t planes;
    uint32_t count;
    int axis;        /* the axis that is cut; AXIS_COUNT: the batch is, without ghost planes */
    uint64_t width;  /* ghost planes that become stale in a step */
    uint64_t round;  /* steps between two exchanges, at most */
    bool wraps;      /* the first subdomain and the last one are neighbours, … */
    bool endpoint;   /* … and the last plane repeats the first */
    bool overlaps;   /* the exchange of a round's results goes beside its computing */
    bool imposed;    /* a round was done: nodes have the values that they hold */
    uint64_t legs;   /* of a round, … */
    uint64_t chunks; /* … in whose sweeps, of scheme adi, a plane goes in so many */
};

/* Go in rounds of one step, in legs: of scheme rk4 or adi, whose axis is cut. */
void decomposition_begin_legs(struct decomposition *decomposition, const struct job *job);

/* Decompose a job that passed job_check(), whose arrays have so many planes, into `count` parts.
 * False with UNSUPPORTED and the parameter: there are too few planes. Nothing else that passed the
 * check is known to be refused. */
bool decompose(const struct job *job, uint64_t planes, uint32_t count,
               struct decomposition *decomposition, struct failure *failure);

/* Go in rounds whose exchange overlaps with computing, as many steps each as devices may do at once
 * (gpu/backend.h), which may refuse still. False: the job is not of the kind that gains from it,
 * and nothing has changed. */
bool decomposition_overlap(struct decomposition *decomposition, const struct job *job);

/* Is that side of subdomain i a cut, beyond which a neighbour's planes lie? */
bool decomposition_cuts(const struct decomposition *decomposition, uint32_t i, int side);
/* Planes beside a cut that a round of so many steps computes or reads. */
uint64_t decomposition_ghosts(const struct decomposition *decomposition, uint64_t steps);

/* The part of a job that subdomain i computes in a round of `steps`. It begins `ahead` planes
 * before the first own plane. */
struct subdomain_job {
    struct job job;
    struct leg leg;
    uint64_t ahead, planes; /* planes: of each array, that are the job's */
    struct own_planes own;  /* of a decomposition that overlaps, unless values must be imposed */
};
void decomposition_job(const struct decomposition *decomposition, const struct job *job, uint32_t i,
                       uint64_t steps, struct subdomain_job *part);
/* What it does in that leg of the round. False: nothing. */
bool decomposition_leg(const struct decomposition *decomposition, const struct job *job, uint32_t i,
                       uint64_t steps, uint64_t leg, struct subdomain_job *part);

/* The scratch array of which a leg reads as many ghost planes as a round does: a stage of rk4. −1:
 * none. */
int decomposition_stage(const struct job *job, uint64_t leg);

/* What subdomain i is given before that leg: so many elements of a subdomain's scratch arrays, from
 * place `at` there to place `to`. With an end point, whose κ is its own, the last one is given what
 * its last row looks at: of κ the four planes from two before the first one on, for z, from the end
 * point on. */
struct leg_copy {
    uint32_t from;
    uint64_t at, to, elements;
    bool of[AXIS_COUNT]; /* which of the scratch arrays: δ; where κ is a field q and z; … */
    bool of_coefficient; /* … or from κ to it */
};
/* False: nothing. */
bool decomposition_copy(const struct decomposition *decomposition, const struct job *job,
                        uint32_t i, uint64_t leg, struct leg_copy *copy);

/* Write that part's block of part->job.more.block_bytes to `to`, and its key into part->job: the
 * job's block, with the part's own coordinates of the cut axis. It has as many probes as the job;
 * the values of those that lie in other subdomains are of no use. */
void decomposition_block(const struct decomposition *decomposition, const struct job *job,
                         const void *block, uint32_t i, struct subdomain_job *part, void *to);
/* The subdomain in which a probe of the job lies: of its block's BLOCK_PROBES, the first of four.
 */
uint32_t decomposition_probe(const struct decomposition *decomposition, const struct job *job,
                             const int64_t *probe);

__END_DECLS
