#include "numerics/stability.h"

#include <math.h>
#include <string.h>

/* The largest dt · rate that the scheme takes, where all rates of A are real and negative: 2, of
 * RK4 2.785…, where |1 + z + z²/2 + z³/6 + z⁴/24| = 1; infinite for ADI. */
static double stable_interval(const struct job *job)
{
    switch (job->more.scheme) {
    case SCHEME_RK4:
        return 2.785293563405282;
    case SCHEME_ADI:
        return INFINITY;
    default:
        return 2;
    }
}

enum { REMEMBERED = 64 }; /* a chain has 48 axes, and its dt_max is asked for twice */

/* weights_bound() of a uniform axis, which takes milliseconds to find: a thread remembers its last
 * few axes. */
static double uniform_bound(const struct weights_axis *rows, int accuracy)
{
    static _Thread_local struct {
        struct weights_axis axis;
        int accuracy;
        double bound;
    } remembered[REMEMBERED];
    static _Thread_local unsigned next;
    /* All axes of these sides, in units of their spacing. */
    struct weights_axis axis;
    memset(&axis, 0, sizeof axis);                            /* compared as bytes */
    axis.n = rows->n < WEIGHTS_EDGE ? rows->n : WEIGHTS_EDGE; /* no further one is looked at */
    axis.spacing = 1;
    for (int s = 0; s < SIDE_COUNT; s++) {
        axis.side[s].kind = rows->side[s].kind;
        axis.side[s].at_face = rows->side[s].at_face;
        axis.side[s].mixed = rows->side[s].mixed * rows->spacing;
    }
    const double scale = 1 / rows->spacing / rows->spacing;
    for (int k = 0; k < REMEMBERED; k++)
        if (remembered[k].accuracy == accuracy &&
            memcmp(&remembered[k].axis, &axis, sizeof axis) == 0)
            return remembered[k].bound * scale;
    remembered[next].axis = axis;
    remembered[next].accuracy = accuracy;
    remembered[next].bound = weights_bound(&axis, accuracy);
    const double bound = remembered[next].bound;
    next = (next + 1) % REMEMBERED;
    return bound * scale;
}

double job_weights_spacing(double bound, int accuracy)
{
    const struct weights_axis endless = {.n = 1, .spacing = 1};
    const double spacing = sqrt(uniform_bound(&endless, accuracy) / bound);
    return isfinite(spacing) ? spacing : 0;
}

double job_dt_max(const struct job *job)
{
    static const double symbol[] = {4.0, 16.0 / 3.0, 272.0 / 45.0, 2048.0 / 315.0, 512.0 / 75.0};
    const double lambda = symbol[job->accuracy / 2 - 1];
    double rate = 0;
    for (int a = 0; a < job->axes; a++) {
        if (job->diffusivity[a] == 0) /* over an h² that underflows it is no NaN but no flow */
            continue;
        double axis_rate = job->diffusivity[a] / job->spacing[a] / job->spacing[a] * lambda;
        struct weights_axis rows;
        job_weights(job, a, NULL, &rows);
        if (!(job->more.coordinates >> a & 1) && /* job_weights_spacing() knows of its sides */
            (weights_is_stiff(&rows.side[SIDE_LOW]) || weights_is_stiff(&rows.side[SIDE_HIGH])))
            axis_rate = fmax(axis_rate, job->diffusivity[a] * uniform_bound(&rows, job->accuracy));
        rate += axis_rate;
    }
    const double most = job->more.coefficient ? job->more.coefficient_max : 1;
    const double interval = stable_interval(job);
    if (rate == 0 || most == 0 || interval == INFINITY) /* any step, however large the other is */
        return INFINITY;
    return interval / (rate * most);
}
