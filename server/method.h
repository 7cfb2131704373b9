/* Methods: a decoded request → a task, or an answer at once. */
#ifndef SERVER_METHOD_H
#define SERVER_METHOD_H

#include "protocol/request.h"

struct connection;
struct field;

/* Takes the references to `uploads`, the arrays that came with it by component (NULL: none). Every
 * request gets exactly one reply. */
void method_call(struct connection *connection, const struct request *request,
                 struct field *uploads[AXIS_COUNT]);

#endif
