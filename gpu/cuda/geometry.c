#include "gpu/cuda/geometry.h"

#include <string.h>

void geometry_init(struct geometry *g, const struct plan *plan, int slot, int units,
                   cudaStream_t stream)
{
    memset(g, 0, sizeof *g);
    g->plan = plan;
    g->slot = slot;
    g->units = units;
    g->stream = stream;
    for (int a = 0; a < AXIS_COUNT; a++) {
        const struct plan_axis *axis = &plan->axis[a];
        const struct plan_side *low = &axis->side[SIDE_LOW], *high = &axis->side[SIDE_HIGH];
        g->low[a] = low->rows > low->claim ? low->rows : low->claim;
        g->high[a] = axis->n - (high->rows > high->claim ? high->rows : high->claim);
        if (g->low[a] > axis->n)
            g->low[a] = axis->n;
        if (g->high[a] < g->low[a])
            g->high[a] = g->low[a];
    }
    geometry_shell(g);
}

void geometry_shell(struct geometry *g)
{
    const struct plan *plan = g->plan;
    struct shell_shape *shell = &g->shell;
    memset(shell, 0, sizeof *shell);
    shell->slot = g->slot;
    shell->batch = (int64_t)plan->batch;
    g->has_box = true;
    for (int a = 0; a < AXIS_COUNT; a++)
        g->has_box &= g->high[a] > g->low[a];
    /* x: whole planes; y: what is left of the rows; z: what is left of the columns. */
    for (int a = 0; a < AXIS_COUNT; a++) {
        for (int side = 0; side < SIDE_COUNT; side++) {
            const int64_t begin = side == SIDE_LOW ? 0 : g->high[a];
            const int64_t end = side == SIDE_LOW ? g->low[a] : plan->axis[a].n;
            int64_t points = 1;
            const int box = shell->boxes;
            for (int b = 0; b < AXIS_COUNT; b++) {
                shell->begin[box][b] = b == a ? begin : b < a ? g->low[b] : 0;
                shell->size[box][b] = (b == a  ? end
                                       : b < a ? g->high[b]
                                               : plan->axis[b].n) -
                                      shell->begin[box][b];
                points *= shell->size[box][b];
            }
            if (points > 0) {
                shell->points += points;
                shell->end[box] = shell->points;
                shell->boxes++;
            }
        }
    }
}
