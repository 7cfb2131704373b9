/* Faces of x: a block marches along z. gpu/cuda/table_face.cuh says what with. */
#pragma once

#include "gpu/cuda/table_face_point.cuh"

#include <cuda_pipeline.h>

extern __shared__ __align__(128) unsigned char shared_memory[];

/* What a thread copies of each plane to the ring of a face of x: the same unit of every so many
 * lines. */
template <typename T> struct table_copies {
    const table_face &face;
    const T *from;     /* of the field's first line; NULL: nothing */
    int64_t stride[2]; /* … along y and z */
    int64_t n[2], y;   /* lines; of the plane's first line */
    int to, line, lines, unit;

    __device__ __forceinline__ table_copies(const table_header &header, const table_face &face,
                                            const table_pass &pass, uint64_t field, int64_t y)
        : face(face), from(NULL), n{header.axis_of[AXIS_Y].n, header.axis_of[AXIS_Z].n}, y(y)
    {
        const table_ring &ring = face.ring;
        const bool low = face.side == SIDE_LOW;
        const int mine = (int)threadIdx.x % ring.copies * ring.unit;
        const int numbers = ring.at[AXIS_COUNT];
        line = (int)threadIdx.x / ring.copies;
        lines = TABLE_THREADS / ring.copies;
        to = mine;
        unit = ring.unit;
        stride[0] = header.axis_of[AXIS_Y].stride;
        stride[1] = header.axis_of[AXIS_Z].stride;
#pragma unroll
        for (int c = 0; c < AXIS_COUNT; c++)
            if (mine >= ring.at[c] && mine < ring.at[c + 1])
                from = (const T *)pass.in[c] + field * header.points + mine -
                       (low ? ring.at[c] : ring.at[c + 1] - header.axis_of[AXIS_X].n);
        if (mine >= numbers) {
            const struct side &side = header.axis_of[AXIS_X].side[face.side];
            const int number = (mine - numbers) / ring.unit;
            from = (const T *)side_array(number == 0 ? &side.value : &side.constant, pass.operand,
                                         (int64_t)field, header.axis_of[AXIS_X].face_points,
                                         sizeof(T));
            stride[0] = unit = 1;
            stride[1] = n[0];
            to = numbers + number;
        }
        if (line >= lines)
            from = NULL;
    }
    /* Plane z to its place in the ring. */
    __device__ __forceinline__ void operator()(int64_t z, T *plane) const
    {
        const T *of_plane = from + min(max(z, (int64_t)0), n[1] - 1) * stride[1];
        for (int i = line; from && i < face.ring.lines; i += lines) {
            const T *f = of_plane + min(max(y + i, (int64_t)0), n[0] - 1) * stride[0];
            if (unit == 1)
                __pipeline_memcpy_async(plane + i * face.ring.pitch + to, f, sizeof(T));
            else
                __pipeline_memcpy_async(plane + i * face.ring.pitch + to, f, 16);
        }
    }
};

/* The block's planes of its lines of a face of x. */
template <typename T, int FORM>
static __device__ __forceinline__ void table_march(const table_header &header,
                                                   const table_face &face, const table_pass &pass,
                                                   const void *rows, uint64_t field, int64_t block)
{
    const table_ring &ring = face.ring;
    T *const planes = (T *)shared_memory;
    const int plane = ring.lines * ring.pitch, around = ring.around[1];
    const int64_t y = face.begin[0] + block % face.tiles * face.wide;
    const int64_t first = face.begin[1] + block / face.tiles * face.high;
    const int64_t last = min(first + face.high, face.end[1]);
    const table_copies<T> copy(header, face, pass, field, y - ring.around[0]);
    const struct side &side = header.axis_of[AXIS_X].side[face.side];
    for (int i = threadIdx.x; i < ring.planes * ring.lines; i += TABLE_THREADS) {
        T *const numbers = planes + i * ring.pitch + ring.at[AXIS_COUNT];
        if (side.value.operand < 0)
            numbers[0] = (T)side.value.number;
        if (side.constant.operand < 0)
            numbers[1] = (T)side.constant.number;
    }
    for (int i = 0; i < ring.planes - 1; i++) {
        if (first - around + i < last + around)
            copy(first - around + i, planes + i * plane);
        __pipeline_commit();
    }
    const int d = (int)threadIdx.x % face.layers, line = (int)threadIdx.x / face.layers;
    const int64_t at[AXIS_COUNT] = {face.side == SIDE_LOW ? 0 : header.axis_of[AXIS_X].n - 1,
                                    y + line, first};
    auto view = begin_view<T>(header, rows, pass, field);
    point_move(&view, at[AXIS_X], at[AXIS_Y], at[AXIS_Z]);
    table_points<T, AXIS_X, 1> lines(header, face, view);
    const auto own = lines.template row_of_layer<TABLE_POINTS>(d);
    const T *const begin = planes + (line + ring.around[0]) * ring.pitch;
    const bool computes = line < face.wide && lines.has(0);
    int here = around, next = ring.planes - 1;
#pragma unroll 1
    for (int64_t z = first; z < last; z++) {
        const auto base = computes ? lines.base(d) : pack<T, 1>{};
        __pipeline_wait_prior(ring.ahead - 1);
        __syncthreads();
        if (z + around + ring.ahead < last + around)
            copy(z + around + ring.ahead, planes + next * plane);
        __pipeline_commit();
        next = next + 1 == ring.planes ? 0 : next + 1;
        if (computes) {
            lines.move_to(begin + here * plane, here);
            if (lines.slow.step != 0) /* coordinates: each plane has its own */
                lines.slow = lines.template row<0>(AXIS_Z, z);
            for (int c = 0; c < header.outputs; c++) {
                const auto given = own.datum == (T)0
                                       ? lines.stated
                                       : lines.given(lines.template part_along<FORM>(c));
                lines.template compute<FORM>(c, d, own, given, base);
            }
        }
        here = here + 1 == ring.planes ? 0 : here + 1;
        view.place += header.axis_of[AXIS_Z].stride;
    }
}
