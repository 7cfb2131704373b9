/* Layers of points next to a side, of plans that are not plain, where the two other axes are in the
 * table's box: all points of a layer have one row, and what they read is mapped, imposed or held by
 * this side alone. The bits are those of numerics/table_point.h.
 *
 *   faces of y, z   a thread has a pack of every layer
 *   faces of x      a block marches along z with a ring of planes of lines' ends in shared memory,
 *                   which asynchronous copies fill ahead: a line's part of a plane has the points
 *                   that are read of each component, then the side's two numbers there. A thread
 *                   has one layer of one line of each plane, and its row in registers. */
#pragma once

#include "gpu/cuda/table_point.cuh"

enum {
    TABLE_THREADS = 128,
    FACE_PAIRS = TABLE_RADIUS, /* of points about one, at most */
    FACE_NUMBERS = 2           /* of a side: its value and its constant */
};

/* The ring of a face of x, in elements. */
struct table_ring {
    /* A line's part of a plane: where each component begins, the side's numbers after the last,
     * and its length, odd in units so that lines begin in many banks. */
    int32_t at[AXIS_COUNT + 1], pitch;
    int32_t unit, copies;     /* of a copy; copies of a line */
    int32_t around[2], lines; /* read beside the block's own along y and z; lines of a plane */
    int32_t ahead, planes;    /* in flight; in the ring */
};

/* The points at distances d < layers from a side. */
struct table_face {
    int32_t axis, side, layers;
    int32_t wide, high; /* of a block along the other axes: threads; of x lines, and planes */
    int32_t imposed;    /* layers d < imposed are read as the side's value */
    struct table_ring ring;
    int64_t begin[2], end[2]; /* along the other axes, the faster one first */
    int64_t tiles;            /* blocks along the faster one */
    int64_t last_block;       /* the end of the blocks of this face and those before it */
};

/* A row, with N weights in registers or none: of count pairs about the point (step 0), or of points
 * first, first + step, … from it, of the side's axis inwards, of another upwards. */
template <typename T, int N> struct table_face_row {
    int count, step, first;
    T w[N ? N : 1], datum;
    const T *weights;

    __device__ __forceinline__ T weight(int i) const
    {
        if constexpr (N)
            return w[i];
        else
            return __ldg(weights + i);
    }
};

/* V lines from a side inwards, of which k counts the points from the edge: k < 0 beyond it. Those
 * of x lie in shared memory. */
template <typename T, int AXIS, int V> struct table_lines {
    static constexpr bool STAGED = AXIS == AXIS_X;
    static constexpr int FAST = AXIS == AXIS_X ? AXIS_Y : AXIS_X;
    static constexpr int SLOW = AXIS == AXIS_Z ? AXIS_Y : AXIS_Z;
    using row_type = table_row_of<T>;
    using view_type = table_view_of<T>;
    using value = pack<T, V>;
    using index = typename std::conditional<STAGED, int, int64_t>::type;
    using own_row = table_face_row<T, STAGED ? (int)TABLE_POINTS : 0>;

    const table_header &header;
    const table_face &face;
    const struct side &side;
    const view_type &view; /* at the edge, of the first line */
    /* Elements of what is read to the next point inwards, and along an axis upwards. */
    index inward, stride[AXIS_COUNT];
    table_face_row<T, 0> fast, slow; /* staged: of all layers; with coordinates of the plane */
    value stated;                    /* the side's value there */
    const T *values; /* … where it is an array, not staged: the first line's element */
    const T *tile;   /* staged: the line's part of the plane of the ring's slot `here` */
    int here;

    __device__ __forceinline__ table_lines(const table_header &header, const table_face &face,
                                           const view_type &view)
        : header(header), face(face), side(header.axis_of[AXIS].side[face.side]), view(view),
          values(NULL), tile(NULL), here(0)
    {
        for (int a = 0; a < AXIS_COUNT; a++)
            stride[a] = (index)header.axis_of[a].stride;
        if constexpr (STAGED) {
            fast = row<0>(FAST, min(view.at[FAST], face.end[0] - 1));
            slow = row<0>(SLOW, view.at[SLOW]);
            stride[AXIS] = 1;
            stride[FAST] = face.ring.pitch;
        } else {
            find_stated();
        }
        inward = face.side == SIDE_LOW ? stride[AXIS] : -stride[AXIS];
    }
    __device__ __forceinline__ void find_stated()
    {
#pragma unroll
        for (int v = 0; v < V; v++) {
            auto there = view;
            there.at[AXIS_X] += v;
            stated.v[v] = point_number(&there, AXIS, &side.value, there.at);
        }
        values = (const T *)side_array(&side.value, view.pass->operand, (int64_t)view.batch,
                                       header.axis_of[AXIS].face_points, sizeof(T));
        if (values)
            values += side_element(AXIS, view.at[AXIS_X], view.at[AXIS_Y], view.at[AXIS_Z],
                                   header.axis_of[AXIS_X].n, header.axis_of[AXIS_Y].n);
    }
    /* Staged: to a plane. */
    __device__ __forceinline__ void move_to(const T *line, int slot)
    {
        tile = line;
        here = slot;
        stated.v[0] = line[face.ring.at[AXIS_COUNT]];
    }

    /* The line's first point in a component of the input. */
    __device__ __forceinline__ const T *edge(int component) const
    {
        if constexpr (STAGED) {
            const int32_t *at = face.ring.at + component;
            return tile + (face.side == SIDE_LOW ? at[0] : at[1] - 1);
        } else {
            return (component == 0   ? view.field[0]
                    : component == 1 ? view.field[1]
                                     : view.field[2]) +
                   view.place;
        }
    }
    static __device__ __forceinline__ value load(const T *f)
    {
        if constexpr (STAGED)
            return {{*f}};
        else
            return load_pack<V>(f);
    }
    /* Elements to the point m further along another axis. */
    template <int OTHER> __device__ __forceinline__ index away(int m) const
    {
        if constexpr (STAGED && OTHER == SLOW) {
            const int slot = here + m, planes = face.ring.planes;
            const int turn = slot < 0 ? planes : slot >= planes ? -planes : 0;
            return (m + turn) * (face.ring.lines * face.ring.pitch);
        } else {
            return m * stride[OTHER];
        }
    }
    /* Is the line v of the face? */
    __device__ __forceinline__ bool has(int v) const
    {
        return view.at[FAST] + v >= face.begin[0] && view.at[FAST] + v < face.end[0];
    }

    /* In shared memory a load that nobody needs is cheaper than a branch around it: of which pair.
     */
    static __device__ __forceinline__ int needed(int m, int count)
    {
        return STAGED && m > count ? 1 : m;
    }
    __device__ __forceinline__ value paired(const value &up, const value &down) const
    {
        return pack_of<T, V>(
            [&](int v) { return header.odd ? up.v[v] - down.v[v] : up.v[v] + down.v[v]; });
    }

    /* A row of the point at index i along an axis, … */
    template <int N>
    __device__ __forceinline__ table_face_row<T, N> row_at(const row_type *from, int axis,
                                                           int64_t i) const
    {
        const int turn = axis == AXIS && face.side == SIDE_HIGH ? -1 : 1;
        table_face_row<T, N> row;
        row.count = __ldg(&from->count);
        row.step = turn * __ldg(&from->step);
        row.first = turn * (int)(__ldg(&from->first) - i);
        row.datum = __ldg(&from->data[face.side]);
        row.weights = from->w;
#pragma unroll
        for (int m = 0; m < N; m++)
            row.w[m] = __ldg(&from->w[m]);
        return row;
    }
    /* … that of the table, empty where there is no derivative, … */
    template <int N> __device__ __forceinline__ table_face_row<T, N> row(int axis, int64_t i) const
    {
        const table_rows &rows = header.rows[TABLE_ROWS_OF_FACTORS + view.pass->set][axis];
        if (!(header.active >> axis & 1))
            return {};
        return row_at<N>((const row_type *)(view.bytes + rows.at) +
                             table_row_number(&rows, header.axis_of[axis].n, i),
                         axis, i);
    }
    /* … along another axis than the side's, and at a layer. */
    template <int OTHER> __device__ __forceinline__ table_face_row<T, 0> row_beside() const
    {
        if constexpr (STAGED)
            return OTHER == FAST ? fast : slow;
        else
            return row<0>(OTHER, OTHER == FAST ? max(view.at[FAST], face.begin[0]) : view.at[SLOW]);
    }
    template <int N> __device__ __forceinline__ table_face_row<T, N> row_of_layer(int64_t d) const
    {
        return row<N>(AXIS, face.side == SIDE_LOW ? d : header.axis_of[AXIS].n - 1 - d);
    }

    /* f at k ≥ 0, … */
    __device__ __forceinline__ value inside(const T *edge, index k) const
    {
        if constexpr (STAGED) {
            const value f = load(edge + k * inward);
            return k < face.imposed ? stated : f;
        } else {
            return k < face.imposed ? stated : load(edge + k * inward);
        }
    }
    /* … and at any. */
    __device__ __forceinline__ value read(const T *edge, index k) const
    {
        const int32_t map = side.map;
        const bool is_node = map == SIDE_MAP_NODE || map == SIDE_MAP_ODD_NODE;
        index j = k >= 0 ? k : is_node ? -k : -k - 1;
        if (!STAGED && k < 0 && (map == SIDE_MAP_PERIODIC || map == SIDE_MAP_ENDPOINT))
            j = k + (index)header.axis_of[AXIS].n - (map == SIDE_MAP_ENDPOINT);
        value f = inside(edge, j);
        if (k < 0 && map >= SIDE_MAP_ANTISYMMETRIC)
#pragma unroll
            for (int v = 0; v < V; v++)
                f.v[v] = map >= SIDE_MAP_ODD_FACE ? fused((T)2, stated.v[v], -f.v[v]) : -f.v[v];
        return f;
    }

    /* The sums, or differences, of points m = 1, 2, … away from f along an axis other than that of
     * packs, … */
    template <int OTHER>
    __device__ __forceinline__ void pairs_at(const T *f, int count, value (&pair)[FACE_PAIRS]) const
    {
        const int above = header.shift<0, below = header.shift> 0;
        if (STAGED && count == 0)
            return;
#pragma unroll
        for (int m = 1; m <= FACE_PAIRS; m++) {
            const int at = needed(m, count);
            if (at <= count)
                pair[m - 1] =
                    paired(load(f + away<OTHER>(at - above)), load(f + away<OTHER>(below - at)));
        }
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
            if (m <= count)
                pair[m - 1] =
                    paired(pack_of<T, V>([&](int v) {
                               return header.shift < 0 ? xs[REACH + v + m - 1] : xs[REACH + v + m];
                           }),
                           pack_of<T, V>([&](int v) {
                               return header.shift > 0 ? xs[REACH + v - m + 1] : xs[REACH + v - m];
                           }));
    }
    /* … from layer d inwards, … */
    __device__ __forceinline__ void pairs_inward(const T *edge, index d, int count,
                                                 value (&pair)[FACE_PAIRS]) const
    {
        if (d - count - (header.shift != 0) >= face.imposed) {
            pairs_at<AXIS>(edge + d * inward, count, pair);
            return;
        }
        const bool low = face.side == SIDE_LOW;
        const index above = low ? d - (header.shift < 0) : d + (header.shift < 0);
        const index below = low ? d + (header.shift > 0) : d - (header.shift > 0);
        if (STAGED && count == 0)
            return;
#pragma unroll
        for (int m = 1; m <= FACE_PAIRS; m++) {
            const int at = needed(m, count);
            if (at <= count)
                pair[m - 1] = paired(read(edge, low ? above + at : above - at),
                                     read(edge, low ? below - at : below + at));
        }
    }
    /* The side's value m further along another axis. */
    template <int OTHER> __device__ __forceinline__ value stated_at(int m) const
    {
        return pack_of<T, V>([&](int v) {
            return values && has(v)
                       ? __ldg(values + v + m * (OTHER == FAST ? 1 : header.axis_of[FAST].n))
                       : stated.v[v];
        });
    }
    /* … and beside it. */
    template <int OTHER>
    __device__ __forceinline__ void pairs_beside(const T *edge, index d, int count,
                                                 value (&pair)[FACE_PAIRS]) const
    {
        const bool is_imposed = d < face.imposed;
        const T *f = edge + d * inward;
        if constexpr (STAGED) {
            pairs_at<OTHER>(is_imposed ? tile + face.ring.at[AXIS_COUNT] : f, count, pair);
        } else if (is_imposed) {
#pragma unroll
            for (int m = 1; m <= FACE_PAIRS; m++)
                if (m <= count)
                    pair[m - 1] = paired(stated_at<OTHER>(m - (header.shift < 0)),
                                         stated_at<OTHER>((header.shift > 0) - m));
        } else if constexpr (V > 1 && OTHER == AXIS_X) {
            pairs_in_row(f, count, pair);
        } else {
            pairs_at<OTHER>(f, count, pair);
        }
    }

    /* acc + what was gathered; where there is no acc (not `begun`) it begins with the first
     * product. */
    template <class Row>
    static __device__ __forceinline__ void fold(const Row &row, const value (&pair)[FACE_PAIRS],
                                                bool begun, value &acc)
    {
#pragma unroll
        for (int i = 0; i < FACE_PAIRS; i++)
            if (i < row.count)
                acc = fused(row.weight(i), pair[i], acc, begun || i > 0);
    }
    /* acc + the points at(0), at(1), … of a row that is not centred, so many of them at a time as
     * registers hold. */
    template <class Row, class At>
    __device__ __forceinline__ void add_points(const Row &row, const At &at, bool begun,
                                               value &acc) const
    {
        constexpr int EACH = STAGED ? 5 : 1;
#pragma unroll
        for (int first = 0; first < TABLE_POINTS; first += EACH) {
            value point[EACH];
            if (first >= row.count)
                return;
#pragma unroll
            for (int i = 0; i < EACH; i++)
                if (STAGED || first + i < row.count)
                    point[i] = at(row.first + row.step * min(first + i, row.count - 1));
#pragma unroll
            for (int i = 0; i < EACH; i++)
                if (first + i < row.count && first + i < TABLE_POINTS)
                    acc = fused(row.weight(first + i), point[i], acc, begun || first + i > 0);
        }
    }
    /* The same along another axis than the side's. */
    template <int OTHER>
    __device__ __forceinline__ void add_points_beside(const T *edge, index d, bool begun,
                                                      value &acc) const
    {
        const bool is_imposed = d < face.imposed;
        const T *f = STAGED && is_imposed ? tile + face.ring.at[AXIS_COUNT] : edge + d * inward;
        add_points(
            row_beside<OTHER>(),
            [&](int m) {
                return !STAGED && is_imposed ? stated_at<OTHER>(m) : load(f + away<OTHER>(m));
            },
            begun, acc);
    }
    /* The pairs of a row along an axis. */
    __device__ __forceinline__ void pairs(const T *edge, int axis, index d, int count,
                                          value (&pair)[FACE_PAIRS]) const
    {
        if (axis == AXIS)
            pairs_inward(edge, d, count, pair);
        else if (axis == FAST)
            pairs_beside<FAST>(edge, d, count, pair);
        else
            pairs_beside<SLOW>(edge, d, count, pair);
    }
    /* acc + the derivative along an axis at layer d by its row. BESIDE: other axes may have
     * coordinates. given: the side's datum. */
    template <bool BESIDE, class Row>
    __device__ __forceinline__ void along(const T *edge, int axis, index d, const Row &row,
                                          const value &given, bool begun, value &acc) const
    {
        if (row.step == 0) {
            value pair[FACE_PAIRS];
            pairs(edge, axis, d, row.count, pair);
            fold(row, pair, begun, acc);
        } else if (axis == AXIS) {
            add_points(
                row, [&](int m) { return inside(edge, d + m); }, begun, acc);
        } else if constexpr (BESIDE && V == 1) { /* packs have none beside them */
            axis == FAST ? add_points_beside<FAST>(edge, d, begun, acc)
                         : add_points_beside<SLOW>(edge, d, begun, acc);
        }
        if (axis == AXIS && row.datum != (T)0)
            acc = fused(row.datum, given, acc, begun || row.count > 0);
    }
    /* act(row) of the row of an axis. */
    template <class Act>
    __device__ __forceinline__ void with_row(int axis, const own_row &own, const Act &act) const
    {
        if constexpr (STAGED) {
            if (axis == AXIS)
                return act(own);
            act(axis == FAST ? row_beside<FAST>() : row_beside<SLOW>());
        } else {
            act(axis == AXIS ? own : axis == FAST ? row_beside<FAST>() : row_beside<SLOW>());
        }
    }

    /* The datum of the side for a component; anything where it has none. */
    __device__ __forceinline__ value given(int component) const
    {
        value of = stated;
        if (side.datum != SIDE_DATUM_MIXED_NODE && side.datum != SIDE_DATUM_MIXED_FACE)
            return of;
#pragma unroll
        for (int v = 0; v < V; v++) {
            if constexpr (STAGED) {
                of.v[v] = staged_datum(edge(component));
            } else {
                auto there = view;
                point_move(&there, view.at[AXIS_X] + v, view.at[AXIS_Y], view.at[AXIS_Z]);
                of.v[v] = point_datum(&there, component, AXIS, face.side);
            }
        }
        return of;
    }
    /* table_datum() of a mixed condition. */
    __device__ __forceinline__ T staged_datum(const T *edge) const
    {
        const T value = stated.v[0], constant = tile[face.ring.at[AXIS_COUNT] + 1];
        if (side.datum == SIDE_DATUM_MIXED_NODE)
            return fused(-value, inside(edge, 0).v[0], constant);
        const auto row =
            row_at<0>((const row_type *)(view.bytes + header.axis_of[AXIS].face[face.side]), AXIS,
                      face.side == SIDE_LOW ? 0 : header.axis_of[AXIS].n - 1);
        pack<T, V> acc = {};
        add_points(
            row, [&](int k) { return inside(edge, k); }, false, acc);
        return fused(-value, fused(row.datum, constant, acc.v[0]) / fused(row.datum, value, (T)1),
                     constant);
    }
};
