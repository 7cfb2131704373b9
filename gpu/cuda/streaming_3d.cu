/* Even operators in 3D: the Laplacian and a diffusion step. A block marches a column of the grid
 * along z. It copies plane after plane, with what its points reach over the column's sides, to a
 * ring in shared memory, through the maps at the grid's edges; a thread has its own points of the
 * planes above and below in registers.
 *
 *   acc = c0 f;  equal weights on all axes: acc = fma(cm, (x pair + y pair) + z pair, acc),
 *   else axis by axis: x, y, z;  m = 1 … R
 *
 * What a pass adds is a trait of the same kernel (point_sum.cuh).
 *
 * Bytes of device memory per point: one write and (L + 2R)/L reads for marches of L planes. From L2
 * in all, with what lies over the sides of a column of 256 × 12 points (float32): 1.7 reads a point
 * for R = 4; of 256 × 16, 1.2 for R = 1. Instructions per point, R = 4: 25 of arithmetic, 1.75
 * loads of packs from shared memory, 0.4 copies: some 34 of the 63 that an H200 issues in the time
 * of a copy. */
#include "gpu/cuda/point_sum.cuh"

#include <cuda_pipeline.h>

/* Blocks of few, long rows: the L2 is asked for a line at a time, and those past a row's ends count
 * as whole ones. Blocks of short rows: for grids that long ones would overhang. */
enum { LONG = 64, SHORT = 16 };

template <typename T, int R, int WIDE, enum point_kind KIND>
struct column {
    enum {V = 16 / sizeof(T), ROWS = 2, /* of a pack each that a thread computes of a plane */
          /* Planes from one barrier to the next, and how many such groups come in meanwhile. */
          GROUP = WIDE == LONG ? 1 : 2,
          GROUPS = GROUP == 2 ? 1
                   : R > 2    ? 3
                              : 2,
          AHEAD = GROUP *GROUPS,
          /* Planes from one turn of the queue to the next: after 2R + 1 nothing has to move in it.
           * Terms take registers, and time enough for moves. */
          STEPS = GROUP == 2        ? 2
                  : KIND != CENTRED ? 3
                                    : 2 * R + 1,
          HIGH = (R > PLAN_RADIUS ? 5
                  : R > 2         ? 6
                                  : 8) *
                 LONG / WIDE / (WIDE == SHORT ? 2 : 1),
          /* On a multiprocessor: fewer keep neighbours within what the L2 holds. */
          BLOCKS = WIDE == LONG                ? 1
                   : R == 1 && KIND == CENTRED ? 3
                                               : 2,
          THREADS = WIDE *HIGH, X = WIDE *V,         /* points of a column in a plane */
          Y = HIGH *ROWS, HALO = (R + V - 1) / V *V, /* along x: whole packs */
          WIDTH = X + 2 * HALO, HEIGHT = Y + 2 * R,
          /* In shared memory what a row has between the column's sides begins a sector, a long
           * row's a line, as it does in device memory: a copy from one place in a sector to another
           * reads it twice, and asks the L2 for a line three times. */
          LINE = (WIDE == LONG ? 128 : 32) / sizeof(T), PITCH = (WIDTH + LINE - 1) / LINE *LINE,
          PLANE = PITCH *HEIGHT, RING = R + GROUP + AHEAD, /* planes from the first of a group */
          WARP_WIDE = WIDE < 32 ? WIDE : 32, WARP_HIGH = 32 / WARP_WIDE};
    /* A block's shared memory. */
    T ring[LINE + RING * PLANE]; /* before the first row a place for its left side */
    T stage[WIDE == LONG ? 1 : THREADS / 32][WARP_HIGH * ROWS][WARP_WIDE * V]; /* unless ALIGNED */
    /* The sources of the column's x and y, of R planes before the march and R past the grid. */
    int64_t map[WIDTH + HEIGHT + 2 * R];
};

template <typename T, int R> struct streaming_3d_shape : marched_grid {
    int32_t shared;
    point_weights<T, R> weights;
    point_terms<T> terms;
};

/* ALIGNED: rows are whole packs, and so is what lies past their ends. */
template <typename T, int R, int WIDE, bool ALIGNED, enum point_kind KIND, class Jobs>
__global__ void __launch_bounds__(column<T, R, WIDE, KIND>::THREADS,
                                  column<T, R, WIDE, KIND>::BLOCKS)
    streaming_3d_kernel(const __grid_constant__ streaming_3d_shape<T, R> shape,
                        const T *__restrict__ in, T *__restrict__ out,
                        const __grid_constant__ Jobs jobs)
{
    using Column = column<T, R, WIDE, KIND>;
    constexpr int V = Column::V, ROWS = Column::ROWS, STEPS = Column::STEPS,
                  THREADS = Column::THREADS, WIDTH = Column::WIDTH, PITCH = Column::PITCH,
                  HALO = Column::HALO, UNIT = ALIGNED ? V : 1,
                  INNER = Column::X * Column::HEIGHT / UNIT, UNITS = WIDTH * Column::HEIGHT / UNIT,
                  COPIES = (UNITS + THREADS - 1) / THREADS;
    extern __shared__ __align__(128) unsigned char shared_memory[];
    Column &shared = *(Column *)shared_memory;
    T *const planes = shared.ring + Column::LINE; /* where their first rows have x0 */
    const int tx = threadIdx.x, ty = threadIdx.y, thread = ty * WIDE + tx;

    const T *const written = out; /* KIND other than CENTRED is of one job */
    own_arrays(in, out, jobs);
    const marched_column mine = find_column(shape, Column::X, Column::Y);
    const int64_t x0 = mine.x0, y0 = mine.y0;
    const int first = mine.first, last = mine.last;
    in += mine.field;
    out += mine.field;

    /* Past the last point that the column's points reach, that one again. */
    int64_t *const map_y = shared.map + WIDTH, *const before = map_y + Column::HEIGHT,
                   *const beyond = before + R;
    for (int i = thread; i < WIDTH + Column::HEIGHT + 2 * R; i += THREADS) {
        int a = AXIS_Z;
        int64_t at;
        if (i < WIDTH) {
            a = AXIS_X;
            at = min(x0 - HALO + i, shape.n + HALO - 1);
        } else if (i < WIDTH + Column::HEIGHT) {
            a = AXIS_Y;
            at = min(y0 - R + (i - WIDTH), shape.high[AXIS_Y] + R - 1);
        } else {
            const int z = i - WIDTH - Column::HEIGHT;
            at = z < R ? first - R + z : shape.planes + (z - R);
        }
        shared.map[i] = source(&table[shape.slot].plan.axis[a], at);
    }
    __syncthreads();

    /* The units of a plane that this thread copies: where they come from and go to. First all that
     * lie between the column's sides, so that a warp reads whole lines, then what is past them. */
    uint32_t from[COPIES];
    int to[COPIES];
#pragma unroll
    for (int j = 0; j < COPIES; j++) {
        const int i = thread + j * THREADS, side = max(i - INNER, 0) * UNIT;
        int row = i * UNIT / Column::X, at = HALO + i * UNIT % Column::X;
        if (i >= INNER) {
            row = min(side / (2 * HALO), Column::HEIGHT - 1);
            at = side % (2 * HALO);
            at += at < HALO ? 0 : Column::X;
        }
        from[j] = (uint32_t)(map_y[row] * shape.n + shared.map[at] / UNIT * UNIT);
        to[j] = row * PITCH + at - HALO;
    }
    const T *next = in + first * shape.plane; /* the next plane to copy, were there no edge */
    auto copy = [&](int z, int slot) {
        if (z >= last + R)
            return;
        const T *plane = z < shape.planes ? next : in + beyond[z - shape.planes] * shape.plane;
        next += shape.plane;
#pragma unroll
        for (int j = 0; j < COPIES; j++)
            if ((j + 1) * THREADS <= UNITS || thread + j * THREADS < UNITS)
                __pipeline_memcpy_async(planes + slot * Column::PLANE + to[j], plane + from[j],
                                        UNIT * sizeof(T));
    };
#pragma unroll 1
    for (int i = 0; i < R + Column::AHEAD; i++) {
        copy(first + i, i);
        if (i >= R - 1 && (i + 1 - R) % Column::GROUP == 0)
            __pipeline_commit();
    }

    /* The thread's own points, of the planes k − R … */
    pack<T, V> queue[2 * R + STEPS][ROWS];
    const int64_t x = x0 + tx * V, y = y0 + ty * ROWS;
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const T *row = in + before[i] * shape.plane + min(y + r, shape.rows - 1) * shape.n;
            if (ALIGNED)
                queue[i][r] = load_pack<V>(row + min(x, shape.n - V));
            else
#pragma unroll
                for (int v = 0; v < V; v++)
                    queue[i][r].v[v] = row[min(x + v, shape.n - 1)];
        }
    const int own = (ty * ROWS + R) * PITCH + tx * V;
    __pipeline_wait_prior(Column::GROUPS);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            queue[R + i][r] = shared_pack(planes + i * Column::PLANE + own + r * PITCH);

    /* What it stores of a plane: so many rows from stored_y on, and of each the points from
     * stored_x on that `stored` has a bit for: those of a pack, or every 32nd. */
    const int warp = thread / 32, lane = thread % 32;
    const int64_t stored_x = x0 + (ALIGNED ? tx * V : tx / 32 * 32 * V + lane);
    const int64_t stored_y =
        y0 + (ALIGNED ? ty : ty / Column::WARP_HIGH * Column::WARP_HIGH) * ROWS;
    int rows = (int)min(shape.high[AXIS_Y] - stored_y, (int64_t)Column::Y);
    unsigned stored = 0;
    for (int i = 0; i < (ALIGNED ? V : Column::WARP_WIDE * V / 32); i++) {
        const int64_t at = stored_x + (ALIGNED ? i : i * 32);
        if (at >= shape.low[AXIS_X] && at < shape.high[AXIS_X])
            stored |= 1u << i;
    }
    asm volatile("" : "+r"(stored), "+r"(rows)); /* kept, not found anew for each store */
    T *target = out + first * shape.plane + stored_y * shape.n + stored_x;

    /* TERMS: what is added to a plane comes to the L2 some planes before, and to registers while
     * the plane before is computed: of what a thread stores, and where those are packs, from where
     * it stores them; z is the plane that many ahead. */
    pack<T, V> base[ROWS], source[ROWS];
    auto load_term = [&](const T *field, int z, pack<T, V>(&term)[ROWS], int ahead = 0) {
        if (!field || z >= last)
            return;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const T *row = ALIGNED ? field + (target - written) + ahead * shape.plane + r * shape.n
                                   : field + mine.field + z * shape.plane +
                                         min(y + r, shape.rows - 1) * shape.n;
            if (ALIGNED && (r >= rows || stored == 0))
                continue;
            if (z + Column::AHEAD < last && tx * 16 % 128 == 0)
                prefetch_l2(row + Column::AHEAD * shape.plane +
                            (ALIGNED ? 0 : min(x, shape.n - 1)));
            if (ALIGNED)
                term[r] = load_once(row, &term[r]);
            else
#pragma unroll
                for (int v = 0; v < V; v++)
                    term[r].v[v] = __ldcs(row + min(x + v, shape.n - 1));
        }
    };
    const centred_terms<T> terms(shape.terms);
    if constexpr (KIND == TERMS) {
        for (int r = 0; r < ROWS; r++)
            for (int v = 0; v < V; v++) {
                base[r].v[v] = terms.base;
                source[r].v[v] = terms.source;
            }
        load_term(shape.terms.base, first, base);
        load_term(shape.terms.source, first, source);
    }

    int here = 0; /* the slot of the plane at hand; i planes on: */
    auto slot = [&](int i) { return here + i < Column::RING ? here + i : here + i - Column::RING; };
#pragma unroll 1
    for (int k = first; k < last; k += STEPS) {
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            if (k + s >= last)
                break;
            pack<T, V> acc[ROWS];
            if constexpr (KIND == TERMS) {
#pragma unroll
                for (int r = 0; r < ROWS; r++)
#pragma unroll
                    for (int v = 0; v < V; v++) {
                        const T f = queue[R + s][r].v[v];
                        acc[r].v[v] =
                            fused(shape.weights.centre, f, terms.input_is_base ? f : base[r].v[v]);
                    }
                load_term(shape.terms.base, k + s + 1, base, 1);
            }
            if (s % Column::GROUP == 0) {
                /* All have the planes to R past this group, and are done with the one before. */
                __pipeline_wait_prior(Column::GROUPS - 1);
                __syncthreads();
#pragma unroll
                for (int i = 0; i < Column::GROUP; i++)
                    copy(k + s + R + Column::AHEAD + i, slot(R + Column::AHEAD + i));
                __pipeline_commit();
            }
            const T *f = planes + here * Column::PLANE + own,
                    *ahead = planes + slot(R) * Column::PLANE + own;
            here = slot(1);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                queue[2 * R + s][r] = shared_pack(ahead + r * PITCH);
#pragma unroll
                for (int v = 0; v < V && KIND == CENTRED; v++)
                    acc[r].v[v] = shape.weights.centre * queue[R + s][r].v[v];
            }
            /* The points of row r, i along from the thread's first; and those of row i. */
            auto along_x = [&](int r, int i) {
                const int at = (i + HALO) / V * V - HALO;
                const pack<T, V> q = at == 0 ? queue[R + s][r] : shared_pack(f + r * PITCH + at);
                return q.v[i - at];
            };
            auto along_y = [&](int i) {
                return i >= 0 && i < ROWS ? queue[R + s][i] : shared_pack(f + i * PITCH);
            };
/* clang-format off */
#define FOR_POINTS(...)                                                                            \
    _Pragma("unroll") for (int m = 1; m <= R; m++)                                                 \
        _Pragma("unroll") for (int r = 0; r < ROWS; r++)                                           \
            _Pragma("unroll") for (int v = 0; v < V; v++) acc[r].v[v] = __VA_ARGS__
/* clang-format on */
#define X_PAIR (along_x(r, v + m) + along_x(r, v - m))
#define Y_PAIR (along_y(r + m).v[v] + along_y(r - m).v[v])
#define Z_PAIR (queue[R + s + m][r].v[v] + queue[R + s - m][r].v[v])
            if (shape.shared) {
                FOR_POINTS(
                    fused(shape.weights.c[AXIS_X][m], X_PAIR + Y_PAIR + Z_PAIR, acc[r].v[v]));
            } else {
                FOR_POINTS(fused(shape.weights.c[AXIS_X][m], X_PAIR, acc[r].v[v]));
                FOR_POINTS(fused(shape.weights.c[AXIS_Y][m], Y_PAIR, acc[r].v[v]));
                FOR_POINTS(fused(shape.weights.c[AXIS_Z][m], Z_PAIR, acc[r].v[v]));
            }
            if constexpr (KIND == TERMS) {
#pragma unroll
                for (int r = 0; r < ROWS; r++)
#pragma unroll
                    for (int v = 0; v < V; v++)
                        acc[r].v[v] = fused(terms.dt, source[r].v[v], acc[r].v[v]);
                load_term(shape.terms.source, k + s + 1, source, 1);
            }
            if (ALIGNED) {
                if (stored == (1u << V) - 1) {
#pragma unroll
                    for (int r = 0; r < ROWS; r++)
                        if (r < rows)
                            store_pack(target + r * shape.n, acc[r]);
                } else if (stored != 0) {
#pragma unroll
                    for (int r = 0; r < ROWS; r++)
#pragma unroll
                        for (int v = 0; v < V; v++)
                            if (r < rows && stored >> v & 1)
                                target[r * shape.n + v] = acc[r].v[v];
                }
            } else {
                /* Through shared memory, so that a warp stores whole lines. */
                auto &stage = shared.stage[warp];
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    store_shared(&stage[ty % Column::WARP_HIGH * ROWS + r]
                                       [lane * V % (Column::WARP_WIDE * V)],
                                 acc[r]);
                __syncwarp();
#pragma unroll
                for (int r = 0; r < Column::WARP_HIGH * ROWS; r++)
#pragma unroll
                    for (int i = 0; i < Column::WARP_WIDE * V / 32; i++)
                        if (r < rows && stored >> i & 1)
                            target[r * shape.n + i * 32] = stage[r][lane + i * 32];
                __syncwarp();
            }
            target += shape.plane;
        }
#pragma unroll
        for (int i = 0; i < 2 * R; i++)
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                queue[i][r] = queue[i + STEPS][r];
    }
}

template <typename T, int R, int WIDE, bool ALIGNED, enum point_kind KIND>
static cudaError_t launch_column(const struct geometry *g, const struct table_pass *pass)
{
    using Column = column<T, R, WIDE, KIND>;
    streaming_3d_shape<T, R> shape = {};
    shape.weights = weights_of<T, R>(g->plan, pass);
    shape.terms = terms_of<T>(g->plan, pass);
    shape.shared = g->plan->shared;
    const int64_t blocks = divide_grid(&shape, g, Column::X, Column::Y,
                                       (int64_t)g->units * Column::BLOCKS, R + Column::AHEAD);
    static_assert(WIDE == LONG || sizeof(Column) <= 99 << 10, "what any device has");
    kernel_pair<streaming_3d_shape<T, R>, T> kernel = {
        streaming_3d_kernel<T, R, WIDE, ALIGNED, KIND, one_job>, nullptr};
    if constexpr (WIDE == SHORT && KIND == CENTRED && R <= PLAN_RADIUS) /* of a plain plan */
        kernel.several = streaming_3d_kernel<T, R, WIDE, ALIGNED, KIND, job_arrays>;
    return launch_blocks(kernel, blocks, dim3(WIDE, Column::HIGH), g, shape, pass, sizeof(Column));
}

/* Long rows where they overhang the grid by less than an eighth and their ring fits; not of several
 * jobs, whose grids are small. */
template <class Column> static bool has_long(const struct geometry *g)
{
    const int64_t n = g->plan->axis[AXIS_X].n;
    return g->jobs == 1 && blocks_of(n, Column::X) * Column::X - n < n / 8 &&
           sizeof(Column) <= (size_t)block_shared_bytes();
}

template <typename T, int R, enum point_kind KIND>
static cudaError_t launch_kind(const struct geometry *g, const struct table_pass *pass)
{
    if (!packs_go_on(g->plan))
        return launch_column<T, R, SHORT, false, KIND>(g, pass);
    if constexpr (R <=
                  PLAN_RADIUS) /* of more, long rows would take more registers than there are */
        if (has_long<column<T, R, LONG, KIND>>(g))
            return launch_column<T, R, LONG, true, KIND>(g, pass);
    return launch_column<T, R, SHORT, true, KIND>(g, pass);
}

extern "C" cudaError_t streaming_3d_launch(const struct geometry *g, const struct table_pass *pass)
{
    return with_type_and_radius<TABLE_RADIUS>(g, [&](auto type, auto radius) {
        using T = decltype(type);
        constexpr int R = decltype(radius)::value;
        return has_terms(g->plan, pass) ? launch_kind<T, R, TERMS>(g, pass)
                                        : launch_kind<T, R, CENTRED>(g, pass);
    });
}
