/* Points outside the interior, or all where no kernel takes the interior, of plans that are not
 * plain, by their table, where faces.cu does not take them: with coordinates, staggered, with
 * arrays over a face, halos, images, and what a pass adds:
 *
 *   faces   the layers next to a side where all other axes are centred and nothing but this side
 *           is mapped, imposed or held: what a layer reads is the same of all its points, so that
 *           threads find it without asking for each. The axis is a template parameter. Those of x
 *           have a kernel of their own (table_march.cuh): the others need fewer registers, and no
 *           shared memory.
 *   rims    what is left, a thread a point by numerics/table_point.h, with the faces of y and z
 *
 * The header of the table comes as a parameter, in constant memory; rows are read through the first
 * cache. */
#include "gpu/cuda/faces.h"
#include "gpu/cuda/table_march.cuh"

#include <string.h>

enum {
    THREADS = TABLE_THREADS,
    RING_BYTES = 48 << 10, /* of more than the fewest planes in flight */
    RING_AHEAD = 6,        /* planes in flight, at most, … */
    RING_AHEAD_LEAST = 2   /* … and at least */
};

/* Elements of a load at most: packs of float64 would need more registers than there are. */
template <typename T> constexpr int PACK = sizeof(T) == 4 ? 4 : 1;

/* Blocks of a march on a multiprocessor. */
template <typename T> constexpr int RESIDENT = sizeof(T) == 4 ? 4 : 3;

/* Faces that one launch computes. */
struct table_faces {
    struct table_face face[BOUNDARY_BOXES];
    int64_t blocks; /* of one field */
    int32_t count, slot;
};

struct table_shape {
    struct table_faces x, others;
    struct boundary_rest rims;
    int64_t rim_blocks;
    int32_t ring_bytes;
};

/* The face of a block, which becomes the block of that. */
static __device__ __forceinline__ const table_face &face_of(const table_faces &faces,
                                                            int64_t *block, uint64_t *field)
{
    *field = (uint64_t)(*block / faces.blocks);
    *block -= (int64_t)*field * faces.blocks;
    int i = 0;
    while (*block >= faces.face[i].last_block)
        i++;
    *block -= i ? faces.face[i - 1].last_block : 0;
    return faces.face[i];
}

template <typename T, int FORM>
static __global__ void __launch_bounds__(THREADS, RESIDENT<T>)
    march_kernel(const __grid_constant__ table_header header,
                 const __grid_constant__ table_pass pass, const __grid_constant__ table_faces faces)
{
    int64_t block = blockIdx.x;
    uint64_t field;
    const table_face &face = face_of(faces, &block, &field);
    table_march<T, FORM>(header, face, pass, table[faces.slot].rows, field, block);
}

/* A thread's pack of every layer. */
template <typename T, int AXIS, int V, int FORM>
static __device__ __forceinline__ void face_threads(const table_header &header,
                                                    const table_face &face, const table_pass &pass,
                                                    const void *rows, uint64_t field, int64_t block)
{
    const int t = (int)threadIdx.x;
    const int64_t first = face.begin[0] / V * V + block % face.tiles * face.wide * V;
    const int64_t fast = first + t % face.wide * V;
    const int64_t slow = face.begin[1] + block / face.tiles * face.high + t / face.wide;
    if (fast >= face.end[0] || slow >= face.end[1])
        return;
    auto view = begin_view<T>(header, rows, pass, field);
    const int64_t edge = face.side == SIDE_LOW ? 0 : header.axis_of[AXIS].n - 1;
    const int64_t at[AXIS_COUNT] = {fast, AXIS == AXIS_Y ? edge : slow,
                                    AXIS == AXIS_Z ? edge : slow};
    point_move(&view, at[AXIS_X], at[AXIS_Y], at[AXIS_Z]);
    const table_points<T, AXIS, V> lines(header, face, view);
    for (int c = 0; c < header.outputs; c++) {
        const auto given = lines.given(lines.template part_along<FORM>(c));
        for (int64_t d = 0; d < face.layers; d++)
            lines.template compute<FORM>(c, d, lines.template row_of_layer<0>(d), given,
                                         lines.base(d));
    }
}

template <typename T, int V, int FORM>
static __global__ void __launch_bounds__(THREADS, V == 4 ? 3 : 4)
    table_kernel(const __grid_constant__ table_header header,
                 const __grid_constant__ table_pass pass, const __grid_constant__ table_faces faces,
                 const __grid_constant__ boundary_rest rims, int64_t rim_blocks)
{
    const void *rows = table[faces.slot].rows;
    uint64_t field;
    if (blockIdx.x >= rim_blocks) {
        int64_t block = blockIdx.x - rim_blocks;
        const table_face &face = face_of(faces, &block, &field);
        if constexpr (FORM == TABLE_FORM_SUM || FORM == TABLE_FORM_PARTS) {
            if (face.axis == AXIS_Y)
                face_threads<T, AXIS_Y, V, FORM>(header, face, pass, rows, field, block);
            else
                face_threads<T, AXIS_Z, V, FORM>(header, face, pass, rows, field, block);
        }
        return;
    }
    int64_t at[AXIS_COUNT];
    if (!boundary_find(rims, (uint64_t)blockIdx.x * THREADS + threadIdx.x, at, &field))
        return;
    auto view = begin_view<T>(header, rows, pass, field);
    point_move(&view, at[AXIS_X], at[AXIS_Y], at[AXIS_Z]);
    const uint64_t place = field * header.points + (uint64_t)view.place;
    for (int c = 0; c < header.outputs; c++)
        ((T *)pass.out[c])[place] =
            pass.impose ? point_impose(&view) : point_evaluate_form(&view, c, FORM);
}

/* --- on the host --- */

/* How many points of a line so many layers at that side read; 0 where a row of theirs has a datum
 * of the other side, or reads what that imposes, holds or maps. */
template <class Row>
static int64_t points_read(const table_header *header, int use, int a, int side, int64_t layers)
{
    const table_axis &axis = header->axis_of[a];
    const table_rows &rows = header->rows[use][a];
    const int other = side == SIDE_LOW ? SIDE_HIGH : SIDE_LOW;
    int64_t most = layers;
    for (int64_t d = 0; d < layers; d++) {
        const int64_t i = side == SIDE_LOW ? d : axis.n - 1 - d;
        const Row &row =
            ((const Row *)((const char *)header + rows.at))[table_row_number(&rows, axis.n, i)];
        /* Of a row without points, which is its datum alone, first is the edge. */
        const int64_t last = row.first + (row.count > 0 ? row.step * (row.count - 1) : 0);
        const int64_t low = row.first < last ? row.first : last;
        const int64_t high = row.first < last ? last : row.first;
        const int64_t end = row.step == 0      ? d + row.count + 1
                            : side == SIDE_LOW ? high + 1
                                               : axis.n - low;
        if (row.data[other] != 0 || end > axis.n - axis.side[other].held ||
            row.count > axis.n - 2 || (row.step != 0 && (low < 0 || high >= axis.n)))
            return 0;
        most = end > most ? end : most;
    }
    return most;
}

static int64_t points_read(const table_header *header, int use, int a, int side, int64_t layers)
{
    if (!(header->active >> a & 1))
        return layers;
    return header->dtype == DTYPE_F32
               ? points_read<struct table_row_f32>(header, use, a, side, layers)
               : points_read<struct table_row_f64>(header, use, a, side, layers);
}

/* Has a single axis a derivative? */
static bool is_line(const table_header *header)
{
    return (header->active & (header->active - 1)) == 0;
}

/* Elements of a load. Where other axes have coordinates each point has a row of its own. */
static int pack_points(const struct geometry *g)
{
    const table_header *header = table_of(g->plan);
    const bool is_packed =
        header->axis_of[AXIS_X].n % 4 == 0 && (is_line(header) || !g->plan->indexed);
    return !is_packed ? 1 : header->dtype == DTYPE_F32 ? PACK<float> : PACK<double>;
}

/* Points on either side that rows of an axis read in the table's box. */
static int reach_of(const struct geometry *g, int use, int a)
{
    if (!(table_of(g->plan)->active >> a & 1))
        return 0;
    return g->plan->indexed >> a & 1 ? g->plan->radius : centred_row(g->plan, use, a).count;
}

/* Has a box of the boundary [begin, end) a face? Then [low, high) is where. */
static bool find_face(const struct geometry *g, const table_pass *pass, int a, int side,
                      const int64_t begin[AXIS_COUNT], const int64_t end[AXIS_COUNT],
                      int64_t low[AXIS_COUNT], int64_t high[AXIS_COUNT])
{
    const table_header *header = table_of(g->plan);
    const table_axis *axis = &header->axis_of[a];
    const int64_t layers = end[a] - begin[a];
    const bool at_edge = side == SIDE_LOW ? begin[a] == 0 : end[a] == axis->n;
    if ((header->form != TABLE_FORM_SUM && header->form != TABLE_FORM_PARTS) || pass->impose ||
        !at_edge || layers + axis->side[SIDE_LOW].held + axis->side[SIDE_HIGH].held > axis->n ||
        axis->side[side].halo ||
        points_read(header, TABLE_ROWS_OF_FACTORS + pass->set, a, side, layers) == 0)
        return false;
    for (int b = 0; b < AXIS_COUNT; b++) {
        const int reach = reach_of(g, TABLE_ROWS_OF_FACTORS + pass->set, b);
        if (header->active >> b & 1 && (reach == 0 || reach > FACE_PAIRS))
            return false;
        /* A layer that is imposed on beside the only axis: packs have no rows by index. */
        if (b != a && g->plan->indexed >> b & 1 && is_line(header))
            return false;
        low[b] = b == a || header->axis_of[b].low < begin[b] ? begin[b] : header->axis_of[b].low;
        high[b] = b == a || header->axis_of[b].high > end[b] ? end[b] : header->axis_of[b].high;
        /* What is imposed on this face is not where the other axis has a halo. */
        if (b != a && header->imposes && header->axis_of[b].side[SIDE_LOW].halo)
            low[b] += TABLE_PAIRS;
        if (b != a && header->imposes && header->axis_of[b].side[SIDE_HIGH].halo)
            high[b] -= TABLE_PAIRS;
        if (high[b] <= low[b])
            return false;
    }
    return true;
}

/* Points of a line's end that a face of x reads of each component of the input. */
static void find_points(const table_header *header, int use, int side, int64_t layers,
                        int64_t points[AXIS_COUNT])
{
    const table_axis &axis = header->axis_of[AXIS_X];
    int64_t inwards = points_read(header, use, AXIS_X, side, layers);
    if (axis.side[side].datum == SIDE_DATUM_MIXED_FACE) {
        const struct table_rows at_face = {axis.face[side], 0, 0}; /* from the edge inwards */
        const int64_t count = table_row(header, header, &at_face, 0).count;
        inwards = count > inwards ? count : inwards;
    }
    points[0] = header->form == TABLE_FORM_SUM ? inwards : 0;
    if (header->form == TABLE_FORM_SUM)
        return;
    for (int c = 0, of, along; c < header->outputs; c++)
        for (int k = 0; table_part(header, c, k, &of, &along); k++) {
            const int64_t read = along == AXIS_X ? inwards : layers;
            points[of] = read > points[of] ? read : points[of];
        }
}

static int64_t ring_bytes(const struct table_ring *ring, const table_header *header)
{
    return (int64_t)ring->planes * ring->lines * ring->pitch *
           (int64_t)dtype_element_bytes(header->dtype);
}

/* How a block marches along a face of x; false: its ring does not fit. */
static bool choose_ring(struct table_face *face, const struct geometry *g, int use)
{
    const table_header *header = table_of(g->plan);
    struct table_ring *ring = &face->ring;
    const struct side *side = &header->axis_of[AXIS_X].side[face->side];
    const int64_t n = header->axis_of[AXIS_X].n;
    int64_t points[AXIS_COUNT] = {0, 0, 0};
    if (face->layers > THREADS / 4 || side->map == SIDE_MAP_PERIODIC ||
        side->map == SIDE_MAP_ENDPOINT)
        return false;
    find_points(header, use, face->side, face->layers, points);
    const int unit = header->dtype == DTYPE_F32 ? 4 : 2;
    ring->unit = n % unit == 0 ? unit : 1;
    for (int c = 0; c < AXIS_COUNT; c++) {
        points[c] = (points[c] + ring->unit - 1) / ring->unit * ring->unit;
        if (points[c] > n || points[c] > THREADS)
            return false;
        ring->at[c + 1] = ring->at[c] + (int32_t)points[c];
    }
    const int numbers = ring->at[AXIS_COUNT] / ring->unit;
    const int end = numbers + (FACE_NUMBERS + ring->unit - 1) / ring->unit;
    ring->pitch = (end | 1) * ring->unit;
    ring->copies =
        numbers + (side->value.operand < 0 && side->constant.operand < 0 ? 0 : FACE_NUMBERS);
    for (int i = 0; i < 2; i++)
        ring->around[i] = reach_of(g, use, AXIS_Y + i);
    face->wide = THREADS / face->layers;
    ring->lines = face->wide + 2 * ring->around[0];
    for (ring->ahead = RING_AHEAD;; ring->ahead--) {
        ring->planes = 2 * ring->around[1] + 1 + ring->ahead;
        if (ring->ahead == RING_AHEAD_LEAST || ring_bytes(ring, header) <= RING_BYTES)
            break;
    }
    return ring->copies <= THREADS && ring_bytes(ring, header) <= block_shared_bytes();
}

/* How the blocks of a face divide it; false: they cannot. */
static bool add_face(struct table_shape *shape, const struct geometry *g, int use, int a, int side,
                     const int64_t low[AXIS_COUNT], const int64_t high[AXIS_COUNT])
{
    const table_header *header = table_of(g->plan);
    const table_axis *axis = &header->axis_of[a];
    const int others[] = {a == AXIS_X ? AXIS_Y : AXIS_X, a == AXIS_Z ? AXIS_Y : AXIS_Z};
    const int V = a == AXIS_X ? 1 : pack_points(g);
    struct table_faces *faces = a == AXIS_X ? &shape->x : &shape->others;
    struct table_face *face = &faces->face[faces->count];
    memset(face, 0, sizeof *face);
    face->axis = a;
    face->side = side;
    face->layers = (int32_t)(high[a] - low[a]);
    face->wide = 32;
    face->high = THREADS / face->wide;
    if (a == AXIS_X && !choose_ring(face, g, use))
        return false;
    if (header->imposes)
        face->imposed = (int32_t)(side == SIDE_LOW ? axis->first : axis->n - 1 - axis->last);
    for (int i = 0; i < 2; i++) {
        face->begin[i] = low[others[i]];
        face->end[i] = high[others[i]];
    }
    const int64_t begin = face->begin[0] / V * V, planes = face->end[1] - face->begin[1];
    face->tiles = blocks_of(face->end[0] - begin, face->wide * V);
    if (a == AXIS_X) {
        const int resident = header->dtype == DTYPE_F32 ? RESIDENT<float> : RESIDENT<double>;
        const int64_t columns = SIDE_COUNT * face->tiles * g->boundary.batch;
        const int64_t bytes = ring_bytes(&face->ring, header);
        face->high = (int32_t)column_length(planes, columns, (int64_t)g->units * resident,
                                            face->ring.around[1] + face->ring.ahead);
        shape->ring_bytes = bytes > shape->ring_bytes ? (int32_t)bytes : shape->ring_bytes;
    }
    faces->blocks += face->tiles * blocks_of(planes, face->high);
    face->last_block = faces->blocks;
    faces->count++;
    return true;
}

static void table_shape_init(struct table_shape *shape, const struct geometry *g,
                             const table_pass *pass, const struct boundary_rest *boundary)
{
    memset(shape, 0, sizeof *shape);
    shape->x.slot = shape->others.slot = g->slot;
    const int use = TABLE_ROWS_OF_FACTORS + pass->set;
    divide_boundary(*boundary, &shape->rims,
                    [&](int a, int side, const int64_t *begin, const int64_t *end, int64_t *low,
                        int64_t *high) {
                        return find_face(g, pass, a, side, begin, end, low, high) &&
                               add_face(shape, g, use, a, side, low, high);
                    });
    shape->rim_blocks = blocks_of(shape->rims.points * shape->rims.batch, THREADS);
}

template <typename T, int V>
static cudaError_t launch_table(const struct geometry *g, const table_pass *pass,
                                const table_shape *shape)
{
    static void (*const kernels[])(table_header, table_pass, table_faces, boundary_rest,
                                   int64_t) = {
        table_kernel<T, V, TABLE_FORM_PARTS>, table_kernel<T, V, TABLE_FORM_SUM>,
        table_kernel<T, 1, TABLE_FORM_BIHARMONIC>, table_kernel<T, 1, TABLE_FORM_DIVERGENCE>};
    const table_header *header = table_of(g->plan);
    const int64_t batch = shape->rims.batch;
    const cudaError_t error =
        launch_kernel(header->form == TABLE_FORM_SUM ? march_kernel<T, TABLE_FORM_SUM>
                                                     : march_kernel<T, TABLE_FORM_PARTS>,
                      g, shape->x.blocks * batch, dim3(THREADS), (size_t)shape->ring_bytes, *header,
                      *pass, shape->x);
    if (error != cudaSuccess)
        return error;
    return launch_kernel(kernels[header->form], g, shape->rim_blocks + shape->others.blocks * batch,
                         dim3(THREADS), 0, *header, *pass, shape->others, shape->rims,
                         shape->rim_blocks);
}

extern "C" cudaError_t rows_launch(const struct geometry *g, const struct table_pass *pass)
{
    struct boundary_rest left;
    struct table_shape shape;
    const cudaError_t error = faces_launch(g, pass, &left);
    if (error != cudaSuccess || left.points == 0)
        return error;
    table_shape_init(&shape, g, pass, &left);
    return with_type(g->plan, [&](auto type) {
        using T = decltype(type);
        return pack_points(g) == 1 ? launch_table<T, 1>(g, pass, &shape)
                                   : launch_table<T, PACK<T>>(g, pass, &shape);
    });
}
