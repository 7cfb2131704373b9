#include "gpu/cuda/early.cuh"
#include "gpu/cuda/padding.h"
#include "gpu/cuda/stencil_point.cuh"

/* Beyond a side, and what it holds. */
template <typename T> struct padding_side {
    bool is_short; /* a ghost is the sum of its row, with the number as the datum */
    bool is_slow;  /* what is padded there is left to the contract's own code */
    bool datum;
    int held, points; /* outermost points that are read as the number; of a row */
    T number;
    T row[KERNEL_RADIUS][STENCIL_ROW], data[KERNEL_RADIUS];
};

enum {
    PADDING_THREADS = 256,
    PADDING_BLOCKS = 4, /* of a multiprocessor: their loads are what takes time */
    LINES = PADDING_THREADS / SIDE_COUNT,
    SPANS = (AXIS_COUNT - AXIS_Y) * SIDE_COUNT /* beyond y and z */
};

template <typename T> struct padding_fields {
    stencil_padding padding;
    int n[AXIS_COUNT];
    int64_t points, batch;
    const struct stencil_table *table;
    int slot; /* table NULL: its table */
    const void *operands[OPERANDS];
    padding_side<T> side[AXIS_COUNT][SIDE_COUNT];
    /* Of a launch: the first blocks pad lines along x; then those of each side of y and z, from the
     * field's own points, or (beside) from what pads these already. */
    uint32_t line_blocks, blocks[SPANS];
    bool beside;
};

/* The place among an axis's layers of the point `distance` beyond its side: 0 is the first ghost,
 * −1 the edge. */
static __device__ __forceinline__ int layer_of(const stencil_padding &padding, int axis, int side,
                                               int distance)
{
    return side == SIDE_LOW ? padding.start[axis] - 1 - distance
                            : padding.start[axis] + padding.inner[axis][SIDE_LOW] +
                                  padding.inner[axis][SIDE_HIGH] + distance;
}

/* The side of an axis that holds the points of that index. NULL: none. */
template <typename T>
static __device__ __forceinline__ const padding_side<T> *
find_holder(const padding_fields<T> &fields, int axis, int i)
{
    const padding_side<T> &low = fields.side[axis][SIDE_LOW], &high = fields.side[axis][SIDE_HIGH];
    return i < low.held ? &low : i >= fields.n[axis] - high.held ? &high : nullptr;
}

/* Points are read as what `holder`, if any, holds, but at the edge as what the side does. */
template <typename T, int P>
static __device__ __forceinline__ void
impose(const padding_side<T> *holder, const padding_side<T> &side, pack<T, P> (&value)[STENCIL_ROW])
{
    const T number = holder ? holder->number : (T)0, edge = side.held ? side.number : number;
#pragma unroll
    for (int k = 1; k < STENCIL_ROW; k++)
        value[k] = holder ? pack_all<P>(number) : value[k];
    value[0] = holder || side.held ? pack_all<P>(edge) : value[0];
}

/* Ghosts of the side, the nearest first, from the points along its lines. */
template <typename T, int P>
static __device__ __forceinline__ void sum_ghosts(const padding_side<T> &side,
                                                  const pack<T, P> (&value)[STENCIL_ROW],
                                                  pack<T, P> (&ghost)[KERNEL_RADIUS])
{
#pragma unroll
    for (int m = 0; m < KERNEL_RADIUS; m++)
        ghost[m] = {};
#pragma unroll
    for (int k = 0; k < STENCIL_ROW; k++) {
        if (k == side.points)
            break;
#pragma unroll
        for (int m = 0; m < KERNEL_RADIUS; m++)
            ghost[m] = fused(side.row[m][k], value[k], ghost[m], k > 0);
    }
    if (!side.datum)
        return;
#pragma unroll
    for (int m = 0; m < KERNEL_RADIUS; m++)
        ghost[m] = fused(side.data[m], pack_all<P>(side.number), ghost[m]);
}

/* A pack of which `count` points are there. */
template <bool ALIGNED, int P, typename T>
static __device__ __forceinline__ pack<T, P> load_any(const T *from, int count)
{
    if constexpr (ALIGNED) {
        return load_pack<P>(from);
    } else {
        return pack_of<T, P>([&](int p) { return __ldg(from + (p < count ? p : 0)); });
    }
}

/* The points of a line along x next to a side, the edge's first. */
template <int SIDE, bool ALIGNED, typename T>
static __device__ __forceinline__ void load_line(const T *f, int n,
                                                 pack<T, 1> (&value)[STENCIL_ROW])
{
    constexpr int P = 16 / sizeof(T);
    const T *const from = SIDE == SIDE_LOW ? f : f + n - STENCIL_ROW;
#pragma unroll
    for (int k = 0; k < STENCIL_ROW; k += P) {
        const pack<T, P> q = load_any<ALIGNED, P>(from + k, P);
#pragma unroll
        for (int p = 0; p < P; p++)
            value[SIDE == SIDE_LOW ? k + p : STENCIL_ROW - 1 - k - p].v[0] = q.v[p];
    }
}

/* One end of the line (y, z) along x: its ghosts, and its inner points as they are read. */
template <int SIDE, bool ALIGNED, typename T>
static __device__ __forceinline__ void pad_line(const padding_fields<T> &fields, int y, int z,
                                                const T *in, T *out)
{
    constexpr int P = 16 / sizeof(T);
    const stencil_padding &padding = fields.padding;
    const padding_side<T> &side = fields.side[AXIS_X][SIDE];
    const int n = fields.n[AXIS_X];
    if (!side.is_short)
        return;
    pack<T, 1> value[STENCIL_ROW], ghost[KERNEL_RADIUS];
    load_line<SIDE, ALIGNED>(in + ((int64_t)z * fields.n[AXIS_Y] + y) * n, n, value);
    const padding_side<T> *const by_y = find_holder(fields, AXIS_Y, y); /* first axes decide */
    impose(by_y ? by_y : find_holder(fields, AXIS_Z, z), side, value);
    sum_ghosts(side, value, ghost);
    T *const to = out + z * padding.plane + (int64_t)padding.rows_y * padding.pitch +
                  (int64_t)y * padding.row_x;
#pragma unroll
    for (int d = -KERNEL_RADIUS; d < KERNEL_RADIUS; d += P) {
        pack<T, P> q;
#pragma unroll
        for (int p = 0; p < P; p++)
            q.v[SIDE == SIDE_LOW ? P - 1 - p : p] =
                d < 0 ? value[d < 0 ? -1 - d - p : 0].v[0] : ghost[d < 0 ? 0 : d + p].v[0];
        if (d >= -padding.inner[AXIS_X][SIDE] && d < padding.beyond[AXIS_X][SIDE])
            store_pack(to + layer_of(padding, AXIS_X, SIDE, SIDE == SIDE_LOW ? d + P - 1 : d), q);
    }
}

/* Elements between neighbours along y or z, in the field or beside its points. */
template <typename T>
static __host__ __device__ int64_t step_of(const padding_fields<T> &fields, int axis)
{
    if (fields.beside)
        return axis == AXIS_Y ? fields.padding.row_x : fields.padding.plane;
    return (int64_t)fields.n[AXIS_X] * (axis == AXIS_Y ? 1 : fields.n[AXIS_Y]);
}

/* The pack i of those next to a side of y or z: along x or, beyond z, of a plane. */
template <bool ALIGNED, typename T>
static __device__ __forceinline__ void pad_pack(const padding_fields<T> &fields, int axis, int s,
                                                uint32_t i, const T *in, T *out)
{
    constexpr int P = 16 / sizeof(T);
    const stencil_padding &padding = fields.padding;
    const padding_side<T> &side = fields.side[axis][s];
    const bool is_y = axis == AXIS_Y, beside = fields.beside;
    const int64_t step = step_of(fields, axis), layer = is_y ? padding.pitch : padding.z_plane;
    const uint32_t packs = (uint32_t)((step + P - 1) / P);
    const int z = (int)(i / packs), e = (int)(i % packs) * P;
    if (z >= (is_y ? fields.n[AXIS_Z] : 1))
        return;
    const T *from =
        beside ? out + (is_y ? (int64_t)padding.rows_y * padding.pitch : 0) + z * padding.plane
               : in + z * step_of(fields, AXIS_Z);
    from += e + (s == SIDE_LOW ? 0 : (fields.n[axis] - 1) * step);
    T *const to = out + (is_y ? z * padding.plane : padding.z_first) +
                  (beside ? 0
                   : is_y ? padding.row_x
                          : padding.plane) +
                  e;
    pack<T, P> value[STENCIL_ROW] = {}, ghost[KERNEL_RADIUS];
#pragma unroll
    for (int k = 0; k < STENCIL_ROW; k++) /* all on their way at once */
        if (k < side.points || k < side.held)
            value[k] =
                load_any<ALIGNED, P>(from + (s == SIDE_LOW ? k : -k) * step, (int)(step - e));
    if (!beside) /* that is as it is read */
        impose(is_y ? find_holder(fields, AXIS_Z, z) : nullptr, side, value);
    sum_ghosts(side, value, ghost);
    if (side.held)
        store_pack(to + layer_of(padding, axis, s, -1) * layer, value[0]);
#pragma unroll
    for (int m = 0; m < KERNEL_RADIUS; m++)
        if (m < padding.beyond[axis][s])
            store_pack(to + layer_of(padding, axis, s, m) * layer, ghost[m]);
}

/* A thread an end of a line along x, half of a block's those at each side; or a pack beyond a side.
 */
template <bool ALIGNED, typename T>
static __global__ void __launch_bounds__(PADDING_THREADS, PADDING_BLOCKS)
    padding_kernel(const __grid_constant__ padding_fields<T> fields, const T *in, T *out)
{
    let_next_begin();
    if (fields.beside)
        wait_for_previous();
    const uint32_t thread = threadIdx.x, line = blockIdx.x * LINES + thread % LINES;
    const int y = (int)(line % fields.n[AXIS_Y]), z = (int)(line / fields.n[AXIS_Y]);
    uint32_t block = blockIdx.x - fields.line_blocks;
    int s = 0;
    while (blockIdx.x >= fields.line_blocks && block >= fields.blocks[s])
        block -= fields.blocks[s++];
    for (int64_t b = blockIdx.y; b < fields.batch; b += gridDim.y) {
        const T *const f = in + b * fields.points;
        T *const padded = out + b * fields.padding.field;
        if (blockIdx.x >= fields.line_blocks)
            pad_pack<ALIGNED>(fields, AXIS_Y + s / SIDE_COUNT, s % SIDE_COUNT,
                              block * PADDING_THREADS + thread, f, padded);
        else if (z < fields.n[AXIS_Z] && thread < LINES)
            pad_line<SIDE_LOW, ALIGNED>(fields, y, z, f, padded);
        else if (z < fields.n[AXIS_Z])
            pad_line<SIDE_HIGH, ALIGNED>(fields, y, z, f, padded);
    }
}

/* --- what a side's array, a mixed one, or images of the other sign decide --- */

/* The index along an axis of a layer. */
template <typename T>
static __device__ __forceinline__ int index_at(const padding_fields<T> &fields, int axis, int layer)
{
    const stencil_padding &padding = fields.padding;
    const int low = padding.start[axis] + padding.inner[axis][SIDE_LOW];
    return layer < low ? layer - padding.start[axis]
                       : layer - low + fields.n[axis] - padding.inner[axis][SIDE_HIGH];
}

/* The point that the padding's element i is of. False: no slow side pads it. */
template <typename T>
static __device__ __forceinline__ bool find_point(const padding_fields<T> &fields, int64_t i,
                                                  int (&at)[AXIS_COUNT])
{
    const stencil_padding &padding = fields.padding;
    const bool beyond_z = i >= padding.z_first;
    const int64_t from = beyond_z ? i - padding.z_first : i,
                  plane = beyond_z ? padding.z_plane : padding.plane;
    const int z = (int)(from / plane), beside_y = padding.rows_y * padding.pitch;
    int e = (int)(from % plane);
    const bool beyond_y = e < beside_y, own = e >= padding.plane;
    e -= beyond_y ? 0 : own ? (int)padding.plane : beside_y;
    const int row = beyond_y ? padding.pitch : own ? fields.n[AXIS_X] : padding.row_x;
    const int y = e / row, x = e % row;
    at[AXIS_Z] = beyond_z ? index_at(fields, AXIS_Z, z) : z;
    at[AXIS_Y] = beyond_y ? index_at(fields, AXIS_Y, y) : y;
    at[AXIS_X] = own ? x : x < padding.row_x ? index_at(fields, AXIS_X, x) : x - padding.row_x;
    bool is_slow = false;
    for (int a = 0; a < AXIS_COUNT; a++)
        is_slow |= at[a] < padding.inner[a][SIDE_LOW] ? fields.side[a][SIDE_LOW].is_slow
                   : at[a] >= fields.n[a] - padding.inner[a][SIDE_HIGH]
                       ? fields.side[a][SIDE_HIGH].is_slow
                       : false;
    return is_slow;
}

/* By the contract's code, a thread an element. */
template <typename T>
static __global__ void __launch_bounds__(PADDING_THREADS)
    points_kernel(const __grid_constant__ padding_fields<T> fields, const T *in, T *out)
{
    const int64_t i = (int64_t)blockIdx.x * PADDING_THREADS + threadIdx.x;
    int at[AXIS_COUNT];
    if (i >= fields.padding.field || !find_point(fields, i, at))
        return;
    for (int64_t b = blockIdx.y; b < fields.batch; b += gridDim.y) {
        const stencil_point_source<T> source = {
            fields.table ? fields.table : (const struct stencil_table *)table[fields.slot].rows,
            in + b * fields.points, fields.operands, b};
        out[b * fields.padding.field + i] =
            stencil_read<T>(source, at[AXIS_X], at[AXIS_Y], at[AXIS_Z]);
    }
}

static int rounded_up(int64_t n, int unit)
{
    return (int)(blocks_of(n, unit) * unit);
}

uint64_t padding_init(stencil_padding *padding, const struct stencil_table *host, int pack,
                      uint64_t batch, uint64_t element_bytes)
{
    int64_t layers[AXIS_COUNT];
    memset(padding, 0, sizeof *padding);
    for (int a = 0; a < AXIS_COUNT; a++) {
        const struct stencil_axis *axis = &host->axis[a];
        const int unit = a == AXIS_X ? pack : 1;
        for (int s = 0; s < SIDE_COUNT; s++) {
            const struct side *side = &axis->side[s];
            if (!kernel_pads(side))
                continue;
            padding->beyond[a][s] = s == SIDE_LOW ? axis->below : axis->above;
            padding->inner[a][s] = rounded_up(side->held, unit);
            padding->held[a][s] = side->value.operand < 0 ? side->held : 0;
            if (element_bytes == sizeof(float))
                padding->number[a][s].f32 = (float)side->value.number;
            else
                padding->number[a][s].f64 = side->value.number;
        }
        padding->start[a] = rounded_up(padding->beyond[a][SIDE_LOW], unit);
        layers[a] = padding->start[a] + padding->inner[a][SIDE_LOW] + padding->inner[a][SIDE_HIGH] +
                    padding->beyond[a][SIDE_HIGH];
    }
    const int64_t n_x = host->axis[AXIS_X].n, n_y = host->axis[AXIS_Y].n,
                  n_z = host->axis[AXIS_Z].n;
    padding->rows_y = (int)layers[AXIS_Y];
    padding->row_x = rounded_up(layers[AXIS_X], pack);
    padding->pitch = padding->row_x + rounded_up(n_x, pack);
    padding->plane = (int64_t)padding->rows_y * padding->pitch + n_y * padding->row_x;
    padding->z_first = n_z * padding->plane;
    padding->z_plane = padding->plane + rounded_up(n_x * n_y, pack);
    padding->field = padding->z_first + layers[AXIS_Z] * padding->z_plane;
    const double bytes = (double)padding->field * (double)batch * (double)element_bytes;
    return bytes > 0x1p40 || padding->plane > INT32_MAX || padding->z_plane > INT32_MAX
               ? 0
               : (uint64_t)bytes;
}

template <typename T>
static void take_side(padding_side<T> *to, const struct side *side,
                      const struct stencil_ghosts *ghosts, bool after_halo)
{
    const bool is_number = side->value.operand < 0;
    to->held = side->halo ? 0 : side->held;
    to->datum = side->datum == SIDE_DATUM_NUMBER;
    to->number = (T)side->value.number;
    to->points = ghosts->points;
    to->is_short = side->map == SIDE_MAP_GHOST && (is_number || !(to->datum || to->held)) &&
                   (to->datum || side->datum == SIDE_DATUM_NONE) && !(to->held && after_halo) &&
                   kernel_pads(side);
    to->is_slow = kernel_pads(side) && !to->is_short;
    for (int m = 0; m < KERNEL_RADIUS; m++) {
        for (int k = 0; k < STENCIL_ROW; k++)
            to->row[m][k] = (T)ghosts->ghost[m][k];
        to->data[m] = (T)ghosts->data[m];
    }
}

template <typename T>
static cudaError_t launch(void (*kernel)(padding_fields<T>, const T *, T *), int64_t blocks,
                          padding_fields<T> *fields, const void *in, cudaStream_t stream)
{
    const int64_t most = 65535;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    if (blocks == 0)
        return cudaSuccess;
    const dim3 grid((unsigned)blocks, (unsigned)(fields->batch < most ? fields->batch : most));
    const early_launch early(grid, dim3(PADDING_THREADS), 0, stream, fields->beside);
    return cudaLaunchKernelEx(&early.config, kernel, *fields, (const T *)in,
                              (T *)fields->padding.values);
}

/* What needs no other padding first: lines along x, and beyond y and z the field's own points. Then
 * what is beside those, beyond y, and then beyond z. */
template <typename T>
static cudaError_t pad_short(padding_fields<T> *fields, const void *in, cudaStream_t stream)
{
    const padding_side<T> *x = fields->side[AXIS_X];
    const int64_t lines = (int64_t)fields->n[AXIS_Y] * fields->n[AXIS_Z];
    cudaError_t error = cudaSuccess;
    for (int stage = 0; stage < AXIS_COUNT && error == cudaSuccess; stage++) {
        const bool has_lines = x[SIDE_LOW].is_short || x[SIDE_HIGH].is_short;
        int64_t blocks = stage == 0 && has_lines ? blocks_of(lines, LINES) : 0;
        fields->line_blocks = (uint32_t)blocks;
        fields->beside = stage > 0;
        for (int s = 0; s < SPANS; s++) {
            const int axis = AXIS_Y + s / SIDE_COUNT;
            const int64_t packs = blocks_of(step_of(*fields, axis), 16 / sizeof(T));
            const bool pads =
                (stage == 0 || stage == axis) && fields->side[axis][s % SIDE_COUNT].is_short;
            fields->blocks[s] =
                pads ? (uint32_t)blocks_of(packs * (axis == AXIS_Y ? fields->n[AXIS_Z] : 1),
                                           PADDING_THREADS)
                     : 0;
            blocks += fields->blocks[s];
        }
        error = launch(fields->n[AXIS_X] % (16 / sizeof(T)) == 0 ? padding_kernel<true, T>
                                                                 : padding_kernel<false, T>,
                       blocks, fields, in, stream);
    }
    return error;
}

template <typename T>
static cudaError_t fill(const stencil_padding *padding, const struct stencil_table *host,
                        const struct stencil_table *device, int slot,
                        const void *const operands[OPERANDS], uint64_t batch, const void *in,
                        cudaStream_t stream)
{
    padding_fields<T> fields = {};
    bool has_halo = false, has_slow = false;
    fields.padding = *padding;
    fields.points = (int64_t)host->field_points;
    fields.batch = (int64_t)batch;
    fields.table = device;
    fields.slot = slot;
    memcpy(fields.operands, operands, sizeof fields.operands);
    for (int a = 0; a < AXIS_COUNT; a++) {
        const struct stencil_axis *axis = &host->axis[a];
        fields.n[a] = (int)axis->n;
        for (int s = 0; s < SIDE_COUNT; s++) {
            take_side(&fields.side[a][s], &axis->side[s], &axis->ghosts[s], has_halo);
            has_slow |= fields.side[a][s].is_slow;
        }
        has_halo |= axis->side[SIDE_LOW].halo || axis->side[SIDE_HIGH].halo;
    }
    const cudaError_t error = pad_short(&fields, in, stream);
    if (error != cudaSuccess || !has_slow)
        return error;
    return launch(points_kernel<T>, blocks_of(padding->field, PADDING_THREADS), &fields, in,
                  stream);
}

cudaError_t padding_fill(const stencil_padding *padding, const struct stencil_table *host,
                         const struct stencil_table *device, int slot,
                         const void *const operands[OPERANDS], enum dtype dtype, uint64_t batch,
                         const void *in, cudaStream_t stream)
{
    return dtype == DTYPE_F32
               ? fill<float>(padding, host, device, slot, operands, batch, in, stream)
               : fill<double>(padding, host, device, slot, operands, batch, in, stream);
}
