#include "gpu/cuda/grid.cuh"
#include "gpu/cuda/padding.h"

#include <string.h>

#define REAL float
#define REAL_FMA __fmaf_rn
#define STENCIL_NAME(name) padding_##name##_f32
#define STENCIL_WEIGHT f32
#include "numerics/stencil_point.h"
#undef REAL
#undef REAL_FMA
#undef STENCIL_NAME
#undef STENCIL_WEIGHT
#define REAL double
#define REAL_FMA __fma_rn
#define STENCIL_NAME(name) padding_##name##_f64
#define STENCIL_WEIGHT f64
#include "numerics/stencil_point.h"

enum { PADDING_THREADS = 256 };

struct padding_fields {
    stencil_padding padding;
    int64_t n[AXIS_COUNT], points; /* of a field */
    int64_t elements;              /* of the whole batch's padding */
    const struct stencil_table *table;
    int slot; /* table NULL: its table */
    const void *operands[OPERANDS];
};

static __device__ __forceinline__ float padding_value(const struct padding_fields &fields,
                                                      const float *f, int64_t field, int64_t x,
                                                      int64_t y, int64_t z)
{
    const struct stencil_table *of =
        fields.table ? fields.table : (const struct stencil_table *)table[fields.slot].rows;
    const struct padding_source_f32 source = {of, f, fields.operands, field};
    return padding_read_f32(&source, x, y, z);
}
static __device__ __forceinline__ double padding_value(const struct padding_fields &fields,
                                                       const double *f, int64_t field, int64_t x,
                                                       int64_t y, int64_t z)
{
    const struct stencil_table *of =
        fields.table ? fields.table : (const struct stencil_table *)table[fields.slot].rows;
    const struct padding_source_f64 source = {of, f, fields.operands, field};
    return padding_read_f64(&source, x, y, z);
}

/* The index along an axis of a layer of the padding. */
static __device__ __forceinline__ int64_t index_of(const struct padding_fields &fields, int axis,
                                                   int64_t layer)
{
    const stencil_padding &padding = fields.padding;
    const int64_t low = padding.start[axis] + padding.inner[axis][0];
    return layer < low ? layer - padding.start[axis]
                       : layer - low + fields.n[axis] - padding.inner[axis][1];
}

/* The point that an element of a field's padding is of. */
static __device__ __forceinline__ void find_point(const struct padding_fields &fields, int64_t i,
                                                  int64_t at[AXIS_COUNT])
{
    const stencil_padding &padding = fields.padding;
    if (i >= padding.z_first) {
        i -= padding.z_first;
        at[AXIS_Z] = index_of(fields, AXIS_Z, i / padding.z_plane);
        const uint32_t k = (uint32_t)(i % padding.z_plane);
        at[AXIS_Y] = (int64_t)(k / padding.pitch) - padding.start[AXIS_Y];
        at[AXIS_X] = (int64_t)(k % padding.pitch) - padding.start[AXIS_X];
        return;
    }
    at[AXIS_Z] = i / padding.plane;
    uint32_t k = (uint32_t)(i % padding.plane);
    const uint32_t beside_y = (uint32_t)(padding.rows_y * padding.pitch);
    if (k < beside_y) {
        at[AXIS_Y] = index_of(fields, AXIS_Y, k / padding.pitch);
        at[AXIS_X] = (int64_t)(k % padding.pitch) - padding.start[AXIS_X];
        return;
    }
    k -= beside_y;
    at[AXIS_Y] = k / padding.row_x;
    at[AXIS_X] = index_of(fields, AXIS_X, k % padding.row_x);
}

/* A thread an element; those that only fill rows up are left as they are. */
template <typename T>
static __global__ void __launch_bounds__(PADDING_THREADS)
    padding_kernel(const __grid_constant__ padding_fields fields, const T *in, T *out)
{
    const int64_t i = (int64_t)blockIdx.x * PADDING_THREADS + threadIdx.x;
    int64_t at[AXIS_COUNT];
    if (i >= fields.elements)
        return;
    const int64_t field = i / fields.padding.field;
    find_point(fields, i - field * fields.padding.field, at);
    bool is_read = true;
    for (int a = 0; a < AXIS_COUNT; a++)
        is_read &= at[a] >= -fields.padding.beyond[a][0] &&
                   at[a] < fields.n[a] + fields.padding.beyond[a][1];
    if (is_read)
        out[i] = padding_value(fields, in + field * fields.points, field, at[AXIS_X], at[AXIS_Y],
                               at[AXIS_Z]);
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

cudaError_t padding_fill(const stencil_padding *padding, const struct stencil_table *host,
                         const struct stencil_table *device, int slot,
                         const void *const operands[OPERANDS], enum dtype dtype, uint64_t batch,
                         const void *in, cudaStream_t stream)
{
    struct padding_fields fields = {};
    fields.padding = *padding;
    for (int a = 0; a < AXIS_COUNT; a++)
        fields.n[a] = host->axis[a].n;
    fields.points = (int64_t)host->field_points;
    fields.elements = padding->field * (int64_t)batch;
    fields.table = device;
    fields.slot = slot;
    memcpy(fields.operands, operands, sizeof fields.operands);
    const int64_t blocks = (fields.elements + PADDING_THREADS - 1) / PADDING_THREADS;
    void *out = (void *)(uintptr_t)padding->values;
    void *arguments[] = {&fields, &in, &out};
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    if (dtype == DTYPE_F32)
        return cudaLaunchKernel(padding_kernel<float>, dim3((unsigned)blocks),
                                dim3(PADDING_THREADS), arguments, 0, stream);
    return cudaLaunchKernel(padding_kernel<double>, dim3((unsigned)blocks), dim3(PADDING_THREADS),
                            arguments, 0, stream);
}
