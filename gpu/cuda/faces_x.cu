/* Faces of x: a block marches along z with lines of a range of planes. Asynchronous copies bring
 * the ends of its lines, and of those around them, to a ring of planes in shared memory. A thread
 * has one layer of one line, the row of its layer and the points of its column along z in
 * registers; the layers of a line lie in neighbouring lanes, so that their stores fall into one
 * sector. */
#include "gpu/cuda/faces_plan.cuh"

#include <cuda_pipeline.h>

extern __shared__ __align__(128) unsigned char shared_memory[];

/* The ring, in elements. Each plane has a line's points of each component of the input one after
 * another. */
template <typename T, int R, int FORM> struct face_ring {
    static constexpr int UNIT = 16 / (int)sizeof(T), LINE = face_line(FORM, R);
    static constexpr int AHEAD = 4, PLANES = R + 1 + AHEAD; /* in flight; in the ring */
    static constexpr int RESIDENT = sizeof(T) == 4 ? 6 : 4; /* blocks on a multiprocessor */

    /* How many points of a line are read of a component. */
    static __host__ __device__ constexpr int points(int component)
    {
        int most = FORM == FACE_SUM || FORM == FACE_GRADIENT ? component == 0 ? LINE : 0 : R + 1;
        for (int c = 0; c < face_outputs(FORM); c++)
            most = face_source(FORM, c, AXIS_X) == component ? LINE : most;
        return (most + UNIT - 1) / UNIT * UNIT;
    }
    static __host__ __device__ constexpr int at(int component)
    {
        int sum = 0;
        for (int c = 0; c < component; c++)
            sum += points(c);
        return sum;
    }
    /* Odd in units: lines begin in many banks. */
    static __host__ __device__ constexpr int pitch()
    {
        return (at(AXIS_COUNT) / UNIT | 1) * UNIT;
    }
};

/* How the blocks of a march divide the faces. */
struct face_march {
    int32_t layers, wide, lines; /* lanes of a line; lines of a block; … and those around them */
    int32_t around;              /* planes before and after a block's own that it reads */
    int32_t unit;                /* elements of a copy */
    int64_t length;              /* of a march */
};

/* What a thread copies of each plane: the same unit of every so many lines. */
template <typename T, int R, int FORM> struct face_copies {
    using ring = face_ring<T, R, FORM>;
    const T *from; /* of the first line of the field's first plane; NULL: nothing */
    int64_t line_stride, plane_stride, y, low, high; /* lines that it may read */
    int line, step, lines, to, unit;
    int edge; /* the element of the edge node among those that it copies; −1: none */

    __device__ __forceinline__ face_copies(const face_plan<T, R> &plan,
                                           const face_pair<T, R> &faces, const face_march &march,
                                           bool high, int64_t field, int64_t y)
        : from(NULL), line_stride(plan.stride[AXIS_Y]), plane_stride(plan.stride[AXIS_Z]), y(y),
          low(faces.begin[0]), high(faces.end[0]), lines(march.lines), unit(march.unit), edge(-1)
    {
        const int units = ring::at(AXIS_COUNT) / unit, beside = plan.active >> AXIS_Y & 1 ? R : 0;
        this->low -= beside;
        this->high += beside;
        to = (int)threadIdx.x % units * unit;
        line = (int)threadIdx.x / units;
        step = FACE_THREADS / units;
        if (line >= step)
            return;
#pragma unroll
        for (int c = 0; c < AXIS_COUNT; c++) {
            const int begin = ring::at(c), end = ring::at(c + 1), node = high ? end - 1 : begin;
            if (to < begin || to >= end)
                continue;
            from = plan.in[c] + to_input(plan.jobs, c) + field * plan.points + to -
                   (high ? end - plan.n[AXIS_X] : begin);
            edge = node >= to && node < to + unit ? node : -1;
        }
    }
    /* Plane z to its place in the ring. */
    __device__ __forceinline__ void operator()(int64_t z, T *plane) const
    {
        const T *f = from + z * plane_stride;
        for (int i = line; from && i < lines; i += step) {
            const T *of = f + min(max(y + i, low), high - 1) * line_stride;
            if (unit == 1)
                __pipeline_memcpy_async(plane + i * ring::pitch() + to, of, sizeof(T));
            else
                __pipeline_memcpy_async(plane + i * ring::pitch() + to, of, 16);
        }
    }
    /* Where the edge node is read as a value. */
    __device__ __forceinline__ void impose(T *plane, T value) const
    {
        for (int i = line; edge >= 0 && i < lines; i += step)
            plane[i * ring::pitch() + edge] = value;
    }
};

template <typename T, int R, int FORM> struct face_column : face_sums<T, R, 1, FORM> {
    using sums = face_sums<T, R, 1, FORM>;
    using ring = face_ring<T, R, FORM>;
    using sums::LINE, sums::close, sums::combined, sums::datum_of, sums::fold, sums::join,
        sums::paired, sums::pairs_inward;
    using typename sums::value;

    const face_plan<T, R> &plan;
    const face_pair<T, R> &faces;
    const face_side<T, R> &side;
    const bool high, closed, full, alone;
    const int d, inward;
    T closure[2 * R + 2], datum;
    /* Of each component along z, the newest last. Set although the march fills it: of what is not,
     * ptxas may join two. */
    T column[AXIS_COUNT][2 * R + 1] = {};
    const T *plane; /* the thread's line of the plane at hand */

    __device__ __forceinline__ face_column(const face_plan<T, R> &plan,
                                           const face_pair<T, R> &faces, int s, int d)
        : plan(plan), faces(faces), side(faces.side[s]), high(s == SIDE_HIGH), closed(d < R),
          full(side.points == LINE), alone(side.alone >> d & 1), d(d), inward(high ? -1 : 1)
    {
#pragma unroll
        for (int k = 0; k < 2 * R + 2; k++)
            closure[k] = side.closure[closed ? d : 0][k];
        datum = closed ? side.datum[d] : (T)0;
    }
    /* Which components have derivatives along z, of which it keeps the column. */
    static __host__ __device__ constexpr bool has_column(int component)
    {
        bool has = false;
        for (int c = 0; c < face_outputs(FORM); c++)
            has |= face_source(FORM, c, AXIS_Z) == component;
        return has;
    }
    static __device__ __forceinline__ const T *edge(const T *line, int component, bool high)
    {
        return line + (high ? ring::at(component + 1) - 1 : ring::at(component));
    }
    __device__ __forceinline__ void push(const T *line)
    {
#pragma unroll
        for (int c = 0; c < AXIS_COUNT; c++) {
            if (!has_column(c))
                continue;
#pragma unroll
            for (int k = 0; k < 2 * R; k++)
                column[c][k] = column[c][k + 1];
            column[c][2 * R] = edge(line, c, high)[d * inward];
        }
    }
    __device__ __forceinline__ void load_line(int component, value (&line)[LINE]) const
    {
        const T *f = edge(plane, component, high);
#pragma unroll
        for (int k = 0; k < LINE; k++)
            line[k].v[0] = f[k * inward];
    }
    __device__ __forceinline__ void pairs_along_y(int component, value (&pair)[R]) const
    {
        const T *f = edge(plane, component, high) + d * inward;
#pragma unroll
        for (int m = 1; m <= R; m++)
            pair[m - 1] = paired({{f[m * ring::pitch()]}}, {{f[-m * ring::pitch()]}});
    }
    __device__ __forceinline__ void pairs_along_z(int component, value (&pair)[R]) const
    {
#pragma unroll
        for (int m = 1; m <= R; m++)
            pair[m - 1] = paired({{column[component][R + m]}}, {{column[component][R - m]}});
    }
    /* acc + the derivative along x. */
    __device__ __forceinline__ void inwards(const value (&line)[LINE], bool begun, value &acc) const
    {
        if (closed) {
            close(closure, datum, full, alone, line, datum_of(side, line[0]), begun, acc);
        } else {
            value pair[R];
            pairs_inward(line, high, pair);
            fold(plan.pairs[AXIS_X], pair, begun, acc);
        }
    }
    __device__ __forceinline__ value sum() const
    {
        value acc = {}, line[LINE], along_y[R], along_z[R];
        const bool has_y = plan.active >> AXIS_Y & 1, has_z = plan.active >> AXIS_Z & 1;
        load_line(0, line);
        if (has_y)
            pairs_along_y(0, along_y);
        pairs_along_z(0, along_z);
        if (!closed || faces.begins)
            acc = {{(closed ? faces.centre : plan.centre) * edge(plane, 0, high)[d * inward]}};
        if (!closed && plan.shared) {
            value total[R];
            pairs_inward(line, high, total);
            if (has_y)
                join(total, along_y, true);
            if (has_z)
                join(total, along_z, true);
            fold(plan.pairs[AXIS_X], total, true, acc);
            return acc;
        }
        inwards(line, true, acc);
        if (has_y)
            fold(plan.pairs[AXIS_Y], along_y, true, acc);
        if (has_z)
            fold(plan.pairs[AXIS_Z], along_z, true, acc);
        return acc;
    }
    __device__ __forceinline__ value parts(int c) const
    {
        value sum = {};
#pragma unroll
        for (int k = 0; k < face_parts(FORM); k++) {
            const int along = face_along(FORM, c, k), of = face_of(FORM, c, k);
            value part = {}, line[LINE], pair[R];
            if (along == AXIS_X) {
                load_line(of, line);
                inwards(line, false, part);
            } else {
                if (along == AXIS_Y)
                    pairs_along_y(of, pair);
                else
                    pairs_along_z(of, pair);
                fold(plan.pairs[along], pair, false, part);
            }
            sum = combined(sum, part, k);
        }
        return sum;
    }
    /* The layer's point in the plane at hand. */
    __device__ __forceinline__ void compute(T *const out[AXIS_COUNT], int64_t place) const
    {
        if constexpr (FORM == FACE_SUM) {
            out[0][place] = d < side.held ? side.value : sum().v[0];
        } else {
#pragma unroll
            for (int c = 0; c < face_outputs(FORM); c++)
                out[c][place] = parts(c).v[0];
        }
    }
};

template <typename T, int R, int FORM>
static __global__ void __launch_bounds__(FACE_THREADS, face_ring<T, R, FORM>::RESIDENT)
    faces_x_kernel(const __grid_constant__ face_plan<T, R> plan,
                   const __grid_constant__ face_pair<T, R> faces,
                   const __grid_constant__ face_march march, int blocks)
{
    let_next_begin();
    using ring = face_ring<T, R, FORM>;
    constexpr int PLANES = ring::PLANES, AHEAD = ring::AHEAD;
    T *const planes = (T *)shared_memory;
    const int64_t field = blockIdx.x / (unsigned)blocks;
    int block = (int)(blockIdx.x % (unsigned)blocks);
    const int s = block >= faces.blocks || faces.side[SIDE_LOW].layers == 0;
    block -= block >= faces.blocks ? faces.blocks : 0;
    const int64_t y = faces.begin[0] + (int64_t)(block % faces.tiles) * march.wide;
    const int64_t first = faces.begin[1] + block / faces.tiles * march.length;
    const int64_t last = min(first + march.length, faces.end[1]);
    const int d = (int)threadIdx.x % march.layers, line = (int)threadIdx.x / march.layers;
    const bool computes = line < march.wide && y + line < faces.end[0] && d < faces.side[s].layers;
    const face_copies<T, R, FORM> copy(plan, faces, march, s == SIDE_HIGH, field, y - R);
    face_column<T, R, FORM> column(plan, faces, s, d);
    const int plane = march.lines * ring::pitch();
    const int64_t z0 = first - march.around;
    const int count = (int)(last - first) + 2 * march.around;
    T *out[AXIS_COUNT];
#pragma unroll
    for (int c = 0; c < AXIS_COUNT; c++)
        out[c] = plan.out[c] + to_output(plan.jobs, c) + field * plan.points;
    int64_t place = (s == SIDE_LOW ? d : plan.n[AXIS_X] - 1 - d) +
                    (y + line) * plan.stride[AXIS_Y] + first * plan.stride[AXIS_Z];
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
        if (i < count)
            copy(z0 + i, planes + i * plane);
        __pipeline_commit();
    }
    /* Of plane i: the newest one in the ring; the one at hand is `around` before it. */
    int newest = 0, hand = march.around ? PLANES - march.around : 0, next = AHEAD;
    const T *const own = planes + (line + R) * ring::pitch();
#pragma unroll 1
    for (int i = 0; i < count; i++) {
        __pipeline_wait_prior(AHEAD - 1);
        if (faces.side[s].imposed)
            copy.impose(planes + newest * plane, faces.side[s].value);
        __syncthreads();
        if (i + AHEAD < count)
            copy(z0 + i + AHEAD, planes + next * plane);
        __pipeline_commit();
        if (computes) {
            if (march.around)
                column.push(own + newest * plane);
            if (i >= 2 * march.around) {
                column.plane = own + hand * plane;
                column.compute(out, place);
                place += plan.stride[AXIS_Z];
            }
        }
        newest = newest + 1 == PLANES ? 0 : newest + 1;
        hand = hand + 1 == PLANES ? 0 : hand + 1;
        next = next + 1 == PLANES ? 0 : next + 1;
    }
}

/* --- on the host --- */

template <typename T, int R, int FORM> static cudaError_t launch_x(face_launcher *launch)
{
    using ring = face_ring<T, R, FORM>;
    const struct geometry *g = launch->g;
    faces_made<T, R> &made = *(faces_made<T, R> *)launch->made;
    face_pair<T, R> *faces = &made.axis[AXIS_X];
    const int sides = sides_of(*faces);
    if (sides == 0)
        return cudaSuccess;
    const int low = faces->side[SIDE_LOW].layers, high = faces->side[SIDE_HIGH].layers;
    struct face_march march;
    march.layers = low > high ? low : high;
    march.wide = FACE_THREADS / march.layers;
    march.lines = march.wide + 2 * R;
    march.around = made.plan.active >> AXIS_Z & 1 ? R : 0;
    march.unit = rows_are_packs(g->plan) ? ring::UNIT : 1;
    const int bytes = ring::PLANES * march.lines * ring::pitch() * (int)sizeof(T);
    const int64_t planes = faces->end[1] - faces->begin[1];
    const int64_t batch = (int64_t)g->plan->batch;
    faces->tiles = (int32_t)blocks_of(faces->end[0] - faces->begin[0], march.wide);
    const int fit = block_shared_bytes() / bytes;
    const int resident = fit < 1 ? 1 : fit < ring::RESIDENT ? fit : ring::RESIDENT;
    march.length = column_length(planes, sides * faces->tiles * batch, (int64_t)g->units * resident,
                                 2 * march.around + ring::AHEAD);
    faces->blocks = faces->tiles * (int32_t)blocks_of(planes, march.length);
    int blocks = sides * faces->blocks;
    const auto kernel = faces_x_kernel<T, R, FORM>;
    if (bytes > SHARED_OF_ANY)
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    return (*launch)(kernel, blocks * batch, (size_t)bytes, made.plan, *faces, march, blocks);
}

cudaError_t faces_x_launch(face_launcher *launch)
{
    return with_face_kinds(*launch, [&](auto type, auto radius, auto form) {
        return launch_x<decltype(type), decltype(radius)::value, decltype(form)::value>(launch);
    });
}
