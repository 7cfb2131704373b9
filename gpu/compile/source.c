#include "gpu/compile/source.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    SHARED_BYTES = 160 << 10, /* a block's, on sm_80 and sm_90; other devices may have 99 KiB */
    LINE_BYTES = 128,
    ROWS_MOST = 4,
    SMALL_BLOCK = 256, /* threads: a multiprocessor has two */
    FEW_POINTS = 9,
    MANY_POINTS = 60, /* arithmetic takes longer than memory */
    MANY_PLANES = 7   /* their sums take most of the registers */
};

_Static_assert(sizeof(struct kernel_image) % 16 == 0, "code is aligned");

/* How far a key's offsets reach along each axis; along x and y 0 is within. */
struct reach {
    int low[AXIS_COUNT], high[AXIS_COUNT];
    bool gather; /* the sum goes back along z */
};

static struct reach reach_of(const struct kernel_key *key)
{
    struct reach reach = {{0, 0, KERNEL_RADIUS}, {0, 0, -KERNEL_RADIUS}, false};
    for (int k = 0; k < key->points; k++) {
        for (int a = 0; a < AXIS_COUNT; a++) {
            const int offset = key->offsets[k][a];
            reach.low[a] = offset < reach.low[a] ? offset : reach.low[a];
            reach.high[a] = offset > reach.high[a] ? offset : reach.high[a];
        }
        reach.gather |= k && key->offsets[k][AXIS_Z] < key->offsets[k - 1][AXIS_Z];
    }
    return reach;
}

/* Planes that a sum reads, of which a gathering kernel holds all. */
static int planes_of(const struct reach *reach)
{
    return reach->high[AXIS_Z] - reach->low[AXIS_Z] + 1;
}
static int planes_held(const struct reach *reach)
{
    return reach->gather ? planes_of(reach) : 1;
}

static int element_bytes(const struct kernel_key *key)
{
    return key->dtype == DTYPE_F32 ? 4 : 8;
}

bool kernel_key_check(const struct kernel_key *key)
{
    static const struct kernel_key zero;
    bool good = (key->dtype == DTYPE_F32 || key->dtype == DTYPE_F64) &&
                (key->axes == 2 || key->axes == 3) && key->aligned <= 1 &&
                key->padded <= (key->axes == 3) && !key->end && key->points >= 1 &&
                key->points <= KERNEL_POINTS;
    for (int k = 0; good && k < key->points; k++) {
        for (int a = 0; a < AXIS_COUNT; a++)
            good = good && key->offsets[k][a] >= -KERNEL_RADIUS &&
                   key->offsets[k][a] <= KERNEL_RADIUS && (a < key->axes || !key->offsets[k][a]);
    }
    return good && memcmp(key->offsets + key->points, zero.offsets + key->points,
                          sizeof zero.offsets - (size_t)key->points * AXIS_COUNT) == 0;
}

/* Images lie in no other side's padding. */
static bool can_pad(const struct kernel_key *key, const int64_t n[AXIS_COUNT])
{
    bool can = key->axes == 3;
    for (int a = 0; a < AXIS_COUNT; a++)
        can = can && n[a] >= 4 * KERNEL_RADIUS;
    return can;
}

bool kernel_key_init(struct kernel_key *key, int dtype, const int64_t n[AXIS_COUNT], bool pads,
                     uint64_t points, const int32_t (*offsets)[AXIS_COUNT])
{
    int axes = AXIS_COUNT;
    while (axes > 1 && n[axes - 1] == 1)
        axes--;
    memset(key, 0, sizeof *key);
    if (axes < 2 || points > KERNEL_POINTS)
        return false;
    key->dtype = (uint8_t)dtype;
    key->axes = (uint8_t)axes;
    key->points = (uint16_t)points;
    for (uint64_t k = 0; k < points; k++)
        for (int a = 0; a < AXIS_COUNT; a++) {
            if (offsets[k][a] < -KERNEL_RADIUS || offsets[k][a] > KERNEL_RADIUS)
                return false;
            key->offsets[k][a] = (int8_t)offsets[k][a];
        }
    key->aligned = 1;
    const struct kernel_tile tile = kernel_tile_of(key);
    key->aligned = n[AXIS_X] % tile.pack == 0 && n[AXIS_X] >= kernel_tile_x(&tile);
    key->padded = pads && can_pad(key, n);
    return kernel_key_check(key);
}

bool kernel_pads(const struct side *side)
{
    const bool has_images = side->map == SIDE_MAP_PERIODIC || side->map == SIDE_MAP_ENDPOINT ||
                            side->map == SIDE_MAP_FACE || side->map == SIDE_MAP_NODE ||
                            side->map == SIDE_MAP_NEAREST;
    return !side->halo && (side->held || !has_images);
}

/* In order of preference. */
static const struct {
    int wide, high, rows, ahead;
} tiles[] = {{64, 8, 2, 2}, {64, 8, 2, 3}, {64, 4, 4, 2}, {64, 4, 2, 3},
             {64, 4, 2, 2}, {32, 4, 2, 2}, {32, 4, 1, 2}, {16, 4, 1, 2}};

/* The first that pays. Where there are many points, blocks are smaller: one computes while another
 * waits. In 2D more rows a thread share what they read. Where there are few, fewer planes under way
 * are faster. Of kernels that read a padding, smaller blocks are also where there are few points,
 * and where there are many sums (bench/NOTES.md). */
static int first_tile(const struct kernel_key *key, const struct reach *reach)
{
    if (!key->aligned)
        return 5;
    if (key->points < FEW_POINTS)
        return key->padded ? 4 : 0;
    if (key->points >= MANY_POINTS)
        return key->axes == 2 ? 2 : 4;
    return key->padded && planes_of(reach) >= MANY_PLANES ? 3 : 1;
}

struct kernel_tile kernel_tile_of(const struct kernel_key *key)
{
    const struct reach reach = reach_of(key);
    const int element = element_bytes(key), line = LINE_BYTES / element;
    struct kernel_tile tile = {.pack = 16 / element};
    for (int i = first_tile(key, &reach); i < (int)(sizeof tiles / sizeof tiles[0]); i++) {
        tile.wide = tiles[i].wide;
        tile.high = tiles[i].high;
        tile.rows = tiles[i].rows;
        tile.ahead = tiles[i].ahead;
        tile.before = planes_of(&reach) - 1 + tile.ahead;
        const int height = kernel_tile_y(&tile) + reach.high[AXIS_Y] - reach.low[AXIS_Y];
        const int64_t planes = planes_held(&reach) + tile.ahead;
        tile.shared_bytes = element * (line + planes * height * (kernel_tile_x(&tile) + line));
        if (tile.shared_bytes <= SHARED_BYTES)
            break;
    }
    return tile;
}

/* --- the text --- */

struct text {
    char *at;
    size_t room, bytes;
    bool fits;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int n =
        text->fits ? vsnprintf(text->at + text->bytes, text->room - text->bytes, format, arguments)
                   : -1;
    va_end(arguments);
    text->fits = n >= 0 && (size_t)n < text->room - text->bytes;
    text->bytes += text->fits ? (size_t)n : 0;
}

/* What the sums are written from. */
struct writer {
    struct text text;
    const struct kernel_key *key;
    struct reach reach;
    struct kernel_tile tile;
    const char *type;
    int sums; /* that a thread has of each of its points: of one plane, or of all that one is in */
};

/* The sum that term k of the planes' sums adds to; in the arriving plane, or in that of age
 * *age. */
static int sum_of(const struct writer *w, int k, int *age)
{
    const int z = w->key->offsets[k][AXIS_Z];
    *age = w->reach.gather ? w->reach.high[AXIS_Z] - z : 0;
    return w->reach.gather ? 0 : w->reach.high[AXIS_Z] - z;
}

/* The first term from k on of that sum. */
static int next_term(const struct writer *w, int sum, int k)
{
    int age;
    while (k < w->key->points && sum_of(w, k, &age) != sum)
        k++;
    return k;
}

/* The packs of one row of a plane, those between the offsets `low` and `high` along x. */
static void put_loads(struct writer *w, int age, int row, int low, int high)
{
    const int v = w->tile.pack,
              pitch = kernel_tile_x(&w->tile) + LINE_BYTES / element_bytes(w->key);
    const int first = (low + KERNEL_RADIUS) / v - KERNEL_RADIUS / v;
    const int last = (high + v - 1 + KERNEL_RADIUS) / v - KERNEL_RADIUS / v;
    for (int pack = first; pack <= last; pack++) {
        put(&w->text, "%s ", w->type);
        for (int i = 0; i < v; i++)
            put(&w->text, "f_%d%s", pack * v + i + KERNEL_RADIUS, i + 1 < v ? ", " : ";\n");
        put(&w->text, "stencil_load(p_%d + %d", age, row * pitch + pack * v);
        for (int i = 0; i < v; i++)
            put(&w->text, ", f_%d", pack * v + i + KERNEL_RADIUS);
        put(&w->text, ");\n");
    }
}

static void put_term(struct writer *w, int k, int sum, int row)
{
    const int x = w->key->offsets[k][AXIS_X];
    for (int v = 0; v < w->tile.pack; v++) {
        if (k == 0)
            put(&w->text, "s_%d_%d_%d = stencil_product(a.w[0], f_%d);\n", sum, row, v,
                v + x + KERNEL_RADIUS);
        else
            put(&w->text, "s_%d_%d_%d = stencil_fma(a.w[%d], f_%d, s_%d_%d_%d);\n", sum, row, v, k,
                v + x + KERNEL_RADIUS, sum, row, v);
    }
}

/* All terms of a step. A sum's terms stay in order; among sums those that read the same row come
 * together, so that each row is loaded once where the order of offsets lets it. */
static void put_terms(struct writer *w)
{
    int next[2 * KERNEL_RADIUS + 1][ROWS_MOST], left = 0;
    for (int s = 0; s < w->sums; s++)
        for (int r = 0; r < w->tile.rows; r++) {
            next[s][r] = next_term(w, s, 0);
            left += next[s][r] < w->key->points;
        }
    while (left && w->text.fits)
        for (int age = planes_held(&w->reach) - 1; age >= 0; age--)
            for (int row = w->reach.low[AXIS_Y]; row < w->tile.rows + w->reach.high[AXIS_Y];
                 row++) {
                int low = KERNEL_RADIUS, high = -KERNEL_RADIUS;
                for (int writes = 0; writes < 2; writes++) {
                    if (writes && low <= high) {
                        put(&w->text, "{\n");
                        put_loads(w, age, row, low, high);
                    }
                    for (int s = 0; s < w->sums; s++)
                        for (int r = 0; r < w->tile.rows; r++) {
                            int k = next[s][r], of;
                            while (k < w->key->points && w->key->offsets[k][AXIS_Y] == row - r &&
                                   (sum_of(w, k, &of), of == age)) {
                                const int x = w->key->offsets[k][AXIS_X];
                                low = x < low ? x : low;
                                high = x > high ? x : high;
                                if (writes)
                                    put_term(w, k, s, r);
                                k = next_term(w, s, k + 1);
                            }
                            if (writes) {
                                left -= next[s][r] < w->key->points && k == w->key->points;
                                next[s][r] = k;
                            }
                        }
                    if (writes && low <= high)
                        put(&w->text, "}\n");
                }
            }
}

static void put_shape(struct writer *w, const char *name)
{
    const struct reach *reach = &w->reach;
    const int threads = w->tile.wide * w->tile.high;
    put(&w->text,
        "typedef stencil_shape<%s, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d> "
        "%s_shape;\n",
        w->type, w->key->axes, w->key->aligned, w->tile.wide, w->tile.high, w->tile.rows,
        reach->low[AXIS_X], reach->high[AXIS_X], reach->low[AXIS_Y], reach->high[AXIS_Y],
        reach->low[AXIS_Z], reach->high[AXIS_Z], reach->gather, w->tile.ahead, w->key->padded,
        name);
    put(&w->text, "struct %s_arguments { stencil_grid grid; %s%s w[%d]; };\n", name,
        w->key->padded ? "stencil_padding padding; " : "", w->type, w->key->points);
    put(&w->text,
        "extern \"C\" __global__ void __launch_bounds__(%d, %d)\n"
        "%s(const __grid_constant__ %s_arguments a, const %s *__restrict__ in,\n"
        "   %s *__restrict__ out)\n{\n",
        threads, threads == SMALL_BLOCK ? 2 : 1, name, name, w->type, w->type);
    put(&w->text,
        "extern __shared__ __align__(128) unsigned char shared_memory[];\n"
        "stencil_march<%s_shape> march(a.grid, (%s *)shared_memory, in, out%s);\n",
        name, w->type, w->key->padded ? ", &a.padding" : "");
}

static void put_sums(struct writer *w)
{
    for (int s = 0; s < w->sums; s++)
        for (int r = 0; r < w->tile.rows; r++)
            for (int v = 0; v < w->tile.pack; v++)
                put(&w->text, "%s s_%d_%d_%d = 0;\n", w->type, s, r, v);
}

/* The oldest sums are complete; each of the others takes the place of the one before it. */
static void put_results(struct writer *w)
{
    put(&w->text, "if (march.ready()) {\n");
    for (int r = 0; r < w->tile.rows; r++) {
        put(&w->text, "%s q_%d[] = {", w->type, r);
        for (int v = 0; v < w->tile.pack; v++)
            put(&w->text, "%ss_0_%d_%d", v ? ", " : "", r, v);
        put(&w->text, "};\nmarch.store(%d, q_%d);\n", r, r);
    }
    put(&w->text, "}\n");
    for (int s = 1; s < w->sums; s++)
        for (int r = 0; r < w->tile.rows; r++)
            for (int v = 0; v < w->tile.pack; v++)
                put(&w->text, "s_%d_%d_%d = s_%d_%d_%d;\n", s - 1, r, v, s, r, v);
}

size_t kernel_source(const struct kernel_key *key, const char *name, char *text, size_t room)
{
    struct writer w = {.text = {text, room, 0, room > 0},
                       .key = key,
                       .reach = reach_of(key),
                       .tile = kernel_tile_of(key),
                       .type = key->dtype == DTYPE_F32 ? "float" : "double"};
    w.sums = w.reach.gather ? 1 : planes_of(&w.reach);
    put(&w.text, "#include \"stencil_kernel.cuh\"\n");
    put_shape(&w, name);
    put_sums(&w);
    put(&w.text, "#pragma unroll 1\nwhile (march.next()) {\n");
    for (int age = 0; age < planes_held(&w.reach); age++)
        put(&w.text, "const %s *const p_%d = march.own(%d);\n", w.type, age, age);
    put_terms(&w);
    put_results(&w);
    put(&w.text, "}\n}\n");
    return w.text.fits ? w.text.bytes : 0;
}
