/* --join: this process lends its devices to a head. For each it keeps a worker and the bridge that
 * leads to it (gpu/bridge/bridge.h), which it starts again, both, when one of them has ended. */
#pragma once

#include "server/config/config.h"

/* Until SIGTERM or SIGINT. Returns the exit status. */
int join_head(const struct config *config, const char *worker_path, const char *bridge_path);
