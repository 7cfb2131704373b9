/* The answer of `list` as a table for a terminal. */
#pragma once

#include <msgpack.h>
#include <stdio.h>

/* Print {"fields": [{…}, …]}: a column for each key of the first, a line for each field; nothing
 * where there is none. */
void table_print(FILE *out, const msgpack_object *answer);
