/* Points outside the interior, or all where no kernel takes the interior, of plans that are not
 * plain, by their table:
 *
 *   faces   the layers next to a side where all other axes are centred and nothing but this side
 *           is mapped, imposed or held: what a layer reads is the same of all its points, so that
 *           threads find it without asking for each. The axis is a template parameter.
 *   rims    what is left, a thread a point by numerics/table_point.h
 *
 * The header of the table comes as a parameter, in constant memory; rows are read through the first
 * cache. */
#include "gpu/cuda/table_face.cuh"

#include <string.h>

enum { THREADS = FACE_THREADS, RIM_BOXES = BOUNDARY_BOXES * 5, STAGE_BYTES = 48 << 10 };

struct table_shape {
    struct table_face face[BOUNDARY_BOXES];
    /* The rims, as boundary_find() needs them. */
    int64_t begin[RIM_BOXES][AXIS_COUNT], size[RIM_BOXES][AXIS_COUNT], end[RIM_BOXES];
    int64_t points, batch, rim_blocks, face_blocks; /* face_blocks: of one field */
    int32_t boxes, faces, slot, stage_bytes;
};

template <typename T, int V, int FORM>
static __global__ void __launch_bounds__(THREADS, V == 4 ? 3 : 4)
    table_kernel(const __grid_constant__ table_header header,
                 const __grid_constant__ table_pass pass, const __grid_constant__ table_shape shape)
{
    const void *rows = table[shape.slot].rows;
    if (blockIdx.x >= shape.rim_blocks) {
        int64_t block = blockIdx.x - shape.rim_blocks;
        const uint64_t field = (uint64_t)(block / shape.face_blocks);
        block -= (int64_t)field * shape.face_blocks;
        int i = 0;
        while (block >= shape.face[i].last_block)
            i++;
        block -= i ? shape.face[i - 1].last_block : 0;
        const table_face &face = shape.face[i];
        if constexpr (FORM == TABLE_FORM_SUM || FORM == TABLE_FORM_PARTS) {
            if (face.axis == AXIS_X && face.staged)
                face_staged<T, V, FORM>(header, face, pass, rows, field, block);
            else if (face.axis == AXIS_X)
                face_threads<T, AXIS_X, 1, FORM>(header, face, pass, rows, field, block);
            else if (face.axis == AXIS_Y)
                face_threads<T, AXIS_Y, V, FORM>(header, face, pass, rows, field, block);
            else
                face_threads<T, AXIS_Z, V, FORM>(header, face, pass, rows, field, block);
        }
        return;
    }
    int64_t at[AXIS_COUNT];
    uint64_t field;
    if (!boundary_find(shape, (uint64_t)blockIdx.x * THREADS + threadIdx.x, at, &field))
        return;
    auto view = begin_view(header, rows, pass, field, T());
    move(&view, at);
    const uint64_t place = field * header.points + (uint64_t)view.place;
    for (int c = 0; c < header.outputs; c++)
        ((T *)pass.out[c])[place] = pass.impose ? impose(&view) : evaluate(&view, c, FORM);
}

/* --- on the host --- */

static void add_rim(struct table_shape *shape, const int64_t begin[AXIS_COUNT],
                    const int64_t end[AXIS_COUNT])
{
    int64_t points = 1;
    for (int a = 0; a < AXIS_COUNT; a++) {
        shape->begin[shape->boxes][a] = begin[a];
        shape->size[shape->boxes][a] = end[a] - begin[a];
        points *= end[a] > begin[a] ? end[a] - begin[a] : 0;
    }
    if (points == 0)
        return;
    shape->points += points;
    shape->end[shape->boxes++] = shape->points;
}

/* How many points of a line so many layers at that side read; 0 where a row of theirs has a datum
 * of the other side, reads what that imposes, holds or maps, or is not of neighbours from the edge
 * inwards. */
template <class Row>
static int64_t points_read(const table_header *header, int use, int a, int side, int64_t layers)
{
    const table_axis &axis = header->axis_of[a];
    const table_rows &rows = header->rows[use][a];
    const int other = side == SIDE_LOW ? SIDE_HIGH : SIDE_LOW;
    const int64_t own = side == SIDE_LOW ? rows.low : rows.high;
    int64_t most = layers;
    if (layers + rows.low + rows.high > axis.n)
        return 0;
    for (int64_t d = 0; d < layers; d++) {
        const int64_t i = d >= own ? rows.low + rows.high : side == SIDE_LOW ? d : rows.low + d;
        const Row &row = ((const Row *)((const char *)header + rows.at))[i];
        const int64_t first = side == SIDE_LOW ? row.first : axis.n - 1 - row.first;
        const int64_t end = row.step == 0 ? d + row.count + 1 : first + row.count;
        if (row.data[other] != 0 || end > axis.n - axis.side[other].held ||
            row.count > axis.n - 2 ||
            (row.step != 0 && (row.step != (side == SIDE_LOW ? 1 : -1) || first < 0)))
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

/* Has a box of the boundary [begin, end) a face? Then [low, high) is where. */
static bool find_face(const table_header *header, const table_pass *pass, int a, int side,
                      const int64_t begin[AXIS_COUNT], const int64_t end[AXIS_COUNT],
                      int64_t low[AXIS_COUNT], int64_t high[AXIS_COUNT])
{
    const table_axis *axis = &header->axis_of[a];
    const int64_t layers = end[a] - begin[a];
    const bool at_edge = side == SIDE_LOW ? begin[a] == 0 : end[a] == axis->n;
    if ((header->form != TABLE_FORM_SUM && header->form != TABLE_FORM_PARTS) || pass->impose ||
        !at_edge || layers + axis->side[SIDE_LOW].held + axis->side[SIDE_HIGH].held > axis->n ||
        axis->side[side].halo ||
        points_read(header, TABLE_ROWS_OF_FACTORS + pass->set, a, side, layers) == 0)
        return false;
    for (int b = 0; b < AXIS_COUNT; b++) {
        const table_rows *rows = &header->rows[TABLE_ROWS_OF_FACTORS + pass->set][b];
        const int pairs = table_row(header, header, rows, rows->low + rows->high).count;
        /* With coordinates there are none: each index has a row of its own. */
        if (header->active >> b & 1 && (pairs == 0 || pairs > FACE_PAIRS))
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

/* Elements of a load. Packs of float64 would need more registers than there are. */
static int pack_of(const table_header *header)
{
    return header->dtype == DTYPE_F32 && header->axis_of[AXIS_X].n % 4 == 0 ? 4 : 1;
}

/* How blocks compute a face of x: by lines in shared memory, if as many fit as pay. */
static void choose_stage(struct table_shape *shape, struct table_face *face,
                         const table_header *header, int use)
{
    const int64_t element = (int64_t)dtype_element_bytes(header->dtype), V = pack_of(header);
    const int32_t map = header->axis_of[AXIS_X].side[face->side].map;
    const int64_t read = points_read(header, use, AXIS_X, face->side, face->layers);
    const int64_t staged = (read + V - 1) / V * V;
    const int lanes = (int)power_of_two(face->layers, 8);
    face->wide = 4;
    face->high = THREADS / (lanes * face->wide);
    if (header->inputs > 1 || map == SIDE_MAP_PERIODIC || map == SIDE_MAP_ENDPOINT ||
        staged > header->axis_of[AXIS_X].n)
        return;
    int around = 0;
    for (int a = AXIS_Y; a < AXIS_COUNT; a++) {
        const table_rows *rows = &header->rows[use][a];
        if (header->active >> a & 1) {
            const int count = table_row(header, header, rows, rows->low + rows->high).count;
            around = count > around ? count : around;
        }
    }
    for (int lines = 256; lines >= 64; lines /= 2) {
        const int wide = lines > 64 ? 16 : 8, high = lines / wide;
        const int64_t bytes = (wide + 2 * around) * (high + 2 * around) * (staged | 1) * element;
        if (bytes > STAGE_BYTES)
            continue;
        face->wide = wide;
        face->high = high;
        face->staged = (int32_t)staged;
        face->around = around;
        shape->stage_bytes = bytes > shape->stage_bytes ? (int32_t)bytes : shape->stage_bytes;
        return;
    }
}

static void add_face(struct table_shape *shape, const table_header *header, int use, int a,
                     int side, const int64_t low[AXIS_COUNT], const int64_t high[AXIS_COUNT])
{
    const table_axis *axis = &header->axis_of[a];
    const int others[] = {a == AXIS_X ? AXIS_Y : AXIS_X, a == AXIS_Z ? AXIS_Y : AXIS_Z};
    const int V = a == AXIS_X ? 1 : pack_of(header);
    struct table_face *face = &shape->face[shape->faces++];
    face->axis = a;
    face->side = side;
    face->layers = (int32_t)(high[a] - low[a]);
    face->wide = 32;
    face->high = THREADS / face->wide;
    if (a == AXIS_X)
        choose_stage(shape, face, header, use);
    if (header->imposes)
        face->imposed = (int32_t)(side == SIDE_LOW ? axis->first : axis->n - 1 - axis->last);
    int64_t tiles[2];
    for (int i = 0; i < 2; i++) {
        const int64_t size = i == 0 ? face->wide * V : face->high;
        face->begin[i] = low[others[i]];
        face->end[i] = high[others[i]];
        tiles[i] =
            (face->end[i] - (i == 0 ? face->begin[i] / V * V : face->begin[i]) + size - 1) / size;
    }
    face->tiles = tiles[0];
    shape->face_blocks += tiles[0] * tiles[1];
    face->last_block = shape->face_blocks;
}

static void table_shape_init(struct table_shape *shape, const struct geometry *g,
                             const table_header *header, const table_pass *pass)
{
    memset(shape, 0, sizeof *shape);
    shape->slot = g->slot;
    shape->batch = g->boundary.batch;
    for (int box = 0; box < g->boundary.boxes; box++) {
        int64_t begin[AXIS_COUNT], end[AXIS_COUNT], low[AXIS_COUNT], high[AXIS_COUNT];
        for (int b = 0; b < AXIS_COUNT; b++) {
            begin[b] = g->boundary.begin[box][b];
            end[b] = begin[b] + g->boundary.size[box][b];
        }
        const int a = g->boundary.axis[box], side = g->boundary.side[box];
        if (!find_face(header, pass, a, side, begin, end, low, high)) {
            add_rim(shape, begin, end);
            continue;
        }
        add_face(shape, header, TABLE_ROWS_OF_FACTORS + pass->set, a, side, low, high);
        cut_around(begin, end, low, high,
                   [&](const int64_t *from, const int64_t *to) { add_rim(shape, from, to); });
    }
    shape->rim_blocks = (shape->points * shape->batch + THREADS - 1) / THREADS;
}

template <typename T, int V>
static cudaError_t launch_table(const table_header *header, const table_pass *pass,
                                const table_shape *shape, cudaStream_t stream)
{
    static void (*const kernels[])(table_header, table_pass, table_shape) = {
        table_kernel<T, V, TABLE_FORM_PARTS>, table_kernel<T, V, TABLE_FORM_SUM>,
        table_kernel<T, 1, TABLE_FORM_BIHARMONIC>, table_kernel<T, 1, TABLE_FORM_DIVERGENCE>};
    void *arguments[] = {(void *)header, (void *)pass, (void *)shape};
    const int64_t blocks = shape->rim_blocks + shape->face_blocks * shape->batch;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    return cudaLaunchKernel(kernels[header->form], dim3((unsigned)blocks), dim3(THREADS), arguments,
                            (size_t)shape->stage_bytes, stream);
}

extern "C" cudaError_t rows_launch(const struct geometry *g, const struct table_pass *pass)
{
    const table_header *header = table_of(g->plan);
    struct table_shape shape;
    table_shape_init(&shape, g, header, pass);
    if (g->plan->dtype == DTYPE_F64)
        return launch_table<double, 1>(header, pass, &shape, g->stream);
    return pack_of(header) == 4 ? launch_table<float, 4>(header, pass, &shape, g->stream)
                                : launch_table<float, 1>(header, pass, &shape, g->stream);
}
