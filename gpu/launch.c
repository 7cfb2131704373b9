#include "gpu/launch.h"

void *launch_array(const struct launch *launch, int array)
{
    switch (array) {
    case STAGE_IN:
        return (void *)(uintptr_t)launch->in[0];
    case STAGE_EVEN:
        return launch->even[0];
    case STAGE_ODD:
        return launch->odd;
    default:
        return launch->spare[array - STAGE_SPARE];
    }
}

void *launch_result(const struct launch *launch, int component)
{
    const bool ends_even =
        launch->own.end > 0 || launch->to / launch->plan->lines % 2 == 1 || launch->plan->staged;
    return ends_even ? launch->even[component] : launch->odd;
}

struct table_pass launch_table_pass(const struct launch *launch, uint64_t number)
{
    const struct stage stage = stage_of(launch->plan, number);
    struct table_pass pass = {.impose = stage.kind == STAGE_IMPOSE};
    for (int c = 0; c < AXIS_COUNT; c++) {
        pass.in[c] = launch->in[c];
        pass.out[c] = launch->even[c];
    }
    pass.in[0] = launch_array(launch, stage.read);
    pass.out[0] = launch_array(launch, stage.write);
    if (stage.kind == STAGE_PART) {
        pass.base = launch_array(launch, stage.base);
        pass.set = stage.part;
    }
    const bool is_between = stage.kind == STAGE_PART && stage.part != STAGE_WHOLE;
    pass.held = is_between ? TABLE_KEEP : TABLE_STEP;
    for (int i = 0; i < OPERANDS && launch->operands; i++)
        pass.operand[i] = launch->operands->at[i];
    return pass;
}
