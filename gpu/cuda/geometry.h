/* What every pass of a plan has in common: the points that are centred on every active axis (the
 * box), and all others (the shell). */
#ifndef GPU_CUDA_GEOMETRY_H
#define GPU_CUDA_GEOMETRY_H

#include "gpu/cuda/passes.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SHELL_BOXES = 2 * AXIS_COUNT };

/* Boxes that do not overlap: together all that the other kernels leave out. */
struct shell_shape {
    int64_t begin[SHELL_BOXES][AXIS_COUNT], size[SHELL_BOXES][AXIS_COUNT];
    int64_t end[SHELL_BOXES]; /* points in this box and those before it */
    int64_t points;           /* of all boxes */
    int64_t batch;
    int32_t boxes, slot, impose;
};

struct geometry {
    const struct plan *plan;
    int slot, units;
    cudaStream_t stream;
    int64_t low[AXIS_COUNT], high[AXIS_COUNT]; /* the box */
    bool has_box;
    struct shell_shape shell;
};

void geometry_init(struct geometry *geometry, const struct plan *plan, int slot, int units,
                   cudaStream_t stream);

/* Of a box that was changed: the shell is what it leaves. */
void geometry_shell(struct geometry *geometry);

#ifdef __cplusplus
}
#endif
#endif
