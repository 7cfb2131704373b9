#include "numerics/plan.h"

#include "numerics/adi.h"
#include "numerics/job_weights.h"
#include "numerics/measure.h"
#include "numerics/stencil_plan.h"
#include "numerics/table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct plan_table *plan_table_new(uint64_t bytes)
{
    static_assert(sizeof(struct plan_table) <= PLAN_TABLE_ALIGN, "before the bytes");
    static _Atomic uint64_t serial;
    const uint64_t align = PLAN_TABLE_ALIGN;
    const uint64_t all = align + (bytes + align - 1) / align * align;
    struct plan_table *table = aligned_alloc(align, all);
    if (!table)
        return NULL;
    memset(table, 0, all);
    table->serial = ++serial;
    table->bytes = bytes;
    return table;
}

void *plan_table_rows(const struct plan_table *table)
{
    return (char *)(uintptr_t)table + PLAN_TABLE_ALIGN;
}

/* What every engine's plan says. */
static void plan_begin(struct plan *plan, const struct job *job)
{
    memset(plan, 0, sizeof *plan);
    plan->parity = job_order(job) % 2 ? PLAN_ODD : PLAN_EVEN;
    plan->dtype = job->dtype;
    plan->form = job->operator_id == OPERATOR_GRADIENT     ? PLAN_GRADIENT
                 : job->operator_id == OPERATOR_DIVERGENCE ? PLAN_DIVERGENCE
                 : job->operator_id == OPERATOR_CURL       ? PLAN_CURL
                                                           : PLAN_SCALAR;
    plan->inputs = job_inputs(job);
    plan->outputs = job_outputs(job);
    plan->batch = job->batch;
    plan->lines = job->n[AXIS_Y] * job->n[AXIS_Z] * job->batch;
    plan->points = job->n[AXIS_X] * job->n[AXIS_Y] * job->n[AXIS_Z];
    plan->passes = job_passes(job);
    plan->scheme = job->more.scheme;
    plan->staged = plan->scheme == SCHEME_EULER ? 0 : job_scratch(job, false, false);
    plan->step_passes = (int32_t)job_step_passes(job);
    plan->symmetric = job_is_symmetric_split(job);
    plan->impose = job_imposes(job);
    int64_t stride = 1;
    for (int a = 0; a < AXIS_COUNT; a++) {
        struct plan_axis *axis = &plan->axis[a];
        axis->n = (int64_t)job->n[a];
        axis->stride = stride;
        stride *= axis->n;
        axis->active = job_is_active(job, a);
    }
}

/* Their places at the end of the table, whatever else it holds. */
static bool add_probes(struct plan *plan, const struct job *job, const void *block)
{
    const uint64_t before = plan->table->bytes, first = (before + 7) / 8 * 8;
    struct plan_table *longer = plan_table_new(first + job->more.probes * sizeof(int64_t));
    if (!longer)
        return false;
    memcpy(plan_table_rows(longer), plan_table_rows(plan->table), before);
    free(plan->table);
    plan->table = longer;
    const int64_t *probe = job_block_at(job, block, BLOCK_PROBES);
    int64_t *place = (int64_t *)(void *)((char *)plan_table_rows(longer) + first);
    for (uint32_t i = 0; i < job->more.probes; i++, probe += AXIS_COUNT + 1) {
        place[i] = probe[AXIS_COUNT] * (int64_t)plan->points;
        for (int a = 0; a < AXIS_COUNT; a++)
            place[i] += probe[a] * plan->axis[a].stride;
    }
    plan->probes = job->more.probes;
    plan->probes_at = first;
    return true;
}

/* Do weights of the interior, or closures of their own at the node, do for the side? */
static bool is_plain_side(const struct job *job, int a, int s)
{
    const struct boundary *boundary = &job->boundary[a][s];
    struct weights_axis rows;
    job_weights(job, a, NULL, &rows);
    if (boundary->at_face || boundary->value_array || boundary->constant_array)
        return false;
    switch ((enum weights_kind)rows.side[s].kind) {
    case WEIGHTS_PERIODIC:
    case WEIGHTS_ENDPOINT:
    case WEIGHTS_ONE_SIDED:
        return true;
    case WEIGHTS_MIRROR:
        return job_order(job) == 2;
    case WEIGHTS_VALUE:
    case WEIGHTS_HALO:
        return job->operator_id == OPERATOR_DIFFUSION;
    default:
        return false;
    }
}

/* Is anything asked for but probes, which every engine has? */
static bool has_more_than_probes(const struct job *job)
{
    static const struct job_more none;
    struct job_more rest = job->more;
    rest.probes = 0;
    rest.block_bytes = 0;
    memset(rest.block_key, 0, sizeof rest.block_key);
    return memcmp(&rest, &none, sizeof none) != 0;
}

bool job_is_plain(const struct job *job)
{
    bool plain = job->operator_id <= OPERATOR_CURL && !has_more_than_probes(job) &&
                 job_order(job) >= 1 && job_order(job) <= 2 && job->accuracy <= 8;
    for (int a = 0; a < AXIS_COUNT; a++)
        for (int side = 0; side < SIDE_COUNT; side++)
            plain = plain && is_plain_side(job, a, side);
    return plain;
}

static bool engine_init(struct plan *plan, const struct job *job, const void *block)
{
    plan->engine = job->operator_id == OPERATOR_STENCIL ? PLAN_STENCIL
                   : job->more.scheme == SCHEME_ADI     ? PLAN_ADI
                                                        : PLAN_TABLE;
    return plan->engine == PLAN_STENCIL ? stencil_make(plan, job, block)
           : plan->engine == PLAN_ADI   ? adi_make(plan, job)
                                        : table_make(plan, job, block);
}

bool plan_init(struct plan *plan, const struct job *job, const void *block)
{
    plan_begin(plan, job);
    if (engine_init(plan, job, block) && (job->more.probes == 0 || add_probes(plan, job, block)))
        return true;
    plan_release(plan);
    return false;
}

void plan_init_measure(struct plan *plan, enum dtype dtype, uint64_t points, int inputs)
{
    memset(plan, 0, sizeof *plan);
    plan->engine = PLAN_MEASURE;
    plan->dtype = dtype;
    plan->inputs = inputs;
    plan->outputs = 1;
    plan->batch = 1;
    plan->points = points;
    plan->lines = measure_blocks(points);
    plan->passes = 1;
}

uint64_t plan_measure_bytes(const struct plan *plan)
{
    const uint64_t given = plan->inputs ? 0 : plan->points * sizeof(struct measured);
    return given + measure_bytes(plan->points);
}

void plan_release(struct plan *plan)
{
    free(plan->table);
    plan->table = NULL;
}

uint64_t plan_element_bytes(const struct plan *plan)
{
    return dtype_element_bytes(plan->dtype);
}

uint64_t plan_array_bytes(const struct plan *plan)
{
    return plan->points * plan->batch * plan_element_bytes(plan);
}
