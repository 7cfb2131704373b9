/* Layers of points next to a side, of plans that are not plain, where the two other axes are in the
 * table's box: all points of a layer have one row, and what they read is mapped, imposed or held by
 * this side alone. The bits are those of numerics/table_point.h.
 *
 *   faces of y, z   a thread has a pack of every layer
 *   faces of x      a block brings the ends of wide × high lines and of those around them to
 *                   shared memory, where the fields are of one component; a warp has one layer of
 *                   them. Else a thread a point. */
#pragma once

#include "gpu/cuda/table_point.cuh"

enum {
    FACE_THREADS = 128,
    FACE_PAIRS = TABLE_RADIUS /* of points about one, at most */
};

/* The points at distances d < layers from a side. */
struct table_face {
    int32_t axis, side, layers;
    int32_t wide, high;     /* threads, or staged lines, of a block along the other axes */
    int32_t imposed;        /* layers d < imposed are read as the side's value */
    int32_t staged, around; /* x: points of a line in shared memory, and lines around the block's */
    int64_t begin[2], end[2]; /* along the other axes, the faster one first */
    int64_t tiles;            /* blocks along the faster one */
    int64_t last_block;       /* the end of the blocks of this face and those before it */
};

/* V lines from a side inwards, of which k counts the points from the edge: k < 0 beyond it. Where
 * it is staged a line lies in shared memory, the edge first. */
template <typename T, int AXIS, int V, bool STAGED> struct face_lines {
    static constexpr int FAST = AXIS == AXIS_X ? AXIS_Y : AXIS_X;
    static constexpr int SLOW = AXIS == AXIS_Z ? AXIS_Y : AXIS_Z;
    using row_type = typename table_types<T>::row;
    using view_type = typename table_types<T>::view;
    using value = pack<T, V>;

    const table_header &header;
    const table_face &face;
    const struct side &side;
    const view_type &view; /* at the edge, of the first line */
    const T *tile;         /* staged: the line's first point */
    /* Elements of what is read to the next point inwards, and along an axis upwards. */
    int64_t inward, stride[AXIS_COUNT];
    value stated;    /* the side's value there */
    const T *values; /* … where it is an array: the first line's element */

    __device__ __forceinline__ face_lines(const table_header &header, const table_face &face,
                                          const view_type &view, const T *tile)
        : header(header), face(face), side(header.axis_of[AXIS].side[face.side]), view(view),
          tile(tile)
    {
        const bool low = face.side == SIDE_LOW;
        for (int a = 0; a < AXIS_COUNT; a++)
            stride[a] = header.axis_of[a].stride;
        if (STAGED) {
            stride[AXIS] = low ? 1 : -1;
            stride[FAST] = face.staged | 1; /* odd, so that lines begin in all banks */
            stride[SLOW] = stride[FAST] * (face.wide + 2 * face.around);
        }
        inward = low ? stride[AXIS] : -stride[AXIS];
#pragma unroll
        for (int v = 0; v < V; v++) {
            auto there = view;
            there.at[AXIS_X] += v;
            stated.v[v] = number(&there, AXIS, &side.value);
        }
        values = (const T *)side_array(&side.value, view.pass->operand, (int64_t)view.batch,
                                       header.axis_of[AXIS].face_points, sizeof(T));
        if (values)
            values += side_element(AXIS, view.at[AXIS_X], view.at[AXIS_Y], view.at[AXIS_Z],
                                   header.axis_of[AXIS_X].n, header.axis_of[AXIS_Y].n);
    }

    /* The line's first point in a component of the input. */
    __device__ __forceinline__ const T *edge(int component) const
    {
        if constexpr (STAGED)
            return tile;
        else
            return (component == 0   ? view.field[0]
                    : component == 1 ? view.field[1]
                                     : view.field[2]) +
                   view.place;
    }
    static __device__ __forceinline__ value load(const T *f)
    {
        if constexpr (STAGED)
            return {{*f}};
        else
            return load_pack<V>(f);
    }
    /* Is the line v of the face? */
    __device__ __forceinline__ bool has(int v) const
    {
        return view.at[FAST] + v >= face.begin[0] && view.at[FAST] + v < face.end[0];
    }

    /* acc + w × f, or w × f where there is no acc. */
    static __device__ __forceinline__ void add(value &acc, bool begun, T w, const value &f)
    {
#pragma unroll
        for (int v = 0; v < V; v++)
            acc.v[v] = begun ? fused(w, f.v[v], acc.v[v]) : w * f.v[v];
    }
    __device__ __forceinline__ value paired(const value &up, const value &down) const
    {
        value pair;
#pragma unroll
        for (int v = 0; v < V; v++)
            pair.v[v] = header.odd ? up.v[v] - down.v[v] : up.v[v] + down.v[v];
        return pair;
    }

    __device__ __forceinline__ const row_type *row(int use, int axis, int64_t d) const
    {
        const table_rows &rows = header.rows[use][axis];
        const bool low = face.side == SIDE_LOW;
        int64_t i = rows.low + rows.high;
        if (axis == AXIS && d < (low ? rows.low : rows.high))
            i = low ? d : rows.low + d;
        return (const row_type *)(view.bytes + rows.at) + i;
    }

    /* f at k. */
    __device__ __forceinline__ value read(const T *edge, int64_t k) const
    {
        const int32_t map = side.map;
        const bool is_node = map == SIDE_MAP_NODE || map == SIDE_MAP_ODD_NODE;
        int64_t j = k;
        if (k < 0)
            j = map == SIDE_MAP_PERIODIC   ? k + header.axis_of[AXIS].n
                : map == SIDE_MAP_ENDPOINT ? k + header.axis_of[AXIS].n - 1
                : is_node                  ? -k
                                           : -k - 1;
        value f = j < face.imposed ? stated : load(edge + j * inward);
        if (k < 0 && map >= SIDE_MAP_ANTISYMMETRIC)
#pragma unroll
            for (int v = 0; v < V; v++)
                f.v[v] = map >= SIDE_MAP_ODD_FACE ? fused((T)2, stated.v[v], -f.v[v]) : -f.v[v];
        return f;
    }

    /* The sums, or differences, of points m = 1, 2, … away from f along an axis other than that of
     * packs, … */
    __device__ __forceinline__ void pairs_at(const T *f, int64_t stride, int count,
                                             value (&pair)[FACE_PAIRS]) const
    {
        const T *above = header.shift < 0 ? f - stride : f;
        const T *below = header.shift > 0 ? f + stride : f;
#pragma unroll
        for (int m = 1; m <= FACE_PAIRS; m++)
            if (m <= count)
                pair[m - 1] = paired(load(above + m * stride), load(below - m * stride));
    }
    /* … along that of packs, … */
    __device__ __forceinline__ void pairs_in_row(const T *f, int count,
                                                 value (&pair)[FACE_PAIRS]) const
    {
        constexpr int REACH = (FACE_PAIRS + V - 1) / V * V;
        const int64_t x = view.at[AXIS_X], n = header.axis_of[AXIS_X].n;
        T xs[V + 2 * REACH];
        const value own = load(f);
#pragma unroll
        for (int v = 0; v < V; v++)
            xs[REACH + v] = own.v[v];
#pragma unroll
        for (int away = V; away <= REACH; away += V)
            if (away - V < count) {
                /* Beyond the row: anything, since no point of the face needs it. */
                const value left = load(x < away ? f : f - away);
                const value right = load(x + away >= n ? f : f + away);
#pragma unroll
                for (int v = 0; v < V; v++) {
                    xs[REACH - away + v] = left.v[v];
                    xs[REACH + away + v] = right.v[v];
                }
            }
#pragma unroll
        for (int m = 1; m <= FACE_PAIRS; m++)
            if (m <= count) {
                value up, down;
#pragma unroll
                for (int v = 0; v < V; v++) {
                    const int high = REACH + v + m, low = REACH + v - m;
                    up.v[v] = header.shift < 0 ? xs[high - 1] : xs[high];
                    down.v[v] = header.shift > 0 ? xs[low + 1] : xs[low];
                }
                pair[m - 1] = paired(up, down);
            }
    }
    /* … from layer d inwards, … */
    __device__ __forceinline__ void pairs_inward(const T *edge, int64_t d, int count,
                                                 value (&pair)[FACE_PAIRS]) const
    {
        if (d - count - (header.shift != 0) >= face.imposed) {
            pairs_at(edge + d * inward, stride[AXIS], count, pair);
            return;
        }
        const bool low = face.side == SIDE_LOW;
        const int64_t above = low ? d - (header.shift < 0) : d + (header.shift < 0);
        const int64_t below = low ? d + (header.shift > 0) : d - (header.shift > 0);
#pragma unroll
        for (int m = 1; m <= FACE_PAIRS; m++)
            if (m <= count)
                pair[m - 1] = paired(read(edge, low ? above + m : above - m),
                                     read(edge, low ? below - m : below + m));
    }
    /* … and beside it. */
    template <int OTHER>
    __device__ __forceinline__ void pairs_beside(const T *edge, int64_t d, int count,
                                                 value (&pair)[FACE_PAIRS]) const
    {
        if (d >= face.imposed) {
            if constexpr (V > 1 && OTHER == AXIS_X)
                pairs_in_row(edge + d * inward, count, pair);
            else
                pairs_at(edge + d * inward, stride[OTHER], count, pair);
            return;
        }
        const int64_t next = OTHER == FAST ? 1 : header.axis_of[FAST].n;
#pragma unroll
        for (int m = 1; m <= FACE_PAIRS; m++)
            if (m <= count) {
                value up = stated, down = stated;
#pragma unroll
                for (int v = 0; v < V; v++)
                    if (values && has(v)) {
                        up.v[v] = __ldg(values + v + (m - (header.shift < 0)) * next);
                        down.v[v] = __ldg(values + v - (m - (header.shift > 0)) * next);
                    }
                pair[m - 1] = paired(up, down);
            }
    }
    __device__ __forceinline__ void pairs(const T *edge, int axis, int64_t d, int count,
                                          value (&pair)[FACE_PAIRS]) const
    {
        if (axis == AXIS)
            pairs_inward(edge, d, count, pair);
        else if (axis == FAST)
            pairs_beside<FAST>(edge, d, count, pair);
        else
            pairs_beside<SLOW>(edge, d, count, pair);
    }

    /* acc + the derivative along an axis at layer d by its row; where there is no acc (not `begun`)
     * it begins with the first product. given: the side's datum. */
    __device__ __forceinline__ void along(const T *edge, int axis, int64_t d, const row_type *row,
                                          const value &given, bool begun, value &acc) const
    {
        const int count = __ldg(&row->count), step = axis == AXIS ? __ldg(&row->step) : 0;
        if (step == 0) {
            value pair[FACE_PAIRS];
            pairs(edge, axis, d, count, pair);
#pragma unroll
            for (int m = 0; m < FACE_PAIRS; m++)
                if (m < count)
                    add(acc, begun || m > 0, __ldg(&row->w[m]), pair[m]);
        } else {
            const int64_t first = __ldg(&row->first);
            const int64_t k = face.side == SIDE_LOW ? first : header.axis_of[AXIS].n - 1 - first;
            const T *f = edge + k * inward;
#pragma unroll
            for (int i = 0; i < TABLE_POINTS; i++)
                if (i < count)
                    add(acc, begun || i > 0, __ldg(&row->w[i]),
                        k + i < face.imposed ? stated : load(f + i * inward));
        }
        if (axis == AXIS)
            add_datum(row, given, begun || count > 0, acc);
    }
    __device__ __forceinline__ void add_datum(const row_type *row, const value &given, bool begun,
                                              value &acc) const
    {
        const T weight = __ldg(&row->data[face.side]);
        if (weight != (T)0)
            add(acc, begun, weight, given);
    }

    /* The datum of the side for a component; anything where it has none. */
    __device__ __forceinline__ value given(int component) const
    {
        value of = stated;
        if (side.datum != SIDE_DATUM_MIXED_NODE && side.datum != SIDE_DATUM_MIXED_FACE)
            return of;
#pragma unroll
        for (int v = 0; v < V; v++) {
            auto there = view;
            const int64_t at[AXIS_COUNT] = {view.at[AXIS_X] + v, view.at[AXIS_Y], view.at[AXIS_Z]};
            move(&there, at);
            of.v[v] = datum(&there, component, AXIS, face.side);
        }
        return of;
    }

    /* table_sum() at layer d. */
    __device__ __forceinline__ value sum(int64_t d, const value &given) const
    {
        const int set = view.pass->set, use = TABLE_ROWS_OF_FACTORS + set;
        const T *first = edge(0);
        const row_type *own = row(use, AXIS, d);
        int centred = header.shift == 0 ? header.active & ~(1 << AXIS) : 0;
        if (header.shift == 0 && header.active >> AXIS & 1 && __ldg(&own->step) == 0)
            centred |= 1 << AXIS;
        value acc = {};
#pragma unroll
        for (int v = 0; v < V; v++) /* may be the output: not through the cache of constants */
            acc.v[v] = view.base && has(v) ? view.base[place(d) + v] : (T)0;
        if (centred || header.identity)
            add(acc, view.base, (T)header.centre[set][centred], read(first, d));
        if (header.shared && centred == header.active) {
            add_together(first, d, use, acc);
            if (header.active >> AXIS & 1)
                add_datum(own, given, true, acc);
            return acc;
        }
#pragma unroll
        for (int a = 0; a < AXIS_COUNT; a++)
            if (header.active >> a & 1)
                along(first, a, d, row(use, a, d), given, true, acc);
        return acc;
    }
    /* The pairs of points of all active axes, which have the weights of the first one. */
    __device__ __forceinline__ void add_together(const T *first, int64_t d, int use,
                                                 value &acc) const
    {
        const row_type *weights = NULL;
        value total[FACE_PAIRS];
        int count = 0;
#pragma unroll
        for (int a = 0; a < AXIS_COUNT; a++) {
            if (!(header.active >> a & 1))
                continue;
            value pair[FACE_PAIRS];
            const bool is_first = !weights;
            weights = weights ? weights : row(use, a, d);
            count = __ldg(&weights->count);
            pairs(first, a, d, count, pair);
#pragma unroll
            for (int m = 0; m < FACE_PAIRS; m++)
#pragma unroll
                for (int v = 0; v < V; v++)
                    if (m < count)
                        total[m].v[v] = is_first ? pair[m].v[v] : total[m].v[v] + pair[m].v[v];
        }
#pragma unroll
        for (int m = 0; m < FACE_PAIRS; m++)
            if (m < count)
                add(acc, true, __ldg(&weights->w[m]), total[m]);
    }

    /* table_parts() of a component at layer d. */
    __device__ __forceinline__ value parts(int component, int64_t d, const value &given) const
    {
        int of, axis;
        value sum = {};
        for (int k = 0; table_part(&header, component, k, &of, &axis); k++) {
            value part = {};
            along(edge(of), axis, d, row(TABLE_ROWS_OF_FACTORS, axis, d), given, false, part);
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

    /* A component of the result at layers d = first, first + step, … */
    template <int FORM>
    __device__ __forceinline__ void compute(int component, int64_t first, int64_t step) const
    {
        int of = 0, axis = AXIS;
        for (int k = 0; FORM == TABLE_FORM_PARTS && table_part(&header, component, k, &of, &axis);
             k++)
            if (axis == AXIS)
                break;
        const value given = this->given(of);
        const int64_t held = header.operator_id == OPERATOR_DIFFUSION ? side.held : 0;
        T *out = (T *)view.pass->out[component] + view.batch * header.points;
        for (int64_t d = first; d < face.layers; d += step) {
            value f = stated;
            if (d >= held)
                f = FORM == TABLE_FORM_PARTS ? parts(component, d, given) : sum(d, given);
            if (FORM != TABLE_FORM_PARTS && d >= held && header.source != TABLE_SOURCE_NONE)
#pragma unroll
                for (int v = 0; v < V; v++) {
                    auto there = view;
                    there.place = place(d) + v;
                    f.v[v] = source_added(&there, f.v[v]);
                }
            const int64_t x = AXIS == AXIS_X ? 0 : view.at[AXIS_X];
            if constexpr (AXIS == AXIS_X)
                out[place(d)] = f.v[0];
            else
                store_between(out + place(d) - x, x, f, face.begin[0], face.end[0]);
        }
    }
};

/* A thread's lines: V of each layer, or one of some layers; begin_of: where the block's tile is. */
template <typename T, int AXIS, int V, int FORM>
static __device__ __forceinline__ void face_threads(const table_header &header,
                                                    const table_face &face, const table_pass &pass,
                                                    const void *rows, uint64_t field, int64_t tile)
{
    const int lanes = FACE_THREADS / (face.wide * face.high);
    const int t = (int)threadIdx.x, lane = t % lanes, i = t / lanes;
    const int64_t first = face.begin[0] / V * V + tile % face.tiles * face.wide * V;
    const int64_t fast = first + i % face.wide * V;
    const int64_t slow = face.begin[1] + tile / face.tiles * face.high + i / face.wide;
    if (fast >= face.end[0] || slow >= face.end[1])
        return;
    auto view = begin_view(header, rows, pass, field, T());
    const int64_t edge = face.side == SIDE_LOW ? 0 : header.axis_of[AXIS].n - 1;
    const int64_t at[AXIS_COUNT] = {AXIS == AXIS_X ? edge : fast,
                                    AXIS == AXIS_X   ? fast
                                    : AXIS == AXIS_Y ? edge
                                                     : slow,
                                    AXIS == AXIS_Z ? edge : slow};
    move(&view, at);
    const face_lines<T, AXIS, V, false> lines(header, face, view, NULL);
    for (int c = 0; c < header.outputs; c++)
        lines.template compute<FORM>(c, lane, lanes);
}

extern __shared__ __align__(128) unsigned char shared_memory[];

/* The block's lines of a face of x, of a field of one component. V: elements of a load. */
template <typename T, int V, int FORM>
static __device__ __forceinline__ void face_staged(const table_header &header,
                                                   const table_face &face, const table_pass &pass,
                                                   const void *rows, uint64_t field, int64_t tile)
{
    T *const stage = (T *)shared_memory;
    const bool low = face.side == SIDE_LOW;
    const int64_t ny = header.axis_of[AXIS_Y].n, nz = header.axis_of[AXIS_Z].n;
    const int64_t n = header.axis_of[AXIS_X].n;
    const int64_t y = face.begin[0] + tile % face.tiles * face.wide;
    const int64_t z = face.begin[1] + tile / face.tiles * face.high;
    const int wide = face.wide + 2 * face.around, high = face.high + 2 * face.around;
    const int packs = face.staged / V, pitch = face.staged | 1;
    const T *in = (const T *)pass.in[0] + field * header.points + (low ? 0 : n - face.staged);
    for (int i = threadIdx.x; i < wide * high * packs; i += FACE_THREADS) {
        const int k = i % packs * V, line = i / packs;
        const int64_t from_y = min(max(y + line % wide - face.around, (int64_t)0), ny - 1);
        const int64_t from_z = min(max(z + line / wide - face.around, (int64_t)0), nz - 1);
        const pack<T, V> q = load_pack<V>(in + from_y * header.axis_of[AXIS_Y].stride +
                                          from_z * header.axis_of[AXIS_Z].stride + k);
#pragma unroll
        for (int v = 0; v < V; v++)
            stage[line * pitch + (low ? k + v : face.staged - 1 - k - v)] = q.v[v];
    }
    __syncthreads();
    auto view = begin_view(header, rows, pass, field, T());
    for (int i = threadIdx.x; i < face.wide * face.high * face.layers; i += FACE_THREADS) {
        const int at_y = i % face.wide, at_z = i / face.wide % face.high;
        const int64_t at[AXIS_COUNT] = {low ? 0 : n - 1, y + at_y, z + at_z};
        if (at[AXIS_Y] >= face.end[0] || at[AXIS_Z] >= face.end[1])
            continue;
        move(&view, at);
        const face_lines<T, AXIS_X, 1, true> lines(
            header, face, view, stage + ((at_z + face.around) * wide + at_y + face.around) * pitch);
        for (int c = 0; c < header.outputs; c++)
            lines.template compute<FORM>(c, i / (face.wide * face.high), face.layers);
    }
}
