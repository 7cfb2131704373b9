/* Methods: a decoded request → a task, or an answer at once. */
#ifndef SERVER_IO_METHOD_H
#define SERVER_IO_METHOD_H

#include "protocol/request.h"

struct connection;

/* The arrays that came with it are in the connection's upload. Every request gets exactly one
 * reply. */
void method_call(struct connection *connection, struct request *request);

#endif
