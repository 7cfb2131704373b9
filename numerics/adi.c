#include "numerics/adi.h"

#include "numerics/job_weights.h"

#include <string.h>

/* dt A u at an edge node in units of dt κ/h², with u as a parabola. */
struct edge {
    weights_real next, own, datum;
};

/* Where the datum counts by h, it is ∂n f or c of ∂n f + v f = c; of ∂n² f by h². */
static struct edge edge_of(const struct weights_side *rows, bool is_mixed, weights_real h)
{
    const weights_real v = (weights_real)rows->mixed * h, under = 1 + 3 * v / 8;
    const weights_real pull = is_mixed ? -v : 0;
    const bool at_face = rows->at_face != 0;
    switch ((enum weights_kind)rows->kind) {
    case WEIGHTS_SYMMETRIC:
        return (struct edge){1, 0, 0};
    case WEIGHTS_MIRROR:
        return (struct edge){2, 0, 0};
    case WEIGHTS_ANTISYMMETRIC:
        return (struct edge){1, -2, 0};
    case WEIGHTS_VALUE: /* at the face */
        return (struct edge){(weights_real)4 / 3, (weights_real)-8 / 3, (weights_real)8 / 3};
    case WEIGHTS_CURVATURE: /* at the node */
        return (struct edge){0, 0, h * h};
    default: /* a derivative or mixed */
        return at_face ? (struct edge){(1 + v / 2) / under, pull / under, h / under}
                       : (struct edge){2, 2 * pull, 2 * h};
    }
}

/* All of an axis but its lines' table, whose matrix it describes in `line`. */
static void axis_init(struct adi_axis *axis, struct tridiagonal_line *line, const struct job *job,
                      int a)
{
    const struct boundary *boundary = job->boundary[a];
    const bool twice = job_is_symmetric_split(job) && a != AXIS_Z; /* in a step, each half of it */
    const weights_real h = job->spacing[a],
                       dt = twice ? (weights_real)job->dt / 2 : (weights_real)job->dt;
    const weights_real kappa = job->more.coefficient ? 1 : (weights_real)job->diffusivity[a];
    const weights_real weight = kappa * dt / (h * h);
    /* Of a field κ the mean at two points counts, and only the first for what is the node's own. */
    const weights_real between = job->more.coefficient ? weight / 2 : weight;
    const bool periodic = boundary_is_periodic(&boundary[SIDE_LOW]);
    struct weights_axis rows;
    axis->n = (int64_t)job->n[a];
    axis->active = a < job->axes && !(axis->n == 1 && periodic);
    axis->lines.repeats = boundary[SIDE_LOW].kind == BOUNDARY_ENDPOINT;
    axis->weight = rounded(between, job->dtype);
    axis->lines.n = axis->n - axis->lines.repeats;
    *line = (struct tridiagonal_line){.weight = weight / 2, .periodic = periodic};
    axis->periodic = periodic;
    job_weights(job, a, NULL, &rows);
    for (int s = 0; s < SIDE_COUNT; s++) {
        axis->side[s] = side_of(job, a, s);
        if (periodic || axis->side[s].held)
            continue;
        const struct edge edge =
            edge_of(&rows.side[s], axis->side[s].datum >= SIDE_DATUM_MIXED_NODE, h);
        axis->edge[s] = (struct adi_edge){.next = rounded(edge.next * between, job->dtype),
                                          .own = rounded(edge.own * weight, job->dtype),
                                          .datum = rounded(edge.datum * weight, job->dtype)};
        line->end[s].next = edge.next * weight / 2;
        line->end[s].own = edge.own * weight / 2;
    }
}

bool adi_make(struct plan *plan, const struct job *job)
{
    struct adi adi = {.coefficient = job->more.coefficient,
                      .source = job->more.source,
                      .points = plan->points,
                      .dt = rounded(job->dt, job->dtype),
                      .source_value = rounded(job->more.source_value, job->dtype)};
    struct tridiagonal_line line[AXIS_COUNT];
    uint64_t bytes = sizeof adi;
    for (int a = 0; a < AXIS_COUNT; a++) {
        struct adi_axis *axis = &adi.axis[a];
        axis_init(axis, &line[a], job, a);
        axis->stride = plan->axis[a].stride;
        axis->face_points = (int64_t)adi.points / axis->n;
        axis->lines.at = bytes;
        if (axis->active && !adi.coefficient)
            bytes += 4 * dtype_element_bytes(job->dtype) *
                     tridiagonal_count((uint64_t)axis->lines.n, (double)line[a].weight);
        bytes = (bytes + 7) / 8 * 8;
    }
    plan->table = plan_table_new(bytes);
    bool ok = plan->table != NULL;
    for (int a = 0; ok && a < AXIS_COUNT; a++)
        if (adi.axis[a].active && !adi.coefficient)
            ok = tridiagonal_make(&adi.axis[a].lines, &line[a], job->dtype,
                                  plan_table_rows(plan->table));
    if (ok)
        memcpy(plan_table_rows(plan->table), &adi, sizeof adi);
    return ok;
}
