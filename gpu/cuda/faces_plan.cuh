/* How kernels of faces are launched: from a pass to their parameters. */
#pragma once

#include "gpu/cuda/faces.cuh"

template <typename T> struct rim_axis {
    int64_t n, stride;
    uint64_t rows; /* as table_rows.at */
    int32_t low, high;
    int32_t imposed[SIDE_COUNT]; /* is the edge node read as the value? */
    int32_t held[SIDE_COUNT], halo[SIDE_COUNT], mixed[SIDE_COUNT];
    T value[SIDE_COUNT], constant[SIDE_COUNT];
};

template <typename T> struct rim_plan {
    const T *in[AXIS_COUNT];
    T *out[AXIS_COUNT];
    rim_axis<T> axis[AXIS_COUNT];
    T centre[1 << AXIS_COUNT];
    int64_t points;
    int32_t active, shared, identity, imposes, holds;
    vector_jobs jobs;
};

/* Launches of one boundary, from the second on beside those before. */
struct face_launcher {
    const struct geometry *g;
    const struct table_pass *pass;
    enum face_form form;
    bool beside;
    void *made; /* faces_made of the pass */

    template <typename... P, typename... A>
    cudaError_t operator()(void (*kernel)(P...), int64_t blocks, size_t shared_bytes,
                           const A &...arguments)
    {
        if (blocks > INT32_MAX)
            return cudaErrorInvalidConfiguration;
        const early_launch launch(dim3((unsigned)blocks, 1, g->jobs), dim3(FACE_THREADS),
                                  shared_bytes, g->stream, beside);
        beside = true;
        return cudaLaunchKernelEx(&launch.config, kernel, arguments...);
    }
};

/* run(T(), radius, form), all three constants, of the launcher's pass. */
template <class Run> static cudaError_t with_face_kinds(const face_launcher &launch, const Run &run)
{
    const struct plan *plan = launch.g->plan;
    return with_type(plan, [&](auto type) {
        return with_number<FACE_SUM, FACE_CURL>(launch.form, [&](auto form) {
            constexpr bool IS_SUM = decltype(form)::value == FACE_SUM;
            return with_number < 1,
                   IS_SUM ? (int)TABLE_RADIUS : (int)PLAN_RADIUS > (plan->radius, [&](auto radius) {
                                                    return run(type, radius, form);
                                                });
        });
    });
}

template <typename T, int R> struct face_maker {
    using row = table_row_of<T>;
    const struct geometry *g;
    const struct table_header *header;
    int use, form;

    const row &row_of(int a, int64_t r) const
    {
        const struct table_rows *rows = &header->rows[use][a];
        return ((const row *)((const char *)header + rows->at))[r];
    }

    int64_t rows_of(int a, int s) const
    {
        const struct table_rows *rows = &header->rows[use][a];
        return s == SIDE_LOW ? rows->low : rows->high;
    }
    int points_of(int a, int s) const
    {
        return face_line(form, R) - (header->axis_of[a].side[s].datum != SIDE_DATUM_NONE);
    }
    /* Are its numbers, and its rows, such as kernels know? */
    bool takes(int a, int s) const
    {
        const struct table_axis *axis = &header->axis_of[a];
        const struct table_rows *rows = &header->rows[use][a];
        const struct side *side = &axis->side[s];
        bool ok = side->datum != SIDE_DATUM_MIXED_FACE && side->value.operand < 0 &&
                  side->constant.operand < 0;
        for (int d = 0; d < rows_of(a, s); d++) {
            const row &from = row_of(a, s == SIDE_LOW ? d : rows->low + d);
            ok = ok && from.step == (s == SIDE_LOW ? 1 : -1) &&
                 from.first == (s == SIDE_LOW ? 0 : axis->n - 1) &&
                 (from.count == 0 || from.count == points_of(a, s));
        }
        return ok;
    }
    bool imposes(int a, int s) const
    {
        const struct table_axis *axis = &header->axis_of[a];
        return s == SIDE_LOW ? axis->first > 0 : axis->last < axis->n - 1;
    }
    int held(int a, int s) const
    {
        return header->operator_id == OPERATOR_DIFFUSION ? header->axis_of[a].side[s].held : 0;
    }

    /* The rows of a side; false: it has none of a face. */
    bool make_side(int a, int s, int layers, face_side<T, R> *made) const
    {
        const struct table_axis *axis = &header->axis_of[a];
        const struct table_rows *rows = &header->rows[use][a];
        const struct side *side = &axis->side[s];
        const int64_t other = axis->side[s == SIDE_LOW ? SIDE_HIGH : SIDE_LOW].held;
        if (side->halo || rows_of(a, s) != R || !takes(a, s) ||
            axis->n < face_line(form, R) + other + 16 / (int)sizeof(T))
            return false;
        memset(made, 0, sizeof *made);
        made->points = points_of(a, s);
        for (int d = 0; d < R; d++) {
            const row &from = row_of(a, s == SIDE_LOW ? d : rows->low + d);
            memcpy(made->closure[d], from.w, sizeof made->closure[d]);
            made->datum[d] = from.data[s];
            made->alone |= (from.count == 0) << d;
        }
        made->value = (T)side->value.number;
        made->constant = (T)side->constant.number;
        made->layers = layers;
        made->imposed = imposes(a, s);
        made->held = held(a, s);
        made->mixed = side->datum == SIDE_DATUM_MIXED_NODE;
        return true;
    }

    /* Has a box of the boundary a face? Then [low, high) is where. */
    bool find(int a, int s, const int64_t begin[AXIS_COUNT], const int64_t end[AXIS_COUNT],
              int64_t low[AXIS_COUNT], int64_t high[AXIS_COUNT]) const
    {
        const bool at_edge = s == SIDE_LOW ? begin[a] == 0 : end[a] == g->plan->axis[a].n;
        if (!at_edge || !(header->active >> a & 1) || end[a] - begin[a] > R + 1)
            return false;
        for (int b = 0; b < AXIS_COUNT; b++) {
            const struct table_axis *axis = &header->axis_of[b];
            low[b] = b == a || axis->low < begin[b] ? begin[b] : axis->low;
            high[b] = b == a || axis->high > end[b] ? end[b] : axis->high;
            if (high[b] <= low[b])
                return false;
        }
        return true;
    }

    /* All that rims need; false: one of their points may need more. */
    bool make_rims(const struct table_pass *pass, rim_plan<T> *made) const
    {
        const struct plan *plan = g->plan;
        memset(made, 0, sizeof *made);
        for (int a = 0; a < AXIS_COUNT; a++) {
            const struct table_rows *rows = &header->rows[use][a];
            rim_axis<T> *axis = &made->axis[a];
            made->in[a] = (const T *)pass->in[a];
            made->out[a] = (T *)pass->out[a];
            axis->n = plan->axis[a].n;
            axis->stride = plan->axis[a].stride;
            axis->rows = rows->at;
            axis->low = rows->low;
            axis->high = rows->high;
            for (int s = 0; s < SIDE_COUNT; s++) {
                const struct side *side = &header->axis_of[a].side[s];
                const bool is_mapped = rows_of(a, s) == 0 && !side->halo;
                if (!takes(a, s) || (header->active >> a & 1 && is_mapped &&
                                     side->map != plan->axis[a].side[s].map))
                    return false;
                axis->imposed[s] = imposes(a, s);
                axis->held[s] = held(a, s);
                axis->halo[s] = side->halo;
                axis->mixed[s] = side->datum == SIDE_DATUM_MIXED_NODE;
                axis->value[s] = (T)side->value.number;
                axis->constant[s] = (T)side->constant.number;
                made->holds |= axis->held[s] > 0;
            }
        }
        for (int centred = 0; centred < 1 << AXIS_COUNT; centred++)
            made->centre[centred] = (T)header->centre[pass->set][centred];
        made->points = (int64_t)plan->points;
        made->active = header->active;
        made->shared = header->shared;
        made->identity = header->identity;
        made->imposes = header->imposes;
        made->jobs = vector_jobs_of(g);
        return true;
    }

    void make_plan(const struct table_pass *pass, face_plan<T, R> *made) const
    {
        const struct plan *plan = g->plan;
        memset(made, 0, sizeof *made);
        made->active = header->active;
        made->shared = header->shared;
        made->points = (int64_t)plan->points;
        made->centre = (T)header->centre[pass->set][header->active];
        made->jobs = vector_jobs_of(g);
        for (int a = 0; a < AXIS_COUNT; a++) {
            made->in[a] = (const T *)pass->in[a];
            made->out[a] = (T *)pass->out[a];
            made->n[a] = plan->axis[a].n;
            made->stride[a] = plan->axis[a].stride;
            if (!(header->active >> a & 1))
                continue;
            const struct table_rows *rows = &header->rows[use][a];
            memcpy(made->pairs[a], row_of(a, rows->low + rows->high).w, sizeof made->pairs[a]);
        }
    }
};

/* Faces of a pass. */
template <typename T, int R> struct faces_made {
    face_plan<T, R> plan;
    face_pair<T, R> axis[AXIS_COUNT];
};

template <typename T, int R>
static void make_faces(const face_launcher &of, faces_made<T, R> *made, struct boundary_rest *left)
{
    const struct geometry *g = of.g;
    const struct table_pass *pass = of.pass;
    const struct table_header *header = table_of(g->plan);
    const face_maker<T, R> maker = {g, header, TABLE_ROWS_OF_FACTORS + pass->set, of.form};
    memset(made->axis, 0, sizeof made->axis);
    maker.make_plan(pass, &made->plan);
    auto take = [&](int a, int s, const int64_t *begin, const int64_t *end, int64_t *low,
                    int64_t *high) {
        face_pair<T, R> *faces = &made->axis[a];
        if (!maker.find(a, s, begin, end, low, high) ||
            !maker.make_side(a, s, (int)(high[a] - low[a]), &faces->side[s]))
            return false;
        const int others = header->active & ~(1 << a);
        const int fast = a == AXIS_X ? AXIS_Y : AXIS_X, slow = a == AXIS_Z ? AXIS_Y : AXIS_Z;
        faces->begins = others != 0 || header->identity;
        faces->centre = (T)header->centre[pass->set][others];
        faces->begin[0] = low[fast];
        faces->end[0] = high[fast];
        faces->begin[1] = low[slow];
        faces->end[1] = high[slow];
        return true;
    };
    divide_boundary(g->boundary, left, take);
}

/* Sides with a face. */
template <typename T, int R> static int sides_of(const face_pair<T, R> &faces)
{
    return (faces.side[SIDE_LOW].layers > 0) + (faces.side[SIDE_HIGH].layers > 0);
}

/* The launches, in this order; that of rims may leave nothing. */
cudaError_t faces_x_launch(face_launcher *launch);
cudaError_t faces_rims_launch(face_launcher *launch, struct boundary_rest *left);
cudaError_t faces_y_z_launch(face_launcher *launch);
