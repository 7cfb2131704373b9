/* What the fdclient command does. */
#pragma once

#include "client/options.h"

/* Run the command once. False with the error set; codes of its own are "USAGE" and "FILE". */
bool commands_run(const struct options *options, struct fdclient_error *error);
