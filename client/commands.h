/* What the fdclient command does. */
#ifndef CLIENT_COMMANDS_H
#define CLIENT_COMMANDS_H

#include "client/options.h"

/* Run the command once. False with the error set; codes of its own are "USAGE" and "FILE". */
bool commands_run(const struct options *options, struct fdclient_error *error);

#endif
