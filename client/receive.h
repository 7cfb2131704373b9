/* From the socket to the tickets: payload straight to its place, the rest through the splitter. */
#pragma once

#include "client/connection.h"

/* Take what has come, without waiting. An end or an error breaks the connection. */
void receive_some(struct fdclient *client);
