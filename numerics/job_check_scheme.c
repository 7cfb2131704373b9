/* What a job may ask for of its steps in time: scheme, source and probes. */
#include "base/limits.h"
#include "numerics/job_check.h"
#include "numerics/job_weights.h"

#include <inttypes.h>
#include <math.h>

/* Tables of a solve have a row for each point of a line, of a longer one as many as a step of that
 * size has an effect on: about 166 √(κ dt/(2 h²)). */
#define LONG_LINE (UINT64_C(1) << 18)
#define LONG_LINE_WEIGHT 0x1p21

static bool check_adi(const struct job *job, struct failure *failure)
{
    if (job->accuracy != 2)
        return failure_set_limit(failure, STATUS_INVALID_ARGUMENT, "accuracy", job->accuracy, 2,
                                 "scheme adi has accuracy 2; got %d", job->accuracy);
    for (int a = 0; a < job->axes; a++) {
        if (job->more.coordinates >> a & 1)
            return failure_set(failure, STATUS_UNSUPPORTED, job_axis_place("spacing", a).text,
                               "scheme adi takes no coordinates; forward-euler and rk4 do");
        for (int side = 0; side < SIDE_COUNT; side++)
            if (!job_check_adi_side(job, a, side, failure))
                return false;
        const double weight = job->diffusivity[a] * job->dt / job->spacing[a] / job->spacing[a] / 2;
        if (job->n[a] > LONG_LINE && !job->more.coefficient && !(weight <= LONG_LINE_WEIGHT))
            return failure_set_limit(
                failure, STATUS_TOO_LARGE, "dt", job->dt, job->dt * (LONG_LINE_WEIGHT / weight),
                "scheme adi takes lines of more than %" PRIu64
                " points where diffusivity dt/(2 h²) is at most %.0f; along %s it is %.6g",
                LONG_LINE, LONG_LINE_WEIGHT, axis_name((enum axis)a), weight);
    }
    return true;
}

static bool check_probes(const struct job *job, struct failure *failure)
{
    const uint32_t probes = job->more.probes;
    if (probes > LIMIT_PROBES)
        return failure_set_limit(failure, STATUS_TOO_LARGE, "probes", probes, LIMIT_PROBES,
                                 "a job has at most %d probes; got %" PRIu32, LIMIT_PROBES, probes);
    const double values = ((double)job->steps + 1) * probes;
    if (values > LIMIT_PROBED)
        return failure_set_limit(failure, STATUS_TOO_LARGE, "probes", values, LIMIT_PROBED,
                                 "probes have a value at every step and before the first: %.0f; at "
                                 "most %d are kept",
                                 values, LIMIT_PROBED);
    return true;
}

bool job_check_scheme(const struct job *job, struct failure *failure)
{
    const struct job_more *more = &job->more;
    if (more->scheme >= SCHEME_COUNT)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "scheme",
                           "no scheme has the number %d", more->scheme);
    if (more->source > 1 || (more->source && more->source_value != 0) ||
        !isfinite(rounded(more->source_value, job->dtype)))
        return failure_set(failure, STATUS_INVALID_ARGUMENT, "source",
                           "a source is an array or a number that is finite in its type; got %g",
                           more->source_value);
    return check_probes(job, failure) && (more->scheme != SCHEME_ADI || check_adi(job, failure));
}
