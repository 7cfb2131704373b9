/* Faces of y and z: a thread has a pack of V points of every layer. It reads the points of the line
 * from the edge inwards at once, for all layers. */
#include "gpu/cuda/faces_plan.cuh"

enum { FACE_WIDE = 32, FACE_HIGH = FACE_THREADS / FACE_WIDE };

template <typename T, int R, int V, int FORM, int AXIS>
struct face_lines : face_sums<T, R, V, FORM> {
    using sums = face_sums<T, R, V, FORM>;
    using sums::LINE, sums::close, sums::combined, sums::datum_of, sums::fold, sums::join,
        sums::paired, sums::pairs_inward;
    using typename sums::value;
    static constexpr int SLOW = AXIS == AXIS_Y ? AXIS_Z : AXIS_Y;

    const face_plan<T, R> &plan;
    const face_pair<T, R> &faces;
    const face_side<T, R> &side;
    int64_t x, edge,
        inward; /* the pack's place along x; its element at the edge; to the next layer */

    /* A pack of layer d. */
    __device__ __forceinline__ value load(const T *f, int d) const
    {
        return d == 0 && side.imposed ? pack_all<V>(side.value)
                                      : load_pack<V>(f + edge + d * inward);
    }
    __device__ __forceinline__ void pairs_along_x(const T *f, int d, value (&pair)[R]) const
    {
        /* Beyond the row: anything, since no point of the face needs it. */
        const row_around<T, V, R> row([&](int i) {
            const bool beyond = i < 0 ? x < -i * V : i > 0 && x + i * V >= plan.n[AXIS_X];
            return load(beyond ? f : f + i * V, d);
        });
#pragma unroll
        for (int m = 1; m <= R; m++)
            pair[m - 1] = paired(row.at(m), row.at(-m));
    }
    /* The pairs along another axis at layer d. */
    __device__ __forceinline__ void pairs_beside(const T *f, int axis, int d,
                                                 value (&pair)[R]) const
    {
        if (axis == AXIS_X) {
            pairs_along_x(f, d, pair);
            return;
        }
#pragma unroll
        for (int m = 1; m <= R; m++)
            pair[m - 1] =
                paired(load(f + m * plan.stride[SLOW], d), load(f - m * plan.stride[SLOW], d));
    }
    /* acc + the derivative along the side's axis at layer d. */
    __device__ __forceinline__ void inwards(const value (&line)[LINE], int d, bool begun,
                                            value &acc) const
    {
        if (d < R) {
            close(side.closure[d], side.datum[d], side.points == LINE, side.alone >> d & 1, line,
                  datum_of(side, line[0]), begun, acc);
        } else {
            value pair[R];
            pairs_inward(line, inward < 0, pair);
            fold(plan.pairs[AXIS], pair, begun, acc);
        }
    }
    __device__ __forceinline__ value sum(const T *f, const value (&line)[LINE], int d) const
    {
        value acc = {}, total[R], pair[R];
        if (d == R || faces.begins)
            acc = (d < R ? faces.centre : plan.centre) * line[d];
        const bool together = d == R && plan.shared;
        bool begun = false;
#pragma unroll
        for (int a = 0; a < AXIS_COUNT; a++) {
            if (!(plan.active >> a & 1))
                continue;
            if (a != AXIS)
                pairs_beside(f, a, d, pair);
            else if (together)
                pairs_inward(line, inward < 0, pair);
            if (together)
                join(total, pair, begun);
            else if (a == AXIS)
                inwards(line, d, true, acc);
            else
                fold(plan.pairs[a], pair, true, acc);
            begun = true;
        }
        if (together)
            fold(plan.pairs[AXIS], total, true, acc);
        return acc;
    }
    __device__ __forceinline__ value parts(const T *const in[AXIS_COUNT], const value (&line)[LINE],
                                           int c, int d) const
    {
        value sum = {};
#pragma unroll
        for (int k = 0; k < face_parts(FORM); k++) {
            value part = {}, pair[R];
            const int along = face_along(FORM, c, k);
            if (along == AXIS) {
                inwards(line, d, false, part);
            } else {
                pairs_beside(in[face_of(FORM, c, k)], along, d, pair);
                fold(plan.pairs[along], pair, false, part);
            }
            sum = combined(sum, part, k);
        }
        return sum;
    }
    /* All layers. */
    __device__ __forceinline__ void compute(const T *const in[AXIS_COUNT],
                                            T *const out[AXIS_COUNT]) const
    {
#pragma unroll
        for (int c = 0; c < face_outputs(FORM); c++) {
            constexpr int NONE = -1;
            const int of = face_source(FORM, c, AXIS);
            value line[LINE];
#pragma unroll
            for (int k = 0; of != NONE && k < LINE; k++)
                line[k] = load(in[of], k);
#pragma unroll
            for (int d = 0; d <= R; d++) {
                if (d >= side.layers)
                    break;
                value f;
                if (FORM == FACE_SUM && d < side.held)
                    f = pack_all<V>(side.value);
                else if constexpr (FORM == FACE_SUM)
                    f = sum(in[0], line, d);
                else
                    f = parts(in, line, c, d);
                store_between(out[c] + edge + d * inward - x, x, f, faces.begin[0], faces.end[0]);
            }
        }
    }
};

template <typename T, int R, int V, int FORM, int AXIS>
static __device__ __forceinline__ void
face_block(const face_plan<T, R> &plan, const face_pair<T, R> &faces, int block, int64_t field)
{
    constexpr int SLOW = face_lines<T, R, V, FORM, AXIS>::SLOW;
    const int s = block >= faces.blocks || faces.side[SIDE_LOW].layers == 0;
    block -= block >= faces.blocks ? faces.blocks : 0;
    const int t = (int)threadIdx.x;
    const int64_t x =
        faces.begin[0] / V * V + (int64_t)(block % faces.tiles * FACE_WIDE + t % FACE_WIDE) * V;
    const int64_t slow = faces.begin[1] + block / faces.tiles * FACE_HIGH + t / FACE_WIDE;
    if (x >= faces.end[0] || slow >= faces.end[1])
        return;
    const int64_t stride = plan.stride[AXIS];
    const T *in[AXIS_COUNT];
    T *out[AXIS_COUNT];
#pragma unroll
    for (int c = 0; c < AXIS_COUNT; c++) {
        in[c] = plan.in[c] + to_input(plan.jobs, c) + field * plan.points;
        out[c] = plan.out[c] + to_output(plan.jobs, c) + field * plan.points;
    }
    const face_lines<T, R, V, FORM, AXIS> lines = {
        {},
        plan,
        faces,
        faces.side[s],
        x,
        x + slow * plan.stride[SLOW] + (s == SIDE_LOW ? 0 : (plan.n[AXIS] - 1) * stride),
        s == SIDE_LOW ? stride : -stride};
    lines.compute(in, out);
}

template <typename T, int R, int V, int FORM>
static __global__ void __launch_bounds__(FACE_THREADS, 4)
    faces_y_z_kernel(const __grid_constant__ face_plan<T, R> plan,
                     const __grid_constant__ face_pair<T, R> of_y,
                     const __grid_constant__ face_pair<T, R> of_z, int blocks_y, int blocks)
{
    let_next_begin();
    const int64_t field = blockIdx.x / (unsigned)blocks;
    const int block = (int)(blockIdx.x % (unsigned)blocks);
    if (block < blocks_y)
        face_block<T, R, V, FORM, AXIS_Y>(plan, of_y, block, field);
    else
        face_block<T, R, V, FORM, AXIS_Z>(plan, of_z, block - blocks_y, field);
    face_end();
}

/* --- on the host --- */

template <typename T, int R, int V, int FORM>
static cudaError_t launch_y_z(face_launcher *launch, faces_made<T, R> *made)
{
    int blocks[AXIS_COUNT] = {0, 0, 0};
    for (int a = AXIS_Y; a < AXIS_COUNT; a++) {
        face_pair<T, R> *faces = &made->axis[a];
        const int sides = sides_of(*faces);
        const int64_t packs = blocks_of(faces->end[0], V) - faces->begin[0] / V;
        if (sides == 0)
            continue;
        faces->tiles = (int32_t)blocks_of(packs, FACE_WIDE);
        faces->blocks =
            faces->tiles * (int32_t)blocks_of(faces->end[1] - faces->begin[1], FACE_HIGH);
        blocks[a] = sides * faces->blocks;
    }
    int all = blocks[AXIS_Y] + blocks[AXIS_Z];
    if (all == 0)
        return cudaSuccess;
    return (*launch)(faces_y_z_kernel<T, R, V, FORM>, all * (int64_t)launch->g->plan->batch, 0,
                     made->plan, made->axis[AXIS_Y], made->axis[AXIS_Z], blocks[AXIS_Y], all);
}

cudaError_t faces_y_z_launch(face_launcher *launch)
{
    return with_face_kinds(*launch, [&](auto type, auto radius, auto form) {
        using T = decltype(type);
        constexpr int R = decltype(radius)::value, FORM = decltype(form)::value;
        /* Packs of float64 gain nothing and take twice the registers. */
        constexpr int V = sizeof(T) == 4 ? 4 : 1;
        faces_made<T, R> *made = (faces_made<T, R> *)launch->made;
        return rows_are_packs(launch->g->plan) ? launch_y_z<T, R, V, FORM>(launch, made)
                                               : launch_y_z<T, R, 1, FORM>(launch, made);
    });
}
