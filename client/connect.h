/* From an address to a connected socket. */
#pragma once

#include "client/fdclient.h"

/* Connect to "unix:PATH", a path alone (begins with / or a dot), or where address is NULL the
 * default of fdclient_open(). Returns a non-blocking descriptor that the caller owns; −1 with the
 * error set.
 */
int connect_open(const char *address, struct fdclient_error *error);
