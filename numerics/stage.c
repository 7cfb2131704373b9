#include "numerics/stage.h"

/* Kutta's scheme of order 4 for a linear right side that does not depend on time:
 * u + dt L(u + dt/2 L(u + dt/3 L(u + dt/4 L(u)))), from the inside out. */
static struct stage part_of(uint64_t k, int u)
{
    struct stage stage = {.kind = STAGE_PART, .part = (int)k, .base = u};
    stage.read = k == 0 ? u : k % 2 == 1 ? STAGE_ODD : STAGE_SPARE;
    stage.write = k == 3 ? STAGE_EVEN : k % 2 == 1 ? STAGE_SPARE : STAGE_ODD;
    return stage;
}

static struct stage rate_of(int u, int axis)
{
    return (struct stage){
        .kind = STAGE_RATE, .axis = axis, .read = u, .base = u, .write = STAGE_ODD};
}

static struct stage solve_along(int axis)
{
    return (struct stage){.kind = STAGE_SOLVE,
                          .axis = axis,
                          .read = STAGE_ODD,
                          .base = STAGE_ODD,
                          .write = STAGE_ODD};
}

static struct stage sum_of(int u)
{
    return (struct stage){.kind = STAGE_ADD, .read = STAGE_ODD, .base = u, .write = STAGE_EVEN};
}

/* δ from the rate, the axes one after another; u + δ. */
static struct stage split_of_step(uint64_t k, uint64_t last, int u)
{
    return k == 0 ? rate_of(u, AXIS_COUNT) : k == last ? sum_of(u) : solve_along((int)k - 1);
}

/* The same for x alone, then y, z, y and x. */
static struct stage symmetric_of_step(uint64_t k, int u)
{
    static const int axis_of[] = {AXIS_X, AXIS_Y, AXIS_Z, AXIS_Y, AXIS_X};
    const int axis = axis_of[k / 3], from = k < 3 ? u : STAGE_EVEN;
    return k % 3 == 0 ? rate_of(from, axis) : k % 3 == 1 ? solve_along(axis) : sum_of(from);
}

struct stage stage_of(const struct plan *plan, uint64_t pass)
{
    const uint64_t imposes = plan->impose ? 1 : 0, each = (uint64_t)plan->step_passes;
    struct stage stage = {0};
    if (pass < imposes)
        return (struct stage){.kind = STAGE_IMPOSE, .write = STAGE_EVEN};
    const uint64_t k = (pass - imposes) % each, step = (pass - imposes) / each;
    const int u = step == 0 && !imposes ? STAGE_IN : STAGE_EVEN;
    if (plan->scheme == SCHEME_RK4) {
        stage = part_of(k, u);
    } else if (plan->scheme == SCHEME_ADI) {
        stage = plan->symmetric ? symmetric_of_step(k, u) : split_of_step(k, each - 1, u);
    } else { /* to and fro */
        stage.kind = STAGE_STEP;
        stage.read = stage.base = pass == 0 ? STAGE_IN : pass % 2 == 1 ? STAGE_EVEN : STAGE_ODD;
        stage.write = pass % 2 == 1 ? STAGE_ODD : STAGE_EVEN;
    }
    stage.steps_done = k == each - 1 ? (int64_t)step + 1 : -1;
    return stage;
}
