/* A component of the result at a layer of a face: the sums of gpu/cuda/table_face.cuh's derivatives
 * along one axis, with what a pass adds. */
#pragma once

#include "gpu/cuda/table_face.cuh"

template <typename T, int AXIS, int V> struct table_points : table_lines<T, AXIS, V> {
    using lines = table_lines<T, AXIS, V>;
    using lines::edge, lines::FAST, lines::face, lines::has, lines::header, lines::table_lines,
        lines::read, lines::side, lines::SLOW, lines::stated, lines::view, lines::with_row;
    using typename lines::index;
    using typename lines::own_row;
    using typename lines::value;

    /* table_sum() at layer d, of which `base` is what it is added to. */
    __device__ __forceinline__ value sum(index d, const own_row &own, const value &given,
                                         const value &base) const
    {
        const T *first = edge(0);
        int centred = (own.step == 0) << AXIS |
                      (lines::template row_beside<FAST>().step == 0) << FAST |
                      (lines::template row_beside<SLOW>().step == 0) << SLOW;
        centred &= header.shift == 0 ? header.active : 0;
        value acc = base;
        if (centred || header.identity)
            acc = fused((T)header.centre[view.pass->set][centred], read(first, d), acc, view.base);
        if (header.shared && centred == header.active) {
            add_together(first, d, own, acc);
            if (own.datum != (T)0)
                acc = fused(own.datum, given, acc);
            return acc;
        }
#pragma unroll
        for (int a = 0; a < AXIS_COUNT; a++)
            with_row(a, own, [&](const auto &row) {
                this->template along<true>(first, a, d, row, given, true, acc);
            });
        return acc;
    }
    /* The pairs of points of all active axes, which have the weights of the first one. */
    __device__ __forceinline__ void add_together(const T *edge, index d, const own_row &own,
                                                 value &acc) const
    {
        value total[FACE_PAIRS];
        const int first = header.active & 1 << AXIS_X   ? AXIS_X
                          : header.active & 1 << AXIS_Y ? AXIS_Y
                                                        : AXIS_Z;
#pragma unroll
        for (int a = 0; a < AXIS_COUNT; a++) {
            value pair[FACE_PAIRS];
            if (!(header.active >> a & 1))
                continue;
            with_row(a, own, [&](const auto &row) { this->pairs(edge, a, d, row.count, pair); });
#pragma unroll
            for (int m = 0; m < FACE_PAIRS; m++)
#pragma unroll
                for (int v = 0; v < V; v++)
                    total[m].v[v] = a == first ? pair[m].v[v] : total[m].v[v] + pair[m].v[v];
        }
        with_row(first, own, [&](const auto &row) { this->fold(row, total, true, acc); });
    }

    /* table_parts() of a component at layer d. */
    __device__ __forceinline__ value parts(int component, index d, const own_row &own,
                                           const value &given) const
    {
        int of, axis;
        value sum = {};
        for (int k = 0; table_part(&header, component, k, &of, &axis); k++) {
            value part = {};
            with_row(axis, own, [&](const auto &row) {
                this->template along<false>(edge(of), axis, d, row, given, false, part);
            });
#pragma unroll
            for (int v = 0; v < V; v++)
                sum.v[v] = k == 0                                ? part.v[v]
                           : header.operator_id == OPERATOR_CURL ? sum.v[v] - part.v[v]
                                                                 : sum.v[v] + part.v[v];
        }
        return sum;
    }

    /* The element of layer d in a field. */
    __device__ __forceinline__ int64_t place(int64_t d) const
    {
        const int64_t stride = header.axis_of[AXIS].stride;
        return view.place + (face.side == SIDE_LOW ? d * stride : -d * stride);
    }
    /* What layer d is added to. It may be the output: not through the cache of constants. */
    __device__ __forceinline__ value base(int64_t d) const
    {
        return pack_of<T, V>(
            [&](int v) { return view.base && has(v) ? view.base[place(d) + v] : (T)0; });
    }
    /* Which component of the input a component of the result has a derivative of along the axis. */
    template <int FORM> __device__ __forceinline__ int part_along(int component) const
    {
        int of = 0, axis = AXIS;
        for (int k = 0; FORM == TABLE_FORM_PARTS && table_part(&header, component, k, &of, &axis);
             k++)
            if (axis == AXIS)
                break;
        return of;
    }

    /* A component of the result at layer d. */
    template <int FORM>
    __device__ __forceinline__ void compute(int component, index d, const own_row &own,
                                            const value &given, const value &base) const
    {
        const int64_t held = header.operator_id == OPERATOR_DIFFUSION ? side.held : 0;
        T *out = (T *)view.pass->out[component] + view.batch * header.points;
        value f = stated;
        if (d >= held)
            f = FORM == TABLE_FORM_PARTS ? parts(component, d, own, given)
                                         : sum(d, own, given, base);
        if (FORM != TABLE_FORM_PARTS && d >= held && header.source != TABLE_SOURCE_NONE)
#pragma unroll
            for (int v = 0; v < V; v++) {
                auto there = view;
                there.place = place(d) + v;
                f.v[v] = point_source(&there, f.v[v]);
            }
        const int64_t x = AXIS == AXIS_X ? 0 : view.at[AXIS_X];
        if constexpr (AXIS == AXIS_X)
            out[place(d)] = f.v[0];
        else
            store_between(out + place(d) - x, x, f, face.begin[0], face.end[0]);
    }
};
