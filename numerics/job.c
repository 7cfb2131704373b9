#include "numerics/job.h"

#include <math.h>
#include <string.h>

const char *operator_name(enum operator_id id)
{
    static const char *const names[OPERATOR_COUNT] = {
#define OPERATOR_ROW(enumerator, name) [enumerator] = name,
        OPERATOR_LIST(OPERATOR_ROW)
#undef OPERATOR_ROW
    };
    return (unsigned)id < OPERATOR_COUNT ? names[id] : NULL;
}

const char *axis_name(enum axis axis)
{
    static const char *const names[AXIS_COUNT] = {"x", "y", "z"};
    return (unsigned)axis < AXIS_COUNT ? names[axis] : "?";
}

void job_init(struct job *job)
{
    memset(job, 0, sizeof *job);
    job->operator_id = OPERATOR_DERIVATIVE;
    job->dtype = DTYPE_F32;
    job->axes = 1;
    job->axis = AXIS_X;
    job->order = 1;
    job->accuracy = 8;
    job->batch = 1;
    job->steps = 1;
    for (int a = 0; a < AXIS_COUNT; a++) {
        job->n[a] = 1;
        job->spacing[a] = 1;
    }
}

int job_order(const struct job *job)
{
    switch (job->operator_id) {
    case OPERATOR_DERIVATIVE:
        return job->order;
    case OPERATOR_LAPLACIAN:
    case OPERATOR_DIFFUSION:
        return 2;
    case OPERATOR_BIHARMONIC:
        return 4;
    case OPERATOR_INTERPOLATE:
    case OPERATOR_STENCIL:
        return 0;
    default:
        return 1;
    }
}

bool job_takes_vector(const struct job *job)
{
    return job->operator_id == OPERATOR_DIVERGENCE || job->operator_id == OPERATOR_CURL;
}

/* The curl of a plane has one component, along z: an array. */
bool job_gives_vector(const struct job *job)
{
    return job->operator_id == OPERATOR_GRADIENT ||
           (job->operator_id == OPERATOR_CURL && job->axes == AXIS_COUNT);
}

int job_inputs(const struct job *job)
{
    return job_takes_vector(job) ? job->axes : 1;
}

int job_outputs(const struct job *job)
{
    return job_gives_vector(job) ? job->axes : 1;
}

uint64_t job_points(const struct job *job)
{
    return job->batch * job->n[AXIS_X] * job->n[AXIS_Y] * job->n[AXIS_Z];
}

uint64_t job_bytes(const struct job *job)
{
    return job_points(job) * dtype_element_bytes(job->dtype);
}

/* Along an axis of one point that is periodic, as those are that are not there, nothing flows. */
bool job_is_symmetric_split(const struct job *job)
{
    bool symmetric = job->more.scheme == SCHEME_ADI && job->more.coefficient;
    for (int a = 0; a < AXIS_COUNT; a++)
        symmetric &= !(job->n[a] == 1 && boundary_is_periodic(&job->boundary[a][SIDE_LOW]));
    return symmetric;
}

uint64_t job_step_passes(const struct job *job)
{
    switch (job->more.scheme) {
    case SCHEME_RK4:
        return 4;
    case SCHEME_ADI:
        /* A rate, its solves and their sum; symmetric, all three for each of five factors. */
        return job_is_symmetric_split(job) ? 15 : 2 + (uint64_t)job->axes;
    default:
        return 1;
    }
}

/* Where a node holds its boundary's value, it does so from the beginning on. */
bool job_imposes(const struct job *job)
{
    if (job->operator_id != OPERATOR_DIFFUSION || job->imposed)
        return false;
    for (int a = 0; a < AXIS_COUNT; a++)
        for (int side = 0; side < SIDE_COUNT; side++)
            if (boundary_is_held(&job->boundary[a][side]))
                return true;
    return false;
}

double job_point_work(const struct job *job)
{
    return fmax(1, (double)job->more.stencil_points / JOB_STENCIL_UNIT);
}

double job_work(const struct job *job)
{
    return (double)job_points(job) * (double)job->steps * (double)job_step_passes(job) *
           job_point_work(job);
}

uint64_t job_passes(const struct job *job)
{
    return job->steps * job_step_passes(job) + job_imposes(job);
}

uint64_t job_steps_done(const struct job *job, uint64_t passes)
{
    const uint64_t imposed = job_imposes(job);
    return passes < imposed ? 0 : (passes - imposed) / job_step_passes(job);
}

int job_scratch(const struct job *job, bool in_place, bool input_is_own)
{
    bool periodic = false;
    for (int a = 0; a < AXIS_COUNT; a++)
        periodic |= boundary_is_periodic(&job->boundary[a][SIDE_LOW]);
    switch (job->more.scheme) {
    case SCHEME_RK4: /* two stages in turn; the last one is added to the output in place */
        return 2;
    case SCHEME_ADI: /* the increment; with a field κ the eliminated rows, and the corner's solution
                      */
        return !job->more.coefficient ? 1 : periodic ? 3 : 2;
    default: /* passes go to and fro between two arrays, one of which is the output */
        return in_place || (job_passes(job) >= 2 && !input_is_own);
    }
}

bool job_has_axis(const struct job *job)
{
    return job->operator_id == OPERATOR_DERIVATIVE || job->operator_id == OPERATOR_INTERPOLATE;
}

bool job_is_active(const struct job *job, int axis)
{
    return axis < job->axes && (!job_has_axis(job) || axis == job->axis);
}

bool job_has_steps(const struct job *job)
{
    return job->operator_id == OPERATOR_DIFFUSION || job->operator_id == OPERATOR_STENCIL;
}

uint64_t job_block_part(const struct job *job, enum block_part part)
{
    uint64_t bytes[BLOCK_END] = {0}, at = 0;
    const struct job_whole *whole = &job->more.whole;
    for (int a = 0; a < AXIS_COUNT; a++) {
        const bool is_part = whole->n && a == job->axes - 1;
        const uint64_t n = is_part ? whole->n : job->n[a],
                       kind = is_part ? whole->kind : job->boundary[a][SIDE_LOW].kind;
        if (job->more.coordinates >> a & 1)
            bytes[BLOCK_X + a] = 8 * (n + (kind == BOUNDARY_PERIODIC));
    }
    bytes[BLOCK_OFFSETS] = (uint64_t)job->more.stencil_points * AXIS_COUNT * 4;
    bytes[BLOCK_WEIGHTS] = (uint64_t)job->more.stencil_points * 8;
    bytes[BLOCK_PROBES] = (uint64_t)job->more.probes * (AXIS_COUNT + 1) * 8;
    for (int p = 0; p < (int)part; p++)
        at += (bytes[p] + 7) / 8 * 8;
    return at;
}

void *job_block_at(const struct job *job, const void *block, enum block_part part)
{
    return (char *)(uintptr_t)block + job_block_part(job, part);
}

/* FNV-1a's steps over words, twice with different starts: quick, and no more than a key needs. */
void job_block_key(const void *block, uint64_t bytes, uint64_t key[2])
{
    const unsigned char *at = block;
    key[0] = UINT64_C(0xcbf29ce484222325);
    key[1] = UINT64_C(0x9e3779b97f4a7c15);
    for (uint64_t i = 0; i < bytes; i += 8) {
        uint64_t word = 0;
        memcpy(&word, at + i, bytes - i < 8 ? bytes - i : 8);
        for (int k = 0; k < 2; k++) {
            key[k] = (key[k] ^ word) * UINT64_C(0x100000001b3);
            key[k] ^= key[k] >> (29 + 3 * k);
        }
    }
}

/* Points of an axis's faces. */
static uint64_t face_points(const struct job *job, int axis)
{
    uint64_t points = 1;
    for (int a = 0; a < AXIS_COUNT; a++)
        points *= a == axis ? 1 : job->n[a];
    return points;
}

uint64_t job_operand_points(const struct job *job, int operand)
{
    if (operand == OPERAND_COEFFICIENT)
        return job->more.coefficient ? job_points(job) : 0;
    if (operand == OPERAND_SOURCE)
        return job->more.source ? job_points(job) : 0;
    if (operand == OPERAND_PROBES)
        return (job->steps + 1) * job->more.probes;
    if (operand < OPERAND_VALUE || operand >= OPERANDS)
        return 0;
    const int face = (operand - OPERAND_VALUE) % (AXIS_COUNT * SIDE_COUNT);
    const struct boundary *boundary = &job->boundary[face / SIDE_COUNT][face % SIDE_COUNT];
    const int number =
        operand < OPERAND_CONSTANT ? boundary->value_array : boundary->constant_array;
    return number == NUMBER_CONSTANT     ? 0
           : number == NUMBER_FACE_BATCH ? job->batch * face_points(job, face / SIDE_COUNT)
                                         : face_points(job, face / SIDE_COUNT);
}

uint64_t job_operand_bytes(const struct job *job, int operand)
{
    return job_operand_points(job, operand) * dtype_element_bytes(job->dtype);
}

struct failure_place job_axis_place(const char *parameter, int axis)
{
    return failure_place(parameter, axis_name((enum axis)axis));
}

const char *job_side_place(int axis, int side)
{
    static const char *const places[AXIS_COUNT][SIDE_COUNT] = {{"boundary x-", "boundary x+"},
                                                               {"boundary y-", "boundary y+"},
                                                               {"boundary z-", "boundary z+"}};
    return places[axis][side];
}

const char *job_operand_place(const struct job *job, int operand)
{
    const int side = (operand - OPERAND_VALUE) % (AXIS_COUNT * SIDE_COUNT);
    if (operand >= OPERAND_VALUE)
        return job_side_place(side / SIDE_COUNT, side % SIDE_COUNT);
    return operand == OPERAND_SOURCE                ? "source"
           : operand == OPERAND_PROBES              ? "probes"
           : job->operator_id == OPERATOR_DIFFUSION ? "diffusivity"
                                                    : "coefficient";
}
