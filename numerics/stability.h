/* How large a step of a diffusion may be. */
#pragma once

#include "numerics/job_weights.h"

__BEGIN_DECLS

/* The largest stable forward Euler step: dt_max = 2 / Σ_axes(κ λ / h²), where λ = 4, 16/3, 272/45,
 * 2048/315 for accuracy 2, 4, 6, 8 is the symbol of −h²∂²/∂x² at the grid's highest frequency
 * (von Neumann: 1 − dt Σ κλ/h² ≥ −1); or where a side's rows are stiffer weights_bound() in the
 * place of λ/h², which takes milliseconds when it is first asked for. Infinity where every κ is 0.
 */
double job_dt_max(const struct job *job);

/* The spacing of a uniform axis that is as stiff as one of that weights_bound(): job.spacing of
 * an axis with coordinates of a diffusion, so that job_dt_max() needs no block. 0 where coordinates
 * are too far apart from each other for the range of the numbers. */
double job_weights_spacing(double bound, int accuracy);

__END_DECLS
