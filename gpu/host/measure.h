/* Measures on the host's cores. */
#pragma once

#include "gpu/backend.h"

/* Do all of a launch of a plan that measures, and return: its lines are blocks. */
void measure_pass(const struct launch *launch);
