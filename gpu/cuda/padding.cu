#include "gpu/cuda/grid.cuh"
#include "gpu/cuda/padding.h"

#include <string.h>

#define POINT_FMA_F32 __fmaf_rn
#define POINT_FMA_F64 __fma_rn
#include "numerics/stencil_points.h"

/* A side as the short way below takes it. */
template <typename T> struct padding_side {
    int held;     /* outermost points that are read as `number`, or (halo) as they are */
    int points;   /* of a ghost's row; −1: ghosts are left to the contract's own code */
    bool numbers; /* its number is one, no array; and a ghost takes it */
    bool datum, halo;
    T number;
};

template <typename T> struct padding_fields {
    stencil_padding padding;
    int n[AXIS_COUNT];
    int64_t points, batch;
    const struct stencil_table *table;
    int slot; /* table NULL: its table */
    const void *operands[OPERANDS];
    padding_side<T> side[AXIS_COUNT][SIDE_COUNT];
    bool has_signs; /* some images have the other sign */
};

enum {
    PADDING_THREADS = 256,
    PADDING_PLANES = 8,
    PADDING_ROWS = AXIS_COUNT * SIDE_COUNT * KERNEL_RADIUS
};

/* Rows of the ghosts of all sides, and what a datum is multiplied by: rounded, of a block. */
template <typename T> struct padding_rows {
    T row[PADDING_ROWS][STENCIL_ROW], data[PADDING_ROWS];
};

template <typename T>
static __device__ __forceinline__ const struct stencil_table *
padding_table(const padding_fields<T> &fields)
{
    return fields.table ? fields.table : (const struct stencil_table *)table[fields.slot].rows;
}

/* By the contract's code. */
static __device__ __noinline__ float padding_value(const padding_fields<float> &fields,
                                                   const float *f, int64_t field, int x, int y,
                                                   int z)
{
    const struct stencil_source_f32 source = {padding_table(fields), f, fields.operands, field};
    return stencil_read_f32(&source, x, y, z);
}
static __device__ __noinline__ double padding_value(const padding_fields<double> &fields,
                                                    const double *f, int64_t field, int x, int y,
                                                    int z)
{
    const struct stencil_source_f64 source = {padding_table(fields), f, fields.operands, field};
    return stencil_read_f64(&source, x, y, z);
}

/* The side, SIDE_COUNT · axis + side, that holds the point, of the axes along which it is inside;
 * −1: none. */
template <typename T>
static __device__ __forceinline__ int find_holder(const padding_fields<T> &fields,
                                                  const int (&at)[AXIS_COUNT])
{
    int holder = -1;
#pragma unroll
    for (int a = AXIS_COUNT - 1; a >= 0; a--) { /* the first one decides */
        const int before = at[a], after = fields.n[a] - 1 - at[a];
        if (before < 0 || after < 0)
            continue;
        if (after < fields.side[a][SIDE_HIGH].held)
            holder = SIDE_COUNT * a + SIDE_HIGH;
        if (before < fields.side[a][SIDE_LOW].held)
            holder = SIDE_COUNT * a + SIDE_LOW;
    }
    return holder;
}

/* The value beyond sides: the sum along the outermost axis A along which it lies beyond one. What
 * that reads is inside (`alone`; it may be held by a side of another axis, or by the side's own
 * node, and the first axis decides), or was padded along the axes before. */
template <int A, typename T>
static __device__ __forceinline__ T sum_beyond(const padding_fields<T> &fields,
                                               const padding_rows<T> &rows, const T *f,
                                               const T *padded, const int (&at)[AXIS_COUNT],
                                               bool alone, int holder)
{
    const stencil_padding &padding = fields.padding;
    const bool is_low = at[A] < 0;
    const padding_side<T> &low = fields.side[A][SIDE_LOW], &high = fields.side[A][SIDE_HIGH];
    const int points = is_low ? low.points : high.points;
    const T number = is_low ? low.number : high.number;
    const int ghost = is_low ? -1 - at[A] : at[A] - fields.n[A];
    const int row = (A * SIDE_COUNT + (is_low ? 0 : 1)) * KERNEL_RADIUS + ghost;
    const int n_x = fields.n[AXIS_X], n_y = fields.n[AXIS_Y];
    const int first = is_low ? 0 : fields.n[A] - 1;
    const int x = A == AXIS_X ? first : at[AXIS_X], y = A == AXIS_Y ? first : at[AXIS_Y],
              z = A == AXIS_Z ? first : at[AXIS_Z];
    const T *from = f + ((int64_t)z * n_y + y) * n_x + x;
    int64_t step = A == AXIS_X ? 1 : A == AXIS_Y ? n_x : (int64_t)n_x * n_y;
    if (A == AXIS_Z && !alone && (y < 0 || y >= n_y)) {
        from = padded + z * padding.plane + padding.start[AXIS_X] + x +
               padding_layer(padding, AXIS_Y, n_y, y) * padding.pitch;
        step = padding.plane;
    } else if (A != AXIS_X && !alone) {
        from = padded + z * padding.plane + padding.rows_y * padding.pitch + y * padding.row_x +
               padding_layer(padding, AXIS_X, n_x, x);
        step = A == AXIS_Y ? padding.row_x : padding.plane;
    }
    step = is_low ? step : -step;
    T value[STENCIL_ROW];
#pragma unroll
    for (int k = 0; k < STENCIL_ROW; k++) /* all on their way at once */
        value[k] = k < points ? from[k * step] : (T)0;
    if (alone && (is_low ? low.held : high.held) && (holder < 0 || A < holder / SIDE_COUNT))
        value[0] = number;
    if (alone && holder >= 0) {
        const padding_side<T> &held_by = fields.side[holder / SIDE_COUNT][holder % SIDE_COUNT];
        const bool own_first = A < holder / SIDE_COUNT && (is_low ? low.held : high.held);
#pragma unroll
        for (int k = 0; k < STENCIL_ROW; k++)
            if (!held_by.halo && !(k == 0 && own_first))
                value[k] = held_by.number;
    }
    T sum = 0;
#pragma unroll
    for (int k = 0; k < STENCIL_ROW; k++)
        if (k < points)
            sum = k == 0 ? rows.row[row][0] * value[0] : fused(rows.row[row][k], value[k], sum);
    return (is_low ? low.datum : high.datum) ? fused(rows.data[row], number, sum) : sum;
}

/* What is padded first, and what then reads that: the axis. */
enum padding_stage { PADDING_X = AXIS_X, PADDING_Y = AXIS_Y, PADDING_Z = AXIS_Z };

template <typename T>
static __device__ __forceinline__ bool is_beyond(const padding_fields<T> &fields,
                                                 const int (&at)[AXIS_COUNT], int a)
{
    return (unsigned)at[a] >= (unsigned)fields.n[a];
}

/* The same value as the contract's code gives (stencil_read_…), where that takes a sum along one
 * axis of what is there; else by that code. Of a stage, points lie beyond no later axis. */
template <int STAGE, typename T>
static __device__ __forceinline__ T short_value(const padding_fields<T> &fields,
                                                const padding_rows<T> &rows, const T *f,
                                                const T *padded, int64_t field,
                                                const int (&at)[AXIS_COUNT])
{
    const bool along_x = is_beyond(fields, at, AXIS_X);
    const bool along_y = STAGE >= PADDING_Y && is_beyond(fields, at, AXIS_Y);
    const bool along_z = STAGE >= PADDING_Z && is_beyond(fields, at, AXIS_Z);
    const int count = along_x + along_y + along_z, holder = find_holder(fields, at);
    bool known = true, held = false;
    if (holder >= 0) {
        const padding_side<T> &held_by = fields.side[holder / SIDE_COUNT][holder % SIDE_COUNT];
        known = held_by.halo || held_by.numbers;
        held = !held_by.halo;
        if (count == 0 && held && known)
            return held_by.number;
    }
    if (count == 0 && !held)
        return f[at[AXIS_X] +
                 ((int64_t)at[AXIS_Z] * fields.n[AXIS_Y] + at[AXIS_Y]) * fields.n[AXIS_X]];
    const bool alone = count == 1;
    if (alone ? known : count > 1 && !fields.has_signs) {
        if (along_z) {
            if (fields.side[AXIS_Z][at[AXIS_Z] >= 0].points >= 0)
                return sum_beyond<AXIS_Z>(fields, rows, f, padded, at, alone, holder);
        } else if (along_y) {
            if (fields.side[AXIS_Y][at[AXIS_Y] >= 0].points >= 0)
                return sum_beyond<AXIS_Y>(fields, rows, f, padded, at, alone, holder);
        } else if (fields.side[AXIS_X][at[AXIS_X] >= 0].points >= 0) {
            return sum_beyond<AXIS_X>(fields, rows, f, padded, at, alone, holder);
        }
    }
    return padding_value(fields, f, field, at[AXIS_X], at[AXIS_Y], at[AXIS_Z]);
}

template <typename T>
static __device__ __forceinline__ void load_rows(const padding_fields<T> &fields,
                                                 padding_rows<T> &rows)
{
    const struct stencil_table *of = padding_table(fields);
    for (int i = (int)threadIdx.x; i < PADDING_ROWS * STENCIL_ROW; i += PADDING_THREADS) {
        const int row = i / STENCIL_ROW, side = row / KERNEL_RADIUS;
        const struct stencil_ghosts *ghosts =
            &of->axis[side / SIDE_COUNT].ghosts[side % SIDE_COUNT];
        rows.row[row][i % STENCIL_ROW] = (T)ghosts->ghost[row % KERNEL_RADIUS][i % STENCIL_ROW];
        if (i % STENCIL_ROW == 0)
            rows.data[row] = (T)ghosts->data[row % KERNEL_RADIUS];
    }
    __syncthreads();
}

/* The index along an axis of a layer of the padding. */
template <typename T>
static __device__ __forceinline__ int index_of(const padding_fields<T> &fields, int axis, int layer)
{
    const stencil_padding &padding = fields.padding;
    const int low = padding.start[axis] + padding.inner[axis][0];
    return layer < low ? layer - padding.start[axis]
                       : layer - low + fields.n[axis] - padding.inner[axis][1];
}

/* The point along x and y that the element i of a plane's part is of. */
template <int STAGE, typename T>
static __device__ __forceinline__ void find_point(const padding_fields<T> &fields, uint32_t i,
                                                  int at[AXIS_COUNT])
{
    const stencil_padding &padding = fields.padding;
    const uint32_t row = STAGE == PADDING_X ? (uint32_t)padding.row_x : (uint32_t)padding.pitch;
    const int x = (int)(i % row), y = (int)(i / row);
    at[AXIS_X] = STAGE == PADDING_X ? index_of(fields, AXIS_X, x) : x - padding.start[AXIS_X];
    at[AXIS_Y] = STAGE == PADDING_X   ? y
                 : STAGE == PADDING_Y ? index_of(fields, AXIS_Y, y)
                                      : y - padding.start[AXIS_Y];
}

template <int STAGE> static __host__ __device__ int64_t stage_size(const stencil_padding &padding)
{
    const int64_t beside_y = (int64_t)padding.rows_y * padding.pitch;
    return STAGE == PADDING_X   ? padding.plane - beside_y
           : STAGE == PADDING_Y ? beside_y
                                : padding.z_plane;
}

/* A thread an element of some planes; those that only fill rows up are left as they are. */
template <typename T, int STAGE>
static __global__ void __launch_bounds__(PADDING_THREADS)
    padding_kernel(const __grid_constant__ padding_fields<T> fields, const T *in, T *out)
{
    extern __shared__ __align__(128) unsigned char shared_memory[];
    padding_rows<T> &rows = *(padding_rows<T> *)shared_memory;
    const stencil_padding &padding = fields.padding;
    const uint32_t i = blockIdx.x * PADDING_THREADS + threadIdx.x;
    const int planes = STAGE == PADDING_Z
                           ? (int)((padding.field - padding.z_first) / padding.z_plane)
                           : fields.n[AXIS_Z];
    int at[AXIS_COUNT];
    load_rows(fields, rows);
    if (i >= stage_size<STAGE>(padding))
        return;
    find_point<STAGE>(fields, i, at);
    for (int a = 0; a < AXIS_Z; a++)
        if (at[a] < -padding.beyond[a][0] || at[a] >= fields.n[a] + padding.beyond[a][1])
            return;
    for (int64_t field = blockIdx.z; field < fields.batch; field += gridDim.z)
        for (int plane = (int)blockIdx.y; plane < planes; plane += (int)gridDim.y) {
            at[AXIS_Z] = STAGE == PADDING_Z ? index_of(fields, AXIS_Z, plane) : plane;
            T *const padded = out + field * padding.field;
            T *const to =
                padded + (STAGE == PADDING_Z
                              ? padding.z_first + plane * padding.z_plane
                              : plane * padding.plane +
                                    (STAGE == PADDING_X ? stage_size<PADDING_Y>(padding) : 0));
            to[i] = short_value<STAGE>(fields, rows, in + field * fields.points, padded, field, at);
        }
}

static int rounded_up(int64_t n, int unit)
{
    return (int)((n + unit - 1) / unit * unit);
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
        }
        padding->start[a] = rounded_up(padding->beyond[a][SIDE_LOW], unit);
        layers[a] = padding->start[a] + padding->inner[a][SIDE_LOW] + padding->inner[a][SIDE_HIGH] +
                    padding->beyond[a][SIDE_HIGH];
    }
    padding->pitch = rounded_up(
        padding->start[AXIS_X] + host->axis[AXIS_X].n + padding->beyond[AXIS_X][SIDE_HIGH], pack);
    padding->rows_y = (int)layers[AXIS_Y];
    padding->row_x = rounded_up(layers[AXIS_X], pack);
    const int64_t n_y = host->axis[AXIS_Y].n, n_z = host->axis[AXIS_Z].n;
    padding->plane = (int64_t)padding->rows_y * padding->pitch + n_y * padding->row_x;
    padding->z_first = n_z * padding->plane;
    padding->z_plane =
        (padding->start[AXIS_Y] + n_y + padding->beyond[AXIS_Y][SIDE_HIGH]) * padding->pitch;
    padding->field = padding->z_first + layers[AXIS_Z] * padding->z_plane;
    const double bytes = (double)padding->field * (double)batch * (double)element_bytes;
    return bytes > 0x1p40 || padding->plane > INT32_MAX || padding->z_plane > INT32_MAX
               ? 0
               : (uint64_t)bytes;
}

template <typename T>
static void take_side(padding_side<T> *to, const struct side *side,
                      const struct stencil_ghosts *ghosts)
{
    const bool is_number = side->value.operand < 0;
    const bool has_ghosts = side->map == SIDE_MAP_GHOST;
    to->held = side->held;
    to->halo = side->halo != 0;
    to->numbers = is_number;
    to->number = (T)side->value.number;
    to->datum = side->datum == SIDE_DATUM_NUMBER;
    to->points = has_ghosts && (side->datum == SIDE_DATUM_NONE || (to->datum && is_number)) &&
                         (!to->held || is_number)
                     ? ghosts->points
                     : -1;
}

template <typename T, int STAGE>
static cudaError_t put_stage(padding_fields<T> *fields, int64_t planes, const void *in, void *out,
                             cudaStream_t stream)
{
    const int64_t size = stage_size<STAGE>(fields->padding), most = 65535;
    void *arguments[] = {fields, &in, &out};
    if (size == 0 || planes == 0)
        return cudaSuccess;
    const dim3 grid((unsigned)((size + PADDING_THREADS - 1) / PADDING_THREADS),
                    (unsigned)(planes < most ? planes : most),
                    (unsigned)(fields->batch < most ? fields->batch : most));
    return cudaLaunchKernel(padding_kernel<T, STAGE>, grid, dim3(PADDING_THREADS), arguments,
                            sizeof(padding_rows<T>), stream);
}

template <typename T>
static cudaError_t fill(const stencil_padding *padding, const struct stencil_table *host,
                        const struct stencil_table *device, int slot,
                        const void *const operands[OPERANDS], uint64_t batch, const void *in,
                        cudaStream_t stream)
{
    padding_fields<T> fields = {};
    fields.padding = *padding;
    fields.points = (int64_t)host->field_points;
    fields.batch = (int64_t)batch;
    fields.table = device;
    fields.slot = slot;
    memcpy(fields.operands, operands, sizeof fields.operands);
    for (int a = 0; a < AXIS_COUNT; a++) {
        fields.n[a] = (int)host->axis[a].n;
        for (int s = 0; s < SIDE_COUNT; s++)
            take_side(&fields.side[a][s], &host->axis[a].side[s], &host->axis[a].ghosts[s]);
        for (int s = 0; s < SIDE_COUNT; s++)
            fields.has_signs |= host->axis[a].side[s].map == SIDE_MAP_ANTISYMMETRIC;
    }
    const int64_t n_z = (host->axis[AXIS_Z].n + PADDING_PLANES - 1) / PADDING_PLANES;
    const int64_t along_z = (padding->field - padding->z_first) / padding->z_plane;
    void *out = (void *)(uintptr_t)padding->values;
    cudaError_t error = put_stage<T, PADDING_X>(&fields, n_z, in, out, stream);
    if (error == cudaSuccess)
        error = put_stage<T, PADDING_Y>(&fields, n_z, in, out, stream);
    if (error == cudaSuccess)
        error = put_stage<T, PADDING_Z>(&fields, along_z, in, out, stream);
    return error;
}

cudaError_t padding_fill(const stencil_padding *padding, const struct stencil_table *host,
                         const struct stencil_table *device, int slot,
                         const void *const operands[OPERANDS], enum dtype dtype, uint64_t batch,
                         const void *in, cudaStream_t stream)
{
    if (dtype == DTYPE_F32)
        return fill<float>(padding, host, device, slot, operands, batch, in, stream);
    return fill<double>(padding, host, device, slot, operands, batch, in, stream);
}
